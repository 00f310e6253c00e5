package shard

// fact is what the compaction planner knows of a file.
type fact struct {
	size    int64
	level   int
	masked  bool // tombstones hide rows of it
	damaged bool // reading it failed; it is left alone
}

const (
	// fanIn is how many neighbours of one level make a merge worth while.
	fanIn = 4
	// maxRun bounds how many files one merge reads.
	maxRun = 16
	// maxFileBytes is the size a merged file should not exceed.
	maxFileBytes = 2 << 30
	// fullLevel marks the result of a full compaction.
	fullLevel = 9
)

// plan chooses the neighbours [lo, hi) of files, in sequence order, to merge
// next, and the level of the result; lo == hi means that nothing is to do. It
// is a pure function. A cold shard ends as one full-level run of files as
// large as allowed; a warm one merges fanIn or more neighbours of the lowest
// level that has them.
func plan(files []fact, cold bool) (lo, hi, level int) {
	if cold {
		for lo = 0; lo < len(files); lo = max(hi, lo+1) {
			if hi = lo; files[lo].damaged {
				continue
			}
			size := int64(0)
			for hi < len(files) && hi-lo < maxRun && !files[hi].damaged && (hi == lo || size+files[hi].size <= maxFileBytes) {
				size += files[hi].size
				hi++
			}
			if hi-lo > 1 || files[lo].masked {
				return lo, hi, fullLevel
			}
		}
		return 0, 0, 0
	}
	for want := range fullLevel {
		for lo = 0; lo < len(files); lo = max(hi, lo+1) {
			hi = lo
			size := int64(0)
			for hi < len(files) && hi-lo < maxRun && files[hi].level == want && !files[hi].damaged && size+files[hi].size <= maxFileBytes {
				size += files[hi].size
				hi++
			}
			if hi-lo >= fanIn {
				return lo, hi, want + 1
			}
		}
	}
	return 0, 0, 0
}
