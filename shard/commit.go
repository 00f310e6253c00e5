package shard

import (
	"errors"
	"io/fs"
	"slices"

	"tsdbd/shard/manifest"
)

// commit makes m the manifest on disk; s.writing is held. fresh are the names
// of files that m is the first to name. After a failure they are removed, but
// if a manifest on disk may be m already, its rename being done and not yet
// durable, only once another manifest that does not name them is durable: no
// crash finds a manifest without its files, and no retry fills the disk.
func (s *Shard) commit(m *manifest.Manifest, fresh ...string) error {
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
	s.mu.saved = true
	s.mu.Unlock()
	return nil
}

// saveFirst puts the shard's first manifest on disk, before its first file:
// from then on files without a manifest are damage, not a flush cut off.
func (s *Shard) saveFirst() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.Clone()
	s.mu.RUnlock()
	return s.commit(m)
}

// SaveAgain writes both copies of the manifest again, because one on disk is damaged.
func (s *Shard) SaveAgain() error {
	s.flushing.Lock() // Close waits
	defer s.flushing.Unlock()
	if s.closing.Err() != nil || !s.Saved() {
		return nil
	}
	return s.saveFirst()
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
