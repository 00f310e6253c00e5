package shard

import (
	"tsdbd/shard/manifest"
	"tsdbd/tsi"
)

// Export is a shard's published state, held: its files stay on disk until
// Release, whatever is merged or dropped meanwhile (W6).
type Export struct {
	ID       uint64
	Dir      string
	Manifest *manifest.Manifest
	Encoded  []byte // the manifest's bytes, which make Dir's files a shard again

	set   *fileSet
	index *tsi.View
}

// Export references the shard's files, or returns nil when it is closed. Rows
// that only the caches hold are not part of it.
func (s *Shard) Export() (*Export, error) {
	s.mu.RLock()
	if s.mu.closed {
		s.mu.RUnlock()
		return nil, nil
	}
	e := &Export{ID: s.id, Dir: s.dir, set: s.mu.set, index: s.index.View()}
	e.set.acquire()
	m := s.mu.manifest.Clone()
	// A delete or move that came after the last save is in the set alone.
	s.mu.set.Name(m)
	s.mu.RUnlock()
	var err error
	if e.Encoded, err = m.Encode(); err != nil {
		e.Release()
		return nil, err
	}
	e.Manifest = m
	return e, nil
}

// Release gives the references back.
func (e *Export) Release() {
	e.index.Release()
	e.set.release()
}
