package shard

import (
	"context"
	"fmt"
	"slices"

	"tsdbd/cache"
	"tsdbd/shard/build"
	"tsdbd/shard/manifest"
	"tsdbd/tsi"
)

// Snapshot is a cut of a shard's caches and index on its way to files. It is one cache,
// or several where moves have come since the last one: a file for each.
type Snapshot struct {
	sequence uint64
	caches   []cut
	index    *tsi.Snapshot
}

// Freeze cuts the active cache at sequence: everything up to it has been
// applied, nothing after it. It is called between two entries by the applier's
// side and returns nil when there is nothing to flush or a flush still runs.
func (s *Shard) Freeze(sequence uint64) *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || s.mu.frozen > 0 || s.mu.dirty == 0 {
		return nil
	}
	s.mu.cuts = append(s.mu.cuts, cut{s.mu.active, s.mu.first, sequence})
	s.mu.frozen = len(s.mu.cuts)
	snap := &Snapshot{sequence: sequence, caches: slices.Clone(s.mu.cuts)}
	s.mu.active = cache.New(observer{s}, s.slabs)
	s.mu.first, s.mu.dirty = 0, 0
	snap.index = s.index.Freeze()
	return snap
}

// Above says that the rows of a snapshot that came up to sequence are the same as those of
// files that the shard is to get: in its sequences, the snapshot has only what came later.
func (s *Snapshot) Above(sequence uint64) {
	for i, c := range s.caches {
		if c.first != 0 {
			s.caches[i].first = max(c.first, sequence+1)
		}
	}
}

// Flush publishes a snapshot: TSM file, TSI file, series file, then the
// manifest. On error the snapshot stays frozen and readable, and Flush may be
// called again with it.
func (s *Shard) Flush(ctx context.Context, snap *Snapshot) (err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	first := !s.mu.saved
	s.mu.Unlock()
	if first {
		if err := s.saveAgain(); err != nil {
			return fmt.Errorf("flush shard %d: %w", s.id, err)
		}
	}

	out, indexFile, err := s.writeFiles(ctx, snap)
	if err == nil {
		err = s.publish(snap, out, indexFile)
	}
	if err != nil {
		return fmt.Errorf("flush shard %d: %w", s.id, err)
	}
	return nil
}

// writeFiles makes the snapshot's files durable and opens them; nil for what
// would be empty. On error it leaves none behind.
func (s *Shard) writeFiles(ctx context.Context, snap *Snapshot) (out []*file, index *indexFile, err error) {
	var records []manifest.File
	defer func() {
		if err == nil {
			return
		}
		release(out)
		if index != nil {
			records = append(records, index.record)
		}
		for _, rec := range records {
			_ = s.fs.Remove(s.path(rec.Name))
		}
	}()
	for _, c := range snap.caches {
		if c.first == 0 {
			continue
		}
		written, err := build.Dump(ctx, s.newRun(manifest.File{MinSequence: c.first, MaxSequence: c.sequence}), s.series.Keys, c.cache)
		if err != nil {
			return nil, index, err
		}
		records = append(records, written...)
	}
	if !snap.index.Empty() {
		index = &indexFile{record: manifest.File{Name: manifest.TSIName(s.takeNumber())}}
		info, err := snap.index.WriteFile(s.fs, s.path(index.record.Name))
		if err != nil {
			return nil, index, err
		}
		index.record.Size, index.record.Checksum = info.Bytes, info.Hash
	}
	if err := s.series.Sync(); err != nil {
		return nil, index, err
	}
	if out, err = s.openWritten(records); err != nil {
		return nil, index, err
	}
	for _, f := range out {
		s.counters.FlushBytes.Add(f.Size)
	}
	if index != nil {
		index.File, err = tsi.OpenFile(s.fs, s.path(index.record.Name))
	}
	return out, index, err
}

// indexFile is an open TSI file with its record.
type indexFile struct {
	*tsi.File
	record manifest.File
}

// publish commits a flush.
func (s *Shard) publish(snap *Snapshot, out []*file, index *indexFile) error {
	var fresh []string
	for _, f := range out {
		fresh = append(fresh, f.Name)
	}
	var opened *tsi.File
	if index != nil {
		opened = index.File
		fresh = append(fresh, index.record.Name)
	}
	var files []*file
	err := s.change(func(m *manifest.Manifest) error {
		s.mu.RLock()
		defer s.mu.RUnlock()
		files = slices.Concat(s.mu.set.files, out)
		m.Flushed, m.TSM, m.Removed = snap.sequence, records(files), snap.index.Removed()
		if index != nil {
			m.TSI = append(m.TSI, index.record)
		}
		s.mu.set.Live(m.TSM, 0).Name(m)
		return nil
	}, func() {
		for _, c := range s.mu.cuts[:s.mu.frozen] {
			c.cache.Release()
		}
		s.mu.cuts, s.mu.frozen = slices.Delete(s.mu.cuts, 0, s.mu.frozen), 0
		// Deletes and moves that came meanwhile are in the set too.
		s.mu.set = newFileSet(files, s.mu.set.Live(records(files), s.pendingLocked()))
		s.index.Publish(snap.index, opened)
	}, fresh...)
	if err != nil {
		release(out)
		if opened != nil {
			_ = opened.Release()
		}
	}
	return err
}
