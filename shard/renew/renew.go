// Package renew puts the files of another node in place of those of a shard that has
// damage.
//
// Files of two nodes that hold the same differ, because their flushes and merges came at
// other times. So a shard is renewed as a whole. The other node's files are a cut: they have
// every entry of the log up to its sequence, and nothing of later ones. The files of
// this shard that came later stay. What was deleted since the cut is hidden in the new files
// by tombstones: the shard's own manifest may have dropped them, for its damaged files
// had nothing to hide.
//
// The owner of the shard sees to it that each of its files has either only entries up
// to the cut, or in its sequences only later ones (shard.Snapshot.Above), and that no merge
// joins the two. Rows of the cut that are also in later files are the same rows.
package renew

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
)

// ErrNotNow says that something came between: the same may succeed later, with another cut.
var ErrNotNow = errors.New("the shard changed meanwhile")

// Files are those of the shard on another node.
type Files struct {
	From     string // name of the node
	Cut      uint64 // they have every entry up to it, and nothing of later ones
	Manifest *manifest.Manifest
	// Path returns where the content of a file is, which nobody changes.
	Path func(name string) string
}

// Put makes m the manifest of a shard with the files. dir is the shard's directory, where
// they get names of their own. The files that m names have every entry up to applied.
// deleted are the tombstones of the entries since the cut; it may have older ones. Files that
// m does not name any more are nobody's then, and the index has to be built.
func (f *Files) Put(fsys vfs.FS, dir string, m *manifest.Manifest, applied uint64, deleted []*manifest.Tombstone) error {
	cut := f.Cut
	if applied < cut {
		return fmt.Errorf("%w: its files have entries up to %d, those of %s up to %d", ErrNotNow, applied, f.From, cut)
	}
	m.Flushed = max(m.Flushed, applied)
	var files []manifest.File
	for _, t := range f.Manifest.TSM {
		from := f.Path(t.Name)
		t.Name = manifest.TSMName(m.Next)
		m.Next++
		// A crash may have left a file of that name.
		to := path.Join(dir, t.Name)
		if err := fsys.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := vfs.Link(fsys, from, to); err != nil {
			return fmt.Errorf("put file of %s in place: %w", f.From, err)
		}
		files = append(files, t)
	}
	for _, t := range m.TSM {
		switch {
		case t.MinSequence > cut:
			files = append(files, t)
		case t.MaxSequence > cut:
			return fmt.Errorf("%w: %s has entries %d to %d, those of %s end with %d", ErrNotNow, t.Name, t.MinSequence, t.MaxSequence, f.From, cut)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	events := f.Manifest.Events()
	for _, t := range deleted {
		if t.Sequence > cut {
			events = events.With(t)
		}
	}
	m.TSM, m.TSI, m.Removed = files, nil, roaring.New()
	events = events.Live(files, 0)
	m.Tombstones, m.Moves = events.Tombstones, events.Moves.All()
	return nil
}
