package shard

import (
	"errors"
	"io/fs"
	"slices"

	"tsdbd/shard/manifest"
)

// change commits a change of the shard. edit makes it in a copy of the manifest. Once the
// copy is on disk, publish makes it in memory, with s.mu held. An error of edit changes nothing.
//
// fresh are the names of files that the copy is the first to name. If it cannot be saved they
// are removed, but if a manifest on disk may be the copy already, its rename being done and not
// yet durable, only once another manifest that does not name them is durable: no
// crash finds a manifest without its files, and no retry fills the disk.
func (s *Shard) change(edit func(m *manifest.Manifest) error, publish func(), fresh ...string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.Clone()
	s.mu.RUnlock()
	if err := edit(m); err != nil {
		return err
	}
	if err := s.save(m); err != nil {
		if s.mayBeNamed(fresh) {
			s.maybeNamed = append(s.maybeNamed, fresh...)
		} else {
			s.remove(fresh)
		}
		return err
	}
	s.remove(slices.DeleteFunc(s.maybeNamed, m.Has))
	s.maybeNamed = nil
	s.mu.Lock()
	old := s.mu.set
	m.Next = max(m.Next, s.mu.manifest.Next)
	s.mu.manifest, s.mu.saved = m, true
	publish()
	replaced := s.mu.set != old
	s.mu.Unlock()
	if replaced {
		old.release()
	}
	return nil
}

// saveAgain puts the manifest on disk as it is. The first one is there before the first
// file: from then on files without a manifest are damage, not a flush cut off.
func (s *Shard) saveAgain() error {
	return s.change(func(*manifest.Manifest) error { return nil }, func() {})
}

// SaveAgain writes both copies of the manifest again, because one on disk is damaged.
func (s *Shard) SaveAgain() error {
	s.flushing.Lock() // Close waits
	defer s.flushing.Unlock()
	if s.closing.Err() != nil || !s.Saved() {
		return nil
	}
	return s.saveAgain()
}

// remove removes files that nothing names.
func (s *Shard) remove(names []string) {
	for _, name := range names {
		if err := s.fs.Remove(s.path(name)); err != nil {
			s.logger.Warn("file not removed, the next start will", "shard", s.id, "path", s.path(name), "err", err)
		}
	}
}

// save makes m the shard's state, durably: the commit point. s.writing is held,
// or no other goroutine knows the shard yet.
func (s *Shard) save(m *manifest.Manifest) error {
	s.edition++ // also after a failure: a copy may have it
	m.Edition = s.edition
	return m.Save(s.fs, s.dir)
}

// mayBeNamed reports whether a manifest on disk may name one of the files.
func (s *Shard) mayBeNamed(files []string) bool {
	return slices.ContainsFunc(manifest.Names[:], func(name string) bool {
		c := s.readCopy(name)
		if c.Err != nil {
			return !errors.Is(c.Err, fs.ErrNotExist)
		}
		return slices.ContainsFunc(files, c.Manifest.Has)
	})
}
