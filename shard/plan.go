package shard

import "math/bits"

// planFile is what the compaction planner knows of a file.
type planFile struct {
	size       int64
	level      int
	part       bool // of the same run as the file before it
	rows       int64
	hidden     int64 // rows that tombstones hide
	tombstones int   // that apply to it
	damaged    bool  // reading it failed; it is left alone
}

const (
	// fanIn is how many neighbours of one level make a merge worth while.
	fanIn = 4
	// maxRun bounds how many files one merge reads.
	maxRun = 16
	// maxFileBytes is the size at which a merge begins another file: 2 GiB, or
	// 256 MiB where addresses have 32 bits, of which files are mapped whole.
	maxFileBytes = 1 << (25 + 3*bits.UintSize/32)
	// maxMergeBytes bounds what one merge reads, and so the disk space it
	// takes until it is published.
	maxMergeBytes = 16 << 30
	// fullLevel marks the result of a full compaction, in dense blocks.
	fullLevel = 9
	// A file of a cold shard's first run that nothing is to be merged with is
	// rewritten for dense blocks if it is as large.
	denseBytes = 1 << 20
	// A cold run of more than smallBytes is not merged with what is newer when
	// that is smaller by more than coldRatio: few late rows do not cause a large shard to be rewritten.
	coldRatio = 8
	// A file is rewritten for its tombstones alone when they hide more than
	// one row in warmHidden, or coldHidden in a cold shard; when they are more
	// than maxTombstones; or when the shard is cold and the file small.
	warmHidden    = 4
	coldHidden    = 10
	maxTombstones = 64
	smallBytes    = 64 << 20
)

// run is neighbouring files that cover the same sequences and split the
// series; most runs are one file.
type run struct {
	lo, hi  int // files
	size    int64
	level   int
	damaged bool
}

func runs(files []planFile) []run {
	var out []run
	for i, f := range files {
		if !f.part || i == 0 {
			out = append(out, run{lo: i, hi: i})
		}
		r := &out[len(out)-1]
		r.hi++
		r.size += f.size
		r.level = max(r.level, f.level)
		r.damaged = r.damaged || f.damaged
	}
	return out
}

// plan chooses the neighbours [lo, hi) of files, in sequence order, to merge
// next, and the level of the result; lo == hi means that nothing is to do. It
// is a pure function. Runs are merged whole; a single file is rewritten to
// apply its tombstones, or once for dense blocks. A cold shard ends as few runs, each much larger than
// all newer ones together; a warm one merges fanIn or more neighbours of the
// lowest level that has them.
//
// It comes to an end: a merge leaves fewer runs, and a rewritten file has
// no tombstones and fewer rows, or fullLevel. A byte is read once per level while its shard
// is warm, and while it is cold when its run is not coldRatio times what came
// after it.
func plan(files []planFile, cold bool) (lo, hi, level int) {
	all := runs(files)
	for from := 0; from < len(all); from++ {
		to := from
		for to < len(all) && !all[to].damaged {
			to++
		}
		if cold {
			lo, hi, level = planCold(all[from:to])
		} else {
			lo, hi, level = planWarm(all[from:to])
		}
		if lo < hi {
			return lo, hi, level
		}
		from = to
	}
	for i := range files {
		if f := &files[i]; !f.damaged && f.worthRewriting(cold) {
			return i, i + 1, f.level
		}
	}
	for i := range files {
		f := &files[i]
		if !cold || i > 0 && !f.part {
			break
		}
		if !f.damaged && f.level < fullLevel && f.size >= denseBytes {
			return i, i + 1, fullLevel
		}
	}
	return 0, 0, 0
}

// worthRewriting reports whether tombstones alone make it worth while to write a file
// anew. Those that hide nothing do not: a delete of nothing, said every
// minute, must not keep the disk busy.
func (f *planFile) worthRewriting(cold bool) bool {
	switch {
	case f.hidden == 0:
		return false
	case f.hidden*warmHidden > f.rows, f.tombstones > maxTombstones:
		return true
	}
	return cold && (f.hidden*coldHidden > f.rows || f.size < smallBytes)
}

// planWarm chooses fanIn or more runs of the lowest level that has them, and
// those of lower levels between them.
func planWarm(all []run) (lo, hi, level int) {
	for want := range fullLevel {
		for from := range all {
			if all[from].level != want {
				continue
			}
			n, end, files, size := 0, from, 0, int64(0)
			for i := from; i < len(all) && all[i].level <= want; i++ {
				files += all[i].hi - all[i].lo
				if size += all[i].size; files > maxRun || size > maxMergeBytes {
					break
				}
				if all[i].level == want {
					n, end = n+1, i
				}
			}
			if n >= fanIn {
				return all[from].lo, all[end].hi, want + 1
			}
		}
	}
	return 0, 0, 0
}

// planCold chooses what comes after the runs that are left alone; where that
// is too much for one merge, the smallest of the widest choices.
func planCold(all []run) (lo, hi, level int) {
	newer := int64(0)
	first := len(all)
	for i := len(all) - 1; i >= 0; i-- {
		if i < len(all)-1 && all[i].size <= max(coldRatio*newer, smallBytes) {
			first = i
		}
		newer += all[i].size
	}
	if first == len(all) {
		return 0, 0, 0
	}
	all = all[first:]
	var best []run
	var bestSize int64
	for from := range all {
		files, size, to := 0, int64(0), from
		for to < len(all) {
			n, s := files+all[to].hi-all[to].lo, size+all[to].size
			if to > from && (n > maxRun || s > maxMergeBytes) {
				break
			}
			files, size, to = n, s, to+1
		}
		if n := to - from; n > 1 && (n > len(best) || n == len(best) && size < bestSize) {
			best, bestSize = all[from:to], size
		}
	}
	if best == nil {
		return 0, 0, 0
	}
	for _, r := range best {
		level = max(level, r.level)
	}
	if level = min(level+1, fullLevel-1); len(best) == len(all) {
		level = fullLevel
	}
	return best[0].lo, best[len(best)-1].hi, level
}
