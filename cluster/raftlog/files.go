package raftlog

import (
	"fmt"
	"path"
	"sync"
	"syscall"
	"time"

	"tsdbd/internal/vfs"
)

// spares makes the file of the next segment, in the background.
type spares struct {
	sync.Mutex
	running sync.WaitGroup
	busy    bool
	file    vfs.File // nil: none
	size    int64
	retryAt time.Time // a failed preparation is not repeated before
}

// retryAfter is how long the log waits after it could not prepare a segment.
const retryAfter = 250 * time.Millisecond

// dropSpare waits for the preparation and removes its file.
func (s *Store) dropSpare() {
	s.spare.running.Wait()
	s.spare.Lock()
	defer s.spare.Unlock()
	if s.spare.file != nil {
		_ = s.spare.file.Close()
		_ = s.fs.Remove(path.Join(s.dir, spareName)) // else Open does
		s.spare.file = nil
	}
}

// prepareAhead makes the next segment, in the background, if g is a quarter full. The caller holds
// writing.
func (s *Store) prepareAhead(g *segment) {
	if g.end <= g.size/4 {
		return
	}
	size := s.grown(g)
	s.spare.Lock()
	defer s.spare.Unlock()
	if s.spare.busy || s.spare.file != nil || time.Now().Before(s.spare.retryAt) {
		return
	}
	s.spare.busy = true
	s.spare.running.Go(func() {
		f, err := s.makeSpare(size)
		s.spare.Lock()
		defer s.spare.Unlock()
		s.spare.busy = false
		if err != nil {
			s.spare.retryAt = time.Now().Add(retryAfter)
			s.logger.Warn("segment of the raft log not prepared", "dir", s.dir, "err", err)
			return
		}
		s.spare.file, s.spare.size = f, size
	})
}

// grown is the size of the segment after g.
func (s *Store) grown(g *segment) int64 {
	return min(max(g.size, s.firstSize())*segmentGrowth, s.opt.SegmentBytes)
}

func (s *Store) firstSize() int64 { return min(firstSegmentBytes, s.opt.SegmentBytes) }

// makeSpare makes a file of zeros.
func (s *Store) makeSpare(size int64) (vfs.File, error) {
	if free, err := s.fs.Free(s.dir); err == nil && free < uint64(size) {
		return nil, syscall.ENOSPC
	}
	return zeroFile(s.fs, path.Join(s.dir, spareName), size)
}

// acquire returns a file of zeros for a segment, of at least need bytes, and its size.
func (s *Store) acquire(need, size int64) (vfs.File, int64, error) {
	s.spare.running.Wait()
	s.spare.Lock()
	defer s.spare.Unlock()
	if f := s.spare.file; f != nil {
		s.spare.file = nil
		if s.spare.size >= need {
			return f, s.spare.size, nil
		}
		if err := f.Close(); err != nil {
			return nil, 0, err
		}
	}
	size = max(size, need)
	f, err := s.makeSpare(size)
	if small := max(s.firstSize(), need); vfs.IsFull(err) && small < size {
		size = small // a nearly full disk still takes small segments
		f, err = s.makeSpare(size)
	}
	return f, size, err
}

// active returns the segment that the next batch is written to, with room for a batch of
// length bytes. It starts a segment if it must.
func (s *Store) active(length int64) (*segment, error) {
	size, number, previousEnd := s.firstSize(), s.base.segment+1, int64(0)
	if n := len(s.segments); n > 0 {
		g := s.segments[n-1]
		if !s.spoiled && g.room(length) {
			return g, nil
		}
		number, previousEnd = g.number+1, g.end
		if !s.spoiled {
			size = s.grown(g)
		}
	}
	need := (1 + sectorsOf(length) + 1) * sectorBytes
	f, size, err := s.acquire(need, size)
	if err != nil {
		return nil, fmt.Errorf("prepare a segment: %w", err)
	}
	g := &segment{
		segmentHeader: segmentHeader{id: s.base.id, number: number, next: s.next, previousEnd: previousEnd, size: size},
		path:          segmentPath(s.dir, number), file: f, end: firstSector,
	}
	spare := path.Join(s.dir, spareName)
	_, err = f.WriteAt(g.encode(), 0)
	if err == nil {
		err = f.SyncData()
	}
	if err != nil {
		_ = f.Close()
		_ = s.fs.Remove(spare)
		return nil, fmt.Errorf("start segment %s: %w", g.path, err)
	}
	// From here on a failure leaves a segment behind which the one before must not grow.
	if err = s.fs.Rename(spare, g.path); err == nil {
		if err = s.fs.SyncDir(s.dir); err == nil {
			next := s.base
			next.segment = number
			err = s.saveBase(next)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, s.fail(fmt.Errorf("start segment %s: %w", g.path, err))
	}
	s.mu.Lock()
	s.segments = append(s.segments, g)
	s.mu.Unlock()
	s.spoiled = false
	return g, nil
}
