package tsi

import "slices"

// maxSeriesID is the largest model.SeriesID.
const maxSeriesID = 1<<32 - 1

const keyPageBits = 8

// keyPages holds the keys of ids that are not on disk yet: pages of 256 ids,
// 16 bytes an id besides the text, which belongs to whoever created the key.
type keyPages struct {
	pages map[uint32]*[1 << keyPageBits]string
	n     int
	text  int
}

func (p *keyPages) get(id uint32) (string, bool) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		return "", false
	}
	k := page[id&(1<<keyPageBits-1)]
	return k, k != ""
}

// bytes returns about what the keys take in memory.
func (p *keyPages) bytes() int64 { return int64(p.text) + 16*int64(p.n) }

func (p *keyPages) set(id uint32, key string) {
	page := p.pages[id>>keyPageBits]
	if page == nil {
		if p.pages == nil {
			p.pages = make(map[uint32]*[1 << keyPageBits]string)
		}
		page = new([1 << keyPageBits]string)
		p.pages[id>>keyPageBits] = page
	}
	slot := &page[id&(1<<keyPageBits-1)]
	if *slot == "" {
		p.n++
		p.text += len(key)
	}
	*slot = key
}

// each calls fn in ascending order of id.
func (p *keyPages) each(fn func(id uint32, key string)) {
	numbers := make([]uint32, 0, len(p.pages))
	for n := range p.pages {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		for i, k := range p.pages[n] {
			if k != "" {
				fn(n<<keyPageBits|uint32(i), k)
			}
		}
	}
}

// slotOf packs a fingerprint and an id. It is never 0, for ids start at 1.
func slotOf(fingerprint uint32, id uint32) uint64 { return uint64(fingerprint)<<32 | uint64(id) }

// slotTable is an open-addressing set of slots, placed by fingerprint. Ids are
// verified by comparing keys; slots are never removed.
type slotTable struct {
	slots []uint64
	n     int
}

// home is where a fingerprint's probe starts in a table of size slots.
func home(fingerprint uint32, size int) int { return int(uint64(fingerprint) * uint64(size) >> 32) }

func (t *slotTable) insert(slot uint64) {
	if (t.n+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	i := home(uint32(slot>>32), len(t.slots))
	for t.slots[i] != 0 {
		if t.slots[i] == slot {
			return
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	t.slots[i] = slot
	t.n++
}

func (t *slotTable) grow() {
	old := t.slots
	t.slots, t.n = make([]uint64, max(16, 2*len(old))), 0
	for _, s := range old {
		if s != 0 {
			t.insert(s)
		}
	}
}

// next returns the first id of the fingerprint at or after probe position
// *pos, and moves *pos behind it; 0 ends the probe. Start with *pos = -1.
func (t *slotTable) next(fingerprint uint32, pos *int) uint32 {
	if len(t.slots) == 0 {
		return 0
	}
	i := *pos
	if i < 0 {
		i = home(fingerprint, len(t.slots))
	}
	for {
		s := t.slots[i]
		if s == 0 {
			return 0
		}
		if i++; i == len(t.slots) {
			i = 0
		}
		if uint32(s>>32) == fingerprint {
			*pos = i
			return uint32(s)
		}
	}
}

// all returns the slots in use, unsorted.
func (t *slotTable) all() []uint64 {
	dst := make([]uint64, 0, t.n)
	for _, s := range t.slots {
		if s != 0 {
			dst = append(dst, s)
		}
	}
	return dst
}
