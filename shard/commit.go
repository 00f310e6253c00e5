package shard

import (
	"errors"
	"slices"

	"tsdbd/internal/binio"
)

// commit makes m the manifest on disk; s.writing is held. fresh are the names
// of files that m is the first to name. After a failure they are removed, but
// if a manifest on disk may be m already, its rename being done and not yet
// durable, only once another manifest that does not name them is durable: no
// crash finds a manifest without its files, and no retry fills the disk.
func (s *Shard) commit(m *manifest, fresh ...string) error {
	err := s.save(m)
	if err != nil {
		if s.mayName(fresh) {
			s.limbo = append(s.limbo, fresh...)
		} else {
			s.remove(fresh)
		}
		return err
	}
	s.remove(slices.DeleteFunc(s.limbo, m.names))
	s.limbo = nil
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
	m := s.mu.manifest.clone()
	s.mu.RUnlock()
	return s.commit(m)
}

// remove removes files that nothing names.
func (s *Shard) remove(names []string) {
	for _, name := range names {
		if err := s.fs.Remove(s.path(name)); err != nil {
			s.logger.Warn("file not removed, the next start will", "shard", s.id, "path", s.path(name), "err", err)
		}
	}
}

// names reports whether the manifest names a file.
func (m *manifest) names(name string) bool {
	return slices.ContainsFunc(m.tsm, func(f fileRecord) bool { return tsmName(f.number) == name }) ||
		slices.ContainsFunc(m.tsi, func(f fileRecord) bool { return tsiName(f.number) == name })
}

// blame marks the file that an error of a read says is damaged, so that merges
// leave it alone. Any other error, as of a full disk, blames none.
func (s *Shard) blame(err error, in []*file) {
	var c *binio.CorruptError
	if !errors.As(err, &c) {
		return
	}
	for _, f := range in {
		if f.reader.Path() == c.Path && f.damage.CompareAndSwap(nil, c) {
			s.logger.Error("file damaged, it serves what is sound and is not merged any more", "shard", s.id, "path", c.Path, "offset", c.Offset, "err", c.Reason)
		}
	}
}

// Damaged returns the damage of the shard's files that reads have met since it
// was opened, one of each file.
func (s *Shard) Damaged() (out []*binio.CorruptError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.mu.set.files {
		if d := f.damage.Load(); d != nil {
			out = append(out, d)
		}
	}
	return out
}
