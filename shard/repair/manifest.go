package repair

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/tails"
	"tsdbd/tsm"
)

// Manifest fills an empty manifest from the TSM files in dir, which know their
// sequences. Tombstones, moves and the index are not in it. Damaged files are set aside
// in q.
func Manifest(fsys vfs.FS, dir string, m *manifest.Manifest, q *Quarantine) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	var found []keyRange
	for _, name := range names {
		number, ok := manifest.Number(name)
		if !ok {
			continue
		}
		m.Next = max(m.Next, number+1)
		if manifest.TSMName(number) != name && manifest.TailName(number) != name {
			continue
		}
		r, err := open(fsys, dir+"/"+name)
		if err != nil {
			if !binio.Damaged(err) {
				return err
			}
			effect := fmt.Sprintf("Found while the manifest of shard %d was rebuilt: its rows are missing from answers if it counted.", m.Shard)
			if err := q.SetAside(name, err, LossPoints, effect); err != nil {
				return err
			}
			continue
		}
		i := r.Info()
		found = append(found, keysOf(r, number, manifest.File{
			Name: name, Size: i.Size, Checksum: i.Checksum,
			MinSequence: i.MinSequence, MaxSequence: i.MaxSequence, Level: i.Level,
		}))
		if err := r.Release(); err != nil {
			return err
		}
	}
	m.TSM = currentFiles(found)
	for _, f := range m.TSM {
		m.Flushed = max(m.Flushed, f.MaxSequence)
	}
	return nil
}

// open opens a TSM file or a tail, of which it is not to read the body.
func open(fsys vfs.FS, name string) (*tsm.Reader, error) {
	if manifest.IsTail(name) {
		return tsm.OpenTail(fsys, name, tails.Absent{Object: name})
	}
	return tsm.Open(fsys, name)
}

// keyRange is a file with its series and the keys of the first and last of them.
type keyRange struct {
	manifest.File
	number      uint64
	first, last string
	series      *roaring.Bitmap
	known       bool
}

func keysOf(r *tsm.Reader, number uint64, f manifest.File) keyRange {
	k := keyRange{File: f, number: number, series: roaring.New()}
	if r.Len() == 0 {
		return k
	}
	var err, lerr, ierr error
	k.first, err = r.Key(0)
	k.last, lerr = r.Key(r.Len() - 1)
	var page []model.SeriesID
	for i := 0; i < r.Len() && ierr == nil; i += len(page) {
		page, ierr = r.IDs(i, page[:0])
		for _, id := range page {
			k.series.Add(uint32(id))
		}
	}
	k.known = err == nil && lerr == nil && ierr == nil
	return k
}

// currentFiles returns the files that count, in the order of a file set. It leaves
// out what a merge has read if the result of the merge is there. Of two files of
// which one covers the other's sequences the wider, newer one counts: it was
// merged from the other. The result of a merge may be several files that split
// the series; then the last of them must be there, too. Files of the same sequences
// without a common series count all: they are parts of one merge, or of several that
// made moves of some series each.
func currentFiles(found []keyRange) []manifest.File {
	// Wide before narrow, so that a merge's result comes before what it read.
	// Of equal ranges the newest is first, then what splits the series with it.
	slices.SortFunc(found, func(a, b keyRange) int {
		return cmp.Or(cmp.Compare(a.MinSequence, b.MinSequence), cmp.Compare(b.MaxSequence, a.MaxSequence), cmp.Compare(b.number, a.number))
	})
	var out []keyRange
	for _, f := range found {
		same, counts, wider, last := false, true, false, ""
		for _, g := range out {
			switch {
			case g.MinSequence == f.MinSequence && g.MaxSequence == f.MaxSequence:
				same = true
				if !f.known || !g.known || f.series.Intersects(g.series) {
					counts = false // replaced by g
				}
			case g.MinSequence <= f.MinSequence && g.MaxSequence >= f.MaxSequence:
				wider = true
				if last = max(last, g.last); !g.known || !f.known {
					counts = false
				}
			}
		}
		// A merge finishes its files in the order of keys: without the last of
		// them it was cut off.
		if same && !counts || wider && (!counts || last >= f.last) {
			continue
		}
		out = append(out, f)
	}
	// What is older comes first where a merge that was cut off is wider.
	slices.SortStableFunc(out, func(a, b keyRange) int { return cmp.Compare(a.MaxSequence, b.MaxSequence) })
	files := make([]manifest.File, len(out))
	for i, f := range out {
		files[i] = f.File
	}
	return files
}
