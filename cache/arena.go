package cache

// A row's reference is slab<<slabBits | word offset. Slabs grow from small to
// large, so that a shard with little data costs little.
const (
	slabBits     = 16
	maxSlabWords = 1 << slabBits
	minSlabWords = 1 << 9

	stringSlabBits    = 21 // offsets of string words: slab<<21 | byte offset
	stringSlab        = 1 << stringSlabBits
	minStringSlab     = 1 << minStringSlabBits
	minStringSlabBits = 12
)

// arena allocates runs of words that never move.
type arena struct {
	kept  *Slabs
	slabs [][]uint64
	used  int // words used of the last slab
	bytes int64
}

// alloc returns the reference and memory of n consecutive words. They may have any value.
func (a *arena) alloc(n int) (ref uint64, words []uint64) {
	last := len(a.slabs) - 1
	if last < 0 || a.used+n > len(a.slabs[last]) {
		size := minSlabWords << min(len(a.slabs), slabBits)
		size = max(min(size, maxSlabWords), n)
		slab := a.kept.take(size)
		if slab == nil {
			slab = make([]uint64, size)
		}
		a.slabs = append(a.slabs, slab)
		a.bytes += int64(size) * 8
		a.used = 0
		last++
	}
	ref = uint64(last)<<slabBits | uint64(a.used)
	words = a.slabs[last][a.used : a.used+n : a.used+n]
	a.used += n
	return ref, words
}

// at returns the words of a slab list from ref on.
func at(slabs [][]uint64, ref uint64) []uint64 {
	return slabs[ref>>slabBits][ref&(maxSlabWords-1):]
}

// stringArena allocates string bytes that never move.
type stringArena struct {
	slabs [][]byte
	used  int
	bytes int64
}

// add copies s and returns its offset.
func (a *stringArena) add(s []byte) uint64 {
	last := len(a.slabs) - 1
	if last < 0 || a.used+len(s) > len(a.slabs[last]) {
		size := min(minStringSlab<<min(2*len(a.slabs), stringSlabBits-minStringSlabBits), stringSlab)
		for size < len(s) {
			size *= 2
		}
		a.slabs = append(a.slabs, make([]byte, size))
		a.bytes += int64(size)
		a.used = 0
		last++
	}
	off := a.used
	copy(a.slabs[last][off:], s)
	a.used += len(s)
	return uint64(last)<<stringSlabBits | uint64(off)
}
