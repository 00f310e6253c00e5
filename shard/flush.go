package shard

import (
	"context"
	"fmt"
	"slices"

	"tsdbd/cache"
	"tsdbd/shard/dump"
	"tsdbd/shard/manifest"
	"tsdbd/tsi"
	"tsdbd/tsm"
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
	if s.mu.closed || s.mu.frozen != nil || s.mu.dirty == 0 {
		return nil
	}
	s.mu.frozen = append(s.mu.sealed, cut{s.mu.active, s.mu.first, sequence})
	s.mu.sealed = nil
	snap := &Snapshot{sequence: sequence, caches: s.mu.frozen}
	s.mu.active = cache.New(observer{s})
	s.mu.first, s.mu.dirty = 0, 0
	snap.index = s.index.Freeze()
	return snap
}

// Above says that the rows of a snapshot that came up to sequence are the same as those of
// files that the shard is to get: in its sequences, the snapshot has only what came later.
func (s *Snapshot) Above(sequence uint64) {
	s.caches = slices.Clone(s.caches)
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
		if err := s.saveFirst(); err != nil {
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
	var written []string
	defer func() {
		if err == nil {
			return
		}
		for _, f := range out {
			_ = f.reader.Release()
		}
		if index != nil {
			_ = index.Release()
		}
		for _, name := range written {
			_ = s.fs.Remove(s.path(name))
		}
	}()
	for _, c := range snap.caches {
		if c.first == 0 {
			continue
		}
		name := manifest.TSMName(s.takeNumber())
		written = append(written, name)
		info, err := dump.Cache(ctx, c.cache, s.series.Keys, s.fs, s.path(name), tsm.WriterOptions{MinSequence: c.first, MaxSequence: c.sequence})
		if err != nil {
			return out, nil, err
		}
		if info.Rows == 0 {
			continue
		}
		r, err := tsm.Open(s.fs, s.path(name))
		if err != nil {
			return out, nil, err
		}
		s.counters.FlushBytes.Add(info.Size)
		out = append(out, &file{File: manifest.File{Name: name, Size: info.Size, Checksum: info.Checksum, MinSequence: c.first, MaxSequence: c.sequence}, reader: r})
	}
	name := manifest.TSIName(s.takeNumber())
	if !snap.index.Empty() {
		written = append(written, name)
		info, err := snap.index.WriteFile(s.fs, s.path(name))
		if err != nil {
			return out, nil, err
		}
		f, err := tsi.OpenFile(s.fs, s.path(name))
		if err != nil {
			return out, nil, err
		}
		index = &indexFile{f, manifest.File{Name: name, Size: info.Bytes, Checksum: info.Hash}}
	}
	if err := s.series.Sync(); err != nil {
		return out, index, err
	}
	return out, index, s.fs.SyncDir(s.dir)
}

// indexFile is an open TSI file with its record.
type indexFile struct {
	*tsi.File
	record manifest.File
}

// publish commits a flush.
func (s *Shard) publish(snap *Snapshot, out []*file, index *indexFile) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.Clone()
	files := slices.Concat(s.mu.set.files, out)
	ev := s.mu.set.Events
	s.mu.RUnlock()
	m.Flushed = snap.sequence
	var fresh []string
	for _, f := range out {
		m.TSM = append(m.TSM, f.File)
		fresh = append(fresh, f.Name)
	}
	var opened *tsi.File
	if index != nil {
		opened = index.File
		m.TSI = append(m.TSI, index.record)
		fresh = append(fresh, index.record.Name)
	}
	ev.Live(m.TSM, 0).Name(m)
	m.Removed = snap.index.Removed()
	if err := s.commit(m, fresh...); err != nil {
		for _, f := range out {
			_ = f.reader.Release()
		}
		if opened != nil {
			_ = opened.Release()
		}
		return err
	}
	s.mu.Lock()
	old := s.mu.set
	m.Next = max(m.Next, s.mu.manifest.Next)
	s.mu.frozen = nil
	// Deletes and moves that came meanwhile are in old too.
	s.mu.set = newFileSet(files, old.Live(m.TSM, s.pendingLocked()))
	s.mu.manifest = m
	s.index.Publish(snap.index, opened)
	s.mu.Unlock()
	old.release()
	return nil
}
