// Package plan chooses which files of a shard to merge next. It is a pure function of
// what the files are.
package plan

import (
	"math/bits"
	"slices"
)

// File is what the planner knows of a file.
type File struct {
	Size       int64
	Level      int
	Part       bool // of the same run as the file before it
	Rows       int64
	Hidden     int64 // rows that tombstones hide, or whose series the file has no more
	Tombstones int   // that apply to it
	Moves      int   // that concern it, and no cache; not more than the file before it has
	AtMove     bool  // it has rows that a move which waits has moved; it is not merged with others
	Damaged    bool  // reading it failed; it is left alone
	Cold       bool  // its rows are not on this machine; mostly it is left alone
	Purge      bool  // rows that do not count are to go, however few they are
}

const (
	// FanIn is how many neighbours of one level make a merge worth while.
	FanIn = 4
	// maxRun bounds how many files one merge reads.
	maxRun = 16
	// MaxFileBytes is the size at which a merge begins another file: 2 GiB, or
	// 256 MiB where addresses have 32 bits, of which files are mapped whole.
	MaxFileBytes = 1 << (25 + 3*bits.UintSize/32)
	// MaxMergeBytes is how much one merge reads at most, and so the disk space that
	// it takes until it is published.
	MaxMergeBytes = 16 << 30
	// FullLevel marks the result of a full compaction, in dense blocks.
	FullLevel = 9
	// A file of a cold shard's first run that nothing is to be merged with is
	// rewritten for dense blocks if it is as large.
	denseBytes = 1 << 20
	// A cold run of more than smallBytes is not merged with what is newer when
	// that is smaller by more than coldRatio: few late rows do not cause a large shard to be rewritten.
	coldRatio = 8
	// A file is rewritten for its tombstones alone when they hide more than
	// one row in warmHidden, or coldHidden in a cold shard; when they are more
	// than MaxTombstones; or when the shard is cold and the file small.
	warmHidden    = 4
	coldHidden    = 10
	MaxTombstones = 64
	smallBytes    = 64 << 20
	// More moves than these are worth a merge while the shard is warm, or its files are cold.
	warmMoves = 16
	// More runs of cold files than these are merged like others: what reads have to look at
	// stays bounded, however often late rows come.
	maxColdRuns = 8
	// Local files follow cold ones to the store when they are as large as one lateShare-th
	// of these, or as smallBytes.
	lateShare = 8
)

// run is neighbouring files that cover the same sequences and split the
// series; most runs are one file.
type run struct {
	lo, hi int // files
	size   int64
	level  int
	moves  int
	alone  bool // not to be merged with others
	cold   bool
}

func runs(files []File) []run {
	var out []run
	cold := 0
	for i, f := range files {
		if !f.Part || i == 0 {
			out = append(out, run{lo: i, hi: i, moves: f.Moves})
		}
		r := &out[len(out)-1]
		r.hi++
		r.size += f.Size
		r.level = max(r.level, f.Level)
		r.alone = r.alone || f.Damaged || f.AtMove
		if f.Cold && !r.cold {
			r.cold = true
			cold++
		}
	}
	if cold <= maxColdRuns {
		for i := range out {
			out[i].alone = out[i].alone || out[i].cold
		}
	}
	return out
}

// Next chooses the neighbours [lo, hi) of files, in sequence order, to merge
// next, and the level of the result; lo == hi means that nothing is to do. It
// is a pure function. Runs are merged whole; a single file is rewritten to
// apply its tombstones, or once for dense blocks. A cold shard ends as few runs, each much larger than
// all newer ones together; a warm one merges FanIn or more neighbours of the
// lowest level that has them. No merge goes across a move that waits. No
// merge of several runs reads more than mergeBytes.
//
// It comes to an end: a merge leaves fewer runs, and a rewritten file has
// no tombstones and fewer rows, or FullLevel. A byte is read once per level while its shard
// is warm, and while it is cold when its run is not coldRatio times what came
// after it.
func Next(files []File, cold bool, mergeBytes int64) (lo, hi, level int) {
	if i := mostlyMoved(files); i >= 0 {
		return i, i + 1, files[i].Level
	}
	all := runs(files)
	for from := 0; from < len(all); from++ {
		to := from
		for to < len(all) && !all[to].alone && all[to].moves == all[from].moves {
			to++
		}
		if cold {
			lo, hi, level = planCold(all[from:to], mergeBytes)
		} else {
			lo, hi, level = planWarm(all[from:to], mergeBytes)
		}
		if lo < hi {
			return lo, hi, level
		}
		from = max(from, to-1)
	}
	for i := range files {
		if f := &files[i]; !f.Damaged && f.worthRewriting(cold) {
			return i, i + 1, f.Level
		}
	}
	for i := range files {
		f := &files[i]
		if !cold || i > 0 && !f.Part {
			break
		}
		if !f.Damaged && !f.Cold && f.Level < FullLevel && f.Size >= denseBytes {
			return i, i + 1, FullLevel
		}
	}
	return 0, 0, 0
}

// MovesDue reports whether moves wait that a merge is to apply, before what Next chooses: all
// of a cold shard, many of a warm one or of one with cold files. What a merge has left of files that it took most rows
// from is to be written again before the next one takes more: else moves would need the
// space of a shard twice.
func MovesDue(files []File, cold bool) bool {
	cold = cold && !slices.ContainsFunc(files, func(f File) bool { return f.Cold && f.Moves > 0 })
	return len(files) > 0 && (files[0].Moves > warmMoves || cold && files[0].Moves > 0) && mostlyMoved(files) < 0
}

// mostlyMoved returns the first file that moves concern of which most rows do not count, -1
// if there is none.
func mostlyMoved(files []File) int {
	return slices.IndexFunc(files, func(f File) bool { return f.Moves > 0 && !f.Damaged && !f.Cold && f.Hidden > f.Rows/2 })
}

// worthRewriting reports whether rows that do not count make it worth while to write a
// file again by itself. Tombstones that hide nothing do not: a delete of nothing, said every
// minute, must not keep the disk busy.
func (f *File) worthRewriting(cold bool) bool {
	switch {
	case f.Hidden == 0 || f.Cold:
		return false
	case f.Purge:
		return true
	case f.Hidden*warmHidden > f.Rows, f.Tombstones > MaxTombstones:
		return true
	}
	return cold && (f.Hidden*coldHidden > f.Rows || f.Size < smallBytes)
}

// planWarm chooses FanIn or more runs of the lowest level that has them, and
// those of lower levels between them.
func planWarm(all []run, mergeBytes int64) (lo, hi, level int) {
	for want := range FullLevel {
		for from := range all {
			if all[from].level != want {
				continue
			}
			n, end, files, size := 0, from, 0, int64(0)
			for i := from; i < len(all) && all[i].level <= want; i++ {
				files += all[i].hi - all[i].lo
				if size += all[i].size; files > maxRun || size > mergeBytes {
					break
				}
				if all[i].level == want {
					n, end = n+1, i
				}
			}
			if n >= FanIn {
				return all[from].lo, all[end].hi, want + 1
			}
		}
	}
	return 0, 0, 0
}

// planCold chooses what comes after the runs that are left alone; where that
// is too much for one merge, the smallest of the widest choices.
func planCold(all []run, mergeBytes int64) (lo, hi, level int) {
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
			if to > from && (n > maxRun || s > mergeBytes) {
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
	if level = min(level+1, FullLevel-1); len(best) == len(all) {
		level = FullLevel
	}
	return best[0].lo, best[len(best)-1].hi, level
}

// Chill returns the files that may go to the cold store: all local ones of a shard that is
// merged fully, unless a delete or move is yet to be made in one, or they are few late rows.
func Chill(files []File, mergeBytes int64) (local []int) {
	if lo, hi, _ := Next(files, true, mergeBytes); lo < hi || MovesDue(files, true) {
		return nil
	}
	var bytes, cold int64
	for i, f := range files {
		switch {
		case f.Cold:
			cold += f.Size
		case f.Damaged || f.Purge || f.Tombstones > 0 || f.Moves > 0:
			return nil
		default:
			bytes += f.Size
			local = append(local, i)
		}
	}
	if cold > 0 && bytes < min(cold/lateShare, smallBytes) {
		return nil
	}
	return local
}
