package wal

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"tsdbd/internal/vfs"
)

// The life of a segment file: a spare is made by zero-filling a new file or by
// renaming a trimmed segment; the preparer opens it as next; rotation gives it
// a header and a segment's name and makes it active; the following rotation
// closes it; Trim makes it a spare or removes it.

// spare is a file that may become a segment. Its content does not matter.
type spare struct {
	path string
	size int64
}

const (
	// prepareStep is how much is zero-filled at a time. The kernel caches a file
	// in pieces as large as the writes that filled it, and a piece is dirty as a
	// whole: after writes of 1 MiB, 200 records of 70 KiB, each synced, dirty
	// 290 MB; after 16 KiB, 18 MB. Filling 64 MiB takes 45 instead of 16 ms.
	prepareStep = 16 << 10
	// retryAfter is how long a failed preparation stands as the answer.
	retryAfter = 250 * time.Millisecond
)

// prepareAhead has the next segment made in the background, if there is none.
func (l *Log) prepareAhead() {
	l.files.Lock()
	defer l.files.Unlock()
	if l.files.next == nil {
		l.startPrepareLocked()
	}
}

// startPrepareLocked starts a preparer unless one runs or has just failed.
func (l *Log) startPrepareLocked() {
	if l.files.preparing || !l.noBackoff && time.Now().Before(l.files.retryAt) {
		return
	}
	l.files.preparing, l.files.err = true, nil
	l.wg.Go(l.prepare)
}

// acquire returns the next segment's file, waiting for the preparer. The caller
// owns it.
func (l *Log) acquire() (*openFile, error) {
	l.files.Lock()
	defer l.files.Unlock()
	if l.files.next == nil {
		l.startPrepareLocked()
		for l.files.preparing {
			l.files.prepared.Wait()
		}
	}
	s := l.files.next
	if s == nil {
		return nil, l.files.err
	}
	l.files.next = nil
	return s, nil
}

// prepare makes files.next from a spare, or from nothing.
func (l *Log) prepare() {
	l.files.Lock()
	size := l.files.freshSize
	s := l.takeSpareLocked()
	file := s.path
	if file == "" {
		l.files.number++
		file = sparePath(l.dir, l.files.number)
	}
	l.files.Unlock()

	var next *openFile
	var err error
	if s.path != "" {
		next, err = l.reopenSpare(s)
		if err != nil {
			// It is of no use; go on without it.
			l.log.Warn("wal spare segment dropped", "path", s.path, "err", err)
			_ = l.fs.Remove(s.path)
			l.files.Lock()
			l.files.number++
			file = sparePath(l.dir, l.files.number)
			l.files.Unlock()
		}
	}
	if next == nil {
		next, err = l.zeroFill(file, size)
		if small := l.firstSize(); vfs.IsFull(err) && size > small {
			next, err = l.zeroFill(file, small) // a nearly full disk still takes small segments
		}
	}

	l.files.Lock()
	defer l.files.Unlock()
	l.files.preparing = false
	l.files.next, l.files.err = next, err
	l.files.retryAt = time.Time{}
	if err != nil {
		l.files.retryAt = time.Now().Add(retryAfter)
		l.log.Warn("wal segment not prepared", "path", file, "err", err)
	}
	l.files.prepared.Broadcast()
}

// firstSize is the size of a log's first segment.
func (l *Log) firstSize() int64 { return min(firstSegmentBytes, l.opt.SegmentBytes) }

// takeSpareLocked removes the latest spare from the list.
func (l *Log) takeSpareLocked() (s spare) {
	if n := len(l.files.spares); n > 0 {
		s, l.files.spares = l.files.spares[n-1], l.files.spares[:n-1]
	}
	return s
}

// dropSpares removes spares that a crash left half made and those beyond
// maxSpares. A file that cannot be removed is no worse than before.
func (l *Log) dropSpares() {
	l.files.Lock()
	defer l.files.Unlock()
	kept := l.files.spares[:0]
	for _, s := range l.files.spares {
		if s.size < l.files.freshSize || len(kept) >= maxSpares {
			_ = l.fs.Remove(s.path)
			continue
		}
		kept = append(kept, s)
	}
	l.files.spares = kept
}

func (l *Log) reopenSpare(s spare) (*openFile, error) {
	f, err := l.fs.OpenReadWrite(s.path)
	if err != nil {
		return nil, err
	}
	return &openFile{file: f, path: s.path, size: s.size, end: segmentHeaderSize}, nil
}

// zeroFill makes a new file of size zero bytes, durable except for its name. On a
// failure nothing is left of it.
func (l *Log) zeroFill(name string, size int64) (_ *openFile, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("prepare wal segment %s: %w", name, err)
		}
	}()
	if free, err := l.fs.Free(l.dir); err == nil && free < uint64(size) {
		return nil, syscall.ENOSPC
	}
	f, err := l.fs.Create(name)
	if err != nil {
		return nil, err
	}
	if err = zero(f, 0, size); err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Close()
		_ = l.fs.Remove(name)
		return nil, err
	}
	return &openFile{file: f, path: name, size: size, end: segmentHeaderSize}, nil
}

// rotate makes the next segment active and closes the one before; grow says
// that it was full. Until the next one is there, nothing changes: a failure is
// not sticky, the active segment may go on.
func (l *Log) rotate(grow bool) error {
	next, err := l.acquire()
	if err != nil {
		return err
	}
	// The new header vouches for everything before it.
	old := l.files.active
	if old != nil && l.dirty() {
		if err := l.sync(old); err != nil {
			_ = next.file.Close()
			return err
		}
	}
	if err := l.start(next); err != nil {
		_ = next.file.Close()
		l.giveUp(next)
		return err
	}
	var closed SegmentInfo
	if old != nil {
		closed = l.closedInfo(old, l.sequence.Load())
		l.syncing.Lock()
		defer l.syncing.Unlock()
		if err = l.seal(old); err == nil {
			err = old.file.Close()
			if err != nil {
				err = l.fail(fmt.Errorf("close wal segment %s: %w", old.path, err))
			}
		}
	}
	l.files.Lock()
	defer l.files.Unlock()
	if old != nil {
		l.files.closed = append(l.files.closed, closed)
	}
	l.files.active, l.files.activeSize = next, next.size
	if grow {
		l.files.freshSize = min(l.files.freshSize*segmentGrowth, l.opt.SegmentBytes)
	}
	l.defined.Reset()
	l.counters.rotations.Add(1)
	return err
}

// resume makes the last replayed segment active again and reports whether it
// could. It is for a disk that is full when the log is opened: no other segment
// can be made, and this one has at its end at least the room that writes leave to
// deletes. Zeros replace everything behind its last entry: the end record, and the
// rest of a write that a crash cut off.
func (l *Log) resume() bool {
	s := l.resumed
	l.resumed = nil // one try
	if s == nil || l.lostEnd || l.sequence.Load() == l.advanced && l.advanced > 0 {
		return false // entries are missing behind it, and a segment has no gaps
	}
	var err error
	if s.file, err = l.fs.OpenReadWrite(s.path); err == nil {
		if err = zero(s.file, s.end, s.size); err == nil {
			err = s.file.SyncData()
		}
		if err != nil {
			_ = s.file.Close()
		}
	}
	if err != nil {
		l.log.Warn("wal segment not continued", "path", s.path, "err", err)
		return false
	}
	if l.opt.OnSegment != nil {
		l.opt.OnSegment(s.number, l.previous())
	}
	l.files.Lock()
	defer l.files.Unlock()
	l.files.closed = slices.DeleteFunc(l.files.closed, func(c SegmentInfo) bool { return c.Path == s.path })
	l.files.active, l.files.activeSize = s, s.size
	l.defined.Reset()
	l.log.Warn("no space for a wal segment, the last one is continued", "path", s.path, "bytes", s.size-s.end)
	return true
}

// zero overwrites [from, to) of a file.
func zero(f vfs.File, from, to int64) error {
	zeros := make([]byte, min(max(to-from, 0), prepareStep))
	for off := from; off < to; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// giveUp removes a file that could not be started. If it has a segment's name
// and cannot be removed, it is a closed segment without entries: Trim takes it
// before the active one, so that it never stands where others were.
func (l *Log) giveUp(s *openFile) {
	if err := l.fs.Remove(s.path); err == nil || s.path != segmentPath(l.dir, s.number) {
		return
	}
	l.files.Lock()
	defer l.files.Unlock()
	l.files.closed = append(l.files.closed, l.closedInfo(s, s.first-1))
}

// closedInfo describes a segment that is given up, with its last entry.
func (l *Log) closedInfo(s *openFile, last uint64) SegmentInfo {
	return SegmentInfo{Path: s.path, Number: s.number, Epoch: l.epoch, First: s.first, Bytes: s.size, Last: last}
}

// start gives a prepared file its header and its name, durably.
func (l *Log) start(s *openFile) error {
	l.files.Lock()
	l.files.number++
	s.number = l.files.number
	l.files.Unlock()
	last := l.sequence.Load()
	s.first = last + 1
	h := segmentHeader{epoch: l.epoch, number: s.number, first: s.first, previous: l.previous(), size: uint64(s.size), lineage: l.opt.Lineage}
	// Zeros behind the header: the segment is empty, whatever it held before.
	b := append(h.append(nil), make([]byte, recordHeaderSize)...)
	name := segmentPath(l.dir, s.number)
	_, err := s.file.WriteAt(b, 0)
	if err == nil {
		err = s.file.SyncData()
	}
	if err == nil {
		if err = l.fs.Rename(s.path, name); err == nil {
			s.path = name
			err = l.fs.SyncDir(l.dir)
		}
	}
	if err != nil {
		return fmt.Errorf("start wal segment %s: %w", name, err)
	}
	if l.opt.OnSegment != nil {
		l.opt.OnSegment(s.number, l.previous())
	}
	return nil
}

// previous is the sequence of the last entry in the log, which is below
// Sequence after an Advance.
func (l *Log) previous() uint64 {
	if last := l.sequence.Load(); last != l.advanced {
		return last
	}
	return l.beforeAdvance
}

// seal writes the end record of a segment and syncs it, so that a reader need
// not search behind it. Lack of space is no failure here: the next segment's
// header tells as well where this one ends.
func (l *Log) seal(s *openFile) error {
	if l.dirty() {
		if err := l.sync(s); err != nil {
			return err
		}
	}
	b := appendRecord(nil, s.number, l.sequence.Load(), typeEnd, flagSynced, 0, nil)
	b = append(b, make([]byte, recordHeaderSize)...)
	if _, err := s.file.WriteAt(b, s.end); err != nil && !vfs.IsFull(err) {
		return l.fail(fmt.Errorf("seal wal segment %s: %w", s.path, err))
	}
	return l.sync(s)
}

// End returns the number of the newest segment, 0 if there is none, and the
// sequence of the last entry in the log.
func (l *Log) End() (segment, sequence uint64) {
	l.files.Lock()
	defer l.files.Unlock()
	if n := len(l.files.closed); n > 0 {
		segment = l.files.closed[n-1].Number
	}
	if l.files.active != nil {
		segment = l.files.active.number
	}
	return segment, l.previous()
}

// trimmableLocked returns how many closed segments hold no entry after sequence.
func (l *Log) trimmableLocked(sequence uint64) int {
	n := 0
	for n < len(l.files.closed) && l.files.closed[n].Last <= sequence {
		n++
	}
	if n == len(l.files.closed) && l.files.active == nil && n > 0 {
		n--
	}
	return n
}

// Trim gives up the closed segments that hold no entry after sequence: they
// become spares or are removed (W3 is the caller's to keep). The newest segment
// stays, it tells where the log goes on. Trim may run beside Append.
func (l *Log) Trim(sequence uint64) error {
	if !l.replayed.Load() {
		return errNotReplayed
	}
	l.trim.Lock()
	defer l.trim.Unlock()
	l.files.Lock()
	n := l.trimmableLocked(sequence)
	l.files.Unlock()
	if n == 0 {
		return nil
	}
	if err := l.opt.BeforeTrim(sequence); err != nil {
		return fmt.Errorf("trim wal %s: %w", l.dir, err)
	}
	l.files.Lock()
	gone := slices.Clone(l.files.closed[:n])
	l.files.closed = slices.Delete(l.files.closed, 0, n)
	room := maxSpares - len(l.files.spares)
	if l.files.next != nil || l.files.preparing {
		room--
	}
	smallest := l.files.freshSize
	l.files.Unlock()

	// One after the other, oldest first, each durable before the next: a crash
	// in between leaves the log without its beginning, never with a hole. And
	// before a spare is written to, its old name must be gone for good.
	for i, s := range gone {
		to := ""
		var err error
		if room > 0 && s.Bytes >= smallest {
			to = sparePath(l.dir, s.Number)
			room--
			err = l.fs.Rename(s.Path, to)
		} else {
			err = l.fs.Remove(s.Path)
		}
		if err != nil {
			l.files.Lock()
			l.files.closed = append(slices.Clone(gone[i:]), l.files.closed...)
			l.files.Unlock()
			return fmt.Errorf("trim wal segment %s: %w", s.Path, err)
		}
		if err = l.fs.SyncDir(l.dir); err != nil {
			l.files.Lock()
			l.files.closed = append(slices.Clone(gone[i+1:]), l.files.closed...)
			l.files.Unlock()
			return fmt.Errorf("trim wal %s: %w", l.dir, err)
		}
		if to != "" {
			l.files.Lock()
			l.files.spares = append(l.files.spares, spare{path: to, size: s.Bytes})
			l.files.Unlock()
		}
	}
	return nil
}
