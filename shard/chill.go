package shard

import (
	"context"
	"fmt"
	"slices"

	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/shard/tails"
	"tsdbd/tsm"
)

// openFile opens a file of the manifest.
func (s *Shard) openFile(rec *manifest.File) (*tsm.Reader, error) {
	if !rec.Cold() {
		return tsm.Open(s.fs, s.path(rec.Name))
	}
	return tsm.OpenTail(s.fs, s.path(rec.Name), s.body(rec))
}

func (s *Shard) body(rec *manifest.File) tsm.Body {
	if s.cold == nil {
		return tails.Absent{Object: rec.Object()}
	}
	return s.cold(rec.Object(), rec.Size)
}

// Chill brings the bodies of the shard's files to a cold store. Queries read them there
// from then on, and the files go with their last readers. It does so only if the shard is
// merged fully, nothing is in memory only, and no delete or move is yet to be made in these
// files. It reports whether it did.
func (s *Shard) Chill(ctx context.Context, to tails.Store) (did bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	defer vfs.CatchFault(&err)()
	s.compacting.Lock()
	defer s.compacting.Unlock()
	v := s.View()
	if v == nil {
		return false, nil
	}
	defer v.Release()
	in := s.chillable(v)
	if len(in) == 0 {
		return false, nil
	}
	var files []tails.Local
	for _, f := range in {
		files = append(files, tails.Local{File: f.File, Reader: f.reader})
	}
	cold, err := tails.Write(ctx, s.fs, s.dir, files, to)
	tried := false
	if err == nil {
		err = to.Commit(ctx, cold, func() error { tried = true; return s.become(in, cold) })
	}
	if err != nil {
		if !tried {
			tails.Remove(s.fs, s.dir, cold)
		}
		return false, fmt.Errorf("bring shard %d to the cold store: %w", s.id, s.markDamaged(err, in))
	}
	return true, nil
}

// chillable returns the files that Chill may bring to the store.
func (s *Shard) chillable(v *View) (in []*file) {
	if _, dirty := s.FirstUnflushed(); dirty || v.set.Moves.After(v.flushed) > 0 && s.isStuck(v) {
		return nil
	}
	files := v.set.planFiles(v.flushed, s.purging.Load())
	for _, i := range plan.Chill(files, s.maxMerge) {
		if in = append(in, v.set.files[i]); in[len(in)-1].Gone != nil {
			return nil
		}
	}
	return in
}

// become puts files with the same rows in the place of others.
func (s *Shard) become(in []*file, records []manifest.File) error {
	out, err := s.openWritten(records)
	if err != nil {
		return err
	}
	return s.swap(in, out, func(files []*file) []*file {
		files = slices.Clone(files)
		for i, f := range files {
			if k := slices.Index(in, f); k >= 0 {
				files[i] = out[k]
			}
		}
		return files
	}, nil)
}

// Thaw brings the shard's files back from a cold store. It reports whether there were any.
func (s *Shard) Thaw(ctx context.Context, from tails.Store) (did bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	s.compacting.Lock()
	defer s.compacting.Unlock()
	v := s.View()
	if v == nil {
		return false, nil
	}
	defer v.Release()
	for _, f := range v.set.files {
		if !f.Cold() {
			continue
		}
		rec, err := tails.Fetch(ctx, s.fs, s.dir, f.File, s.takeNumber(), from)
		if err == nil {
			err = s.become([]*file{f}, []manifest.File{rec})
		}
		if err != nil {
			return did, fmt.Errorf("bring shard %d back: %w", s.id, err)
		}
		did = true
	}
	return did, nil
}

// Purge writes cold files again that have rows which do not count, because they were
// deleted or belong to other series now, until none has. The new files are local.
func (s *Shard) Purge(ctx context.Context) (did bool, err error) {
	s.purging.Store(true)
	defer s.purging.Store(false)
	if s.Cold().Bytes == 0 {
		return false, nil
	}
	for {
		more, err := s.Compact(ctx, true)
		if did = did || more; !more || err != nil {
			return did, err
		}
	}
}

// Cold returns what the shard has in the cold store, and beside it.
func (s *Shard) Cold() tails.Held {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return tails.HeldBy(s.mu.manifest, s.mu.dirty != 0)
}
