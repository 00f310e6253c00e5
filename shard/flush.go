package shard

import (
	"context"
	"fmt"
	"slices"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// Snapshot is a cut of a shard's cache and index on its way to files.
type Snapshot struct {
	first    uint64 // sequence of the first entry in it
	sequence uint64
	cache    *cache.Cache
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
	s.mu.frozen = s.mu.active
	s.mu.cut = sequence
	snap := &Snapshot{first: s.mu.dirty, sequence: sequence, cache: s.mu.frozen}
	s.mu.active = cache.New(observer{s})
	s.mu.dirty = 0
	snap.index = s.index.Freeze()
	return snap
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
func (s *Shard) writeFiles(ctx context.Context, snap *Snapshot) (out *file, index *indexFile, err error) {
	tsmName, tsiName := manifest.TSMName(s.takeNumber()), manifest.TSIName(s.takeNumber())
	tsmPath, tsiPath := s.path(tsmName), s.path(tsiName)
	defer func() {
		if err == nil {
			return
		}
		if out != nil {
			_ = out.reader.Release()
		}
		if index != nil {
			_ = index.Release()
		}
		_ = s.fs.Remove(tsmPath)
		_ = s.fs.Remove(tsiPath)
	}()
	info, err := s.writeSnapshot(ctx, tsmPath, snap)
	if err != nil {
		return nil, nil, err
	}
	if !snap.index.Empty() {
		info, err := snap.index.WriteFile(s.fs, tsiPath)
		if err != nil {
			return nil, nil, err
		}
		f, err := tsi.OpenFile(s.fs, tsiPath)
		if err != nil {
			return nil, nil, err
		}
		index = &indexFile{f, manifest.File{Name: tsiName, Size: info.Bytes, Checksum: info.Hash}}
	}
	if info.Rows > 0 {
		r, err := tsm.Open(s.fs, tsmPath)
		if err != nil {
			return nil, index, err
		}
		s.counters.FlushBytes.Add(info.Size)
		out = &file{File: manifest.File{Name: tsmName, Size: info.Size, Checksum: info.Checksum, MinSequence: snap.first, MaxSequence: snap.sequence}, reader: r}
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
func (s *Shard) publish(snap *Snapshot, out *file, index *indexFile) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.Clone()
	files := slices.Clone(s.mu.set.files)
	tombstones := s.mu.set.tombstones
	s.mu.RUnlock()
	m.Flushed = snap.sequence
	if out != nil {
		files = append(files, out)
		m.TSM = append(m.TSM, out.File)
	}
	var opened *tsi.File
	if index != nil {
		opened = index.File
		m.TSI = append(m.TSI, index.record)
	}
	m.Tombstones = liveTombstones(tombstones, files, 0)
	m.Removed = snap.index.Removed()
	var fresh []string
	if out != nil {
		fresh = append(fresh, out.Name)
	}
	if opened != nil {
		fresh = append(fresh, index.record.Name)
	}
	if err := s.commit(m, fresh...); err != nil {
		if out != nil {
			_ = out.reader.Release()
		}
		if opened != nil {
			_ = opened.Release()
		}
		return err
	}
	s.mu.Lock()
	old := s.mu.set
	m.Next = max(m.Next, s.mu.manifest.Next)
	// Deletes that came meanwhile are in old.tombstones too.
	s.mu.set = newFileSet(files, liveTombstones(old.tombstones, files, 0))
	s.mu.manifest = m
	s.mu.frozen, s.mu.cut = nil, 0
	s.index.Publish(snap.index, opened)
	s.mu.Unlock()
	old.release()
	return nil
}

// writeSnapshot writes the snapshot's living rows to a TSM file. Without any
// the file is removed and the Info has no rows.
func (s *Shard) writeSnapshot(ctx context.Context, path string, snap *Snapshot) (_ tsm.Info, err error) {
	w, err := tsm.Create(s.fs, path, tsm.WriterOptions{MinSequence: snap.first, MaxSequence: snap.sequence})
	if err != nil {
		return tsm.Info{}, err
	}
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	order, err := newKeyOrder(s.series, snap.cache.Series())
	if err != nil {
		return tsm.Info{}, err
	}
	g := cache.NewGatherer(snap.cache)
	var rows column.Rows
	var cols []column.Vector
	var part []keyed
	var warm []model.SeriesID
	wrote := false
	for {
		if ctx.Err() != nil {
			return tsm.Info{}, ctx.Err()
		}
		if part, err = order.next(part[:0], cache.WarmSeries); err != nil {
			return tsm.Info{}, err
		}
		if len(part) == 0 {
			break
		}
		warm = warm[:0]
		for _, k := range part {
			warm = append(warm, k.id)
		}
		g.Warm(warm)
		for _, k := range part {
			fields, ok := g.Start(k.id)
			if !ok {
				continue
			}
			if err := w.Series(k.id, k.key, fields); err != nil {
				return tsm.Info{}, err
			}
			for n := tsm.FullChunk(len(fields)); g.Next(&rows, n); {
				if ctx.Err() != nil {
					return tsm.Info{}, ctx.Err()
				}
				for lo, hi := 0, 0; lo < rows.Len(); lo = hi {
					hi, _ = tsm.CutChunk(&rows, lo)
					part := rows.Slice(lo, hi, cols)
					cols = part.Cols
					if err := w.Append(part.Times, part.Cols); err != nil {
						return tsm.Info{}, err
					}
				}
			}
			wrote = true
		}
	}
	if !wrote {
		w.Abort()
		return tsm.Info{}, nil
	}
	return w.Finish()
}
