package repair

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
)

// Found is the manifest of a shard that Load has found.
type Found struct {
	*manifest.Manifest
	Saved bool // it is on disk
	Stale bool // it must be saved again
	Lost  bool // the manifest was rebuilt from TSM files
}

// Load returns the manifest of a shard, given its two copies. If both copies are damaged,
// or gone while there are TSM files, it fills m, which is empty, from these. known is what
// the ledger says of the shard's manifest; an older one is damage. A manifest of another shard or data directory is an
// identity.ErrForeign, unless the other copy is sound.
func Load(fsys vfs.FS, dir string, m *manifest.Manifest, known manifest.Known, best, other manifest.Copy, q *Quarantine) (found Found, err error) {
	found = Found{Manifest: m, Saved: best.Err == nil || other.Err == nil}
	for _, err := range []error{best.Err, other.Err} {
		if err != nil && !binio.Damaged(err) && !(errors.Is(err, identity.ErrForeign) && found.Saved) {
			return Found{}, err
		}
	}
	gone := func(c manifest.Copy) bool { return errors.Is(c.Err, fs.ErrNotExist) }
	if found.Saved {
		if best.Err != nil || other.Err == nil && other.Manifest.Edition > best.Manifest.Edition {
			best, other = other, best
		}
		// A crash may cut the first manifest off between the two names.
		if other.Err != nil && !gone(other) {
			err = q.SetAside(path.Base(other.Path), other.Err, LossNone, fmt.Sprintf("The other copy of the manifest of shard %d was used: nothing is lost.", m.Shard))
		}
		found.Manifest, found.Stale = best.Manifest, !bytes.Equal(best.Bytes, other.Bytes)
		if older := known.Check(best.Manifest); older != nil && err == nil {
			effect := fmt.Sprintf("The directory of shard %d is an older copy. Points that were written since are missing from answers, and points that were deleted since and old names of moved series are back, except for what the log still has.", m.Shard)
			found.Stale = true
			err = q.Note(manifest.Name, older, LossNewest, effect)
		}
		return found, err
	}
	if gone(best) && gone(other) {
		// The first manifest is written before the first file: without any the
		// shard is new.
		names, err := fsys.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Found{}, err
		}
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".tsm") || manifest.IsTail(n) }) {
			if err := errors.Join(fsys.MkdirAll(dir), fsys.SyncDir(path.Dir(dir))); err != nil {
				return Found{}, err
			}
			if known.Edition == 0 {
				return found, nil
			}
			effect := fmt.Sprintf("The files of shard %d are gone. Its points are missing from answers, except for those that the log still has.", m.Shard)
			found.Stale = true
			return found, q.Note(manifest.Name, fmt.Errorf("the files of shard %d are gone: %w", m.Shard, best.Err), LossPoints, effect)
		}
	}
	effect := fmt.Sprintf("The manifest of shard %d was rebuilt from its TSM files. Tombstones and moves are lost: rows that were deleted and not yet merged away are back, and rows of renamed series that were not yet merged have their old names, unless the log still has the delete or move.", m.Shard)
	for _, c := range []manifest.Copy{best, other} {
		if c.Path == best.Path || !gone(c) {
			if err := q.SetAside(path.Base(c.Path), c.Err, LossDeletes, effect); err != nil {
				return Found{}, err
			}
		}
	}
	found.Stale, found.Lost = true, true
	return found, Manifest(fsys, dir, m, q)
}
