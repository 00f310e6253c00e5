package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"tsdbd/internal/vfs"
	"tsdbd/wal/entry"
)

// Replay calls fn with every entry of the log in order of sequence. It must be
// called once, before the first Append. The entry and all it points to, save
// for series and layouts, are valid during the call only. Rows carry series
// with key and id set, one *point.Series per series and replay, and interned
// layouts.
//
// An unfinished end of the log is cut: the bytes are copied into the quarantine
// directory and the segment is sealed before them. Other damage is reported by
// Damage, copied as well, and stepped over. An entry for which fn
// returns a binio.ErrCorrupt counts as damaged. Any other error of fn or of a read
// ends the replay, and the log must be closed.
//
// What fn gets is durable: fn may make files that later starts must find in the log.
// The next Append starts a new segment in a new epoch.
func (l *Log) Replay(fn func(*entry.Entry) error) error {
	if l.replayed.Load() {
		return errors.New("wal was already replayed")
	}
	found := l.damage // by Open
	w := walk{fs: l.fs, damaged: l.damaged, deliver: func(_ *SegmentInfo, e *entry.Entry) error { return fn(e) }}
	segments := l.files.closed
	if err := l.syncFound(segments); err != nil {
		return err
	}
	if err := w.run(segments); err != nil {
		return err
	}
	last := uint64(0)
	if n := len(segments); n > 0 {
		s := &segments[n-1]
		last = s.Last
		misnamed := slices.ContainsFunc(found, func(d Damage) bool { return d.Segment == s.Path })
		if s.headerErr == nil && s.End >= segmentHeaderSize && s.clean && !misnamed {
			l.resumed = &openFile{path: s.Path, number: s.Number, first: s.First, size: s.Bytes, end: s.End}
		}
	}
	if err := l.missingEnd(last); err != nil {
		return err
	}
	// Last of all: a replay that fails changes no segment.
	for i := range segments {
		if s := &segments[i]; !s.Sealed && (!s.cutOff || i == len(segments)-1) {
			if err := l.sealReplayed(s); err != nil {
				return err
			}
		}
	}
	l.dropSpares()
	l.sequence.Store(last)
	l.replayed.Store(true)
	return nil
}

// syncFound makes what is read durable: it may come from the page cache of a process
// that was killed before its sync.
func (l *Log) syncFound(segments []SegmentInfo) error {
	for i := range segments {
		f, err := l.fs.OpenReadWrite(segments[i].Path)
		if err != nil {
			return fmt.Errorf("sync wal segment %s: %w", segments[i].Path, err)
		}
		if err := errors.Join(f.SyncData(), f.Close()); err != nil {
			return fmt.Errorf("sync wal segment %s: %w", segments[i].Path, err)
		}
	}
	return nil
}

// missingEnd reports what the owner knows to have been in the log behind its last
// entry.
func (l *Log) missingEnd(last uint64) error {
	known, newest := l.opt.Known, uint64(0)
	for i := range l.files.closed {
		newest = max(newest, l.files.closed[i].Number)
	}
	d := Damage{Segment: segmentPath(l.dir, known.Segment), First: last + 1, Last: known.Sequence}
	switch {
	case known.Told:
		return nil
	case known.Segment > newest:
		d.Reason = fmt.Sprintf("segment %d is missing, the last of the log", known.Segment)
		if known.Open {
			d.Last = maxSequence
		}
	case known.Sequence > last:
		d.Reason = fmt.Sprintf("entries %d to %d are missing at the end of the log", d.First, d.Last)
	default:
		return nil
	}
	l.lostEnd = true
	return l.damaged(d)
}

// LostEnd reports whether Replay found that the end of the log is missing, as
// Options.Known describes it.
func (l *Log) LostEnd() bool { return l.lostEnd }

// damaged records a damage and copies its bytes to quarantine.
func (l *Log) damaged(d Damage) error {
	d.Harmless = !d.Torn && d.Last <= max(l.covered, d.First-1)
	name, err := l.quarantine(d)
	if err != nil {
		l.log.Warn("wal damage not set aside", "path", d.Segment, "offset", d.Offset, "err", err)
	}
	d.Quarantine = name
	l.report(d)
	return nil
}

// setAside moves a segment of another data directory to quarantine.
func (l *Log) setAside(s *SegmentInfo) error {
	dir := path.Join(l.dir, quarantineDir)
	to := path.Join(dir, path.Base(s.Path)+".foreign")
	for n := 1; ; n++ {
		if _, err := l.fs.Stat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		to = path.Join(dir, fmt.Sprintf("%s.foreign-%d", path.Base(s.Path), n))
	}
	err := l.fs.MkdirAll(dir)
	if err == nil {
		err = l.fs.Rename(s.Path, to)
	}
	if err = errors.Join(err, l.fs.SyncDir(dir), l.fs.SyncDir(l.dir)); err != nil {
		return fmt.Errorf("quarantine %s: %w", s.Path, err)
	}
	l.report(Damage{
		Segment: s.Path, Bytes: s.Bytes, Quarantine: to,
		Reason: fmt.Sprintf("segment belongs to data directory %s, not to %s", s.Lineage, l.opt.Lineage),
	})
	return nil
}

// quarantine copies a damaged span. Where there is none, for entries are
// missing, a text with the reason is made. The name depends on the span alone, so a
// log opened again and again does not fill the disk with copies.
func (l *Log) quarantine(d Damage) (name string, err error) {
	dir := path.Join(l.dir, quarantineDir)
	kind := damagedKind
	switch {
	case d.Torn:
		kind = "tail"
	case d.Harmless:
		kind = "covered"
	}
	name = path.Join(dir, fmt.Sprintf("%s.%s-%d", path.Base(d.Segment), kind, d.Offset))
	if st, err := l.fs.Stat(name); err == nil && (st.Size() == d.Bytes || d.Bytes == 0) {
		return name, nil
	}
	if d.Bytes == 0 {
		if err := l.fs.MkdirAll(dir); err != nil {
			return "", err
		}
		if err := vfs.WriteFileAtomic(l.fs, dir, name, []byte(d.Reason+"\n")); err != nil {
			return "", err
		}
		return name, l.fs.SyncDir(l.dir)
	}
	from, err := l.fs.Open(d.Segment)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if err := l.fs.MkdirAll(dir); err != nil {
		return "", err
	}
	to, err := l.fs.Create(name)
	if err != nil {
		return "", err
	}
	err = copySpan(to, from, d.Offset, d.Bytes)
	if err == nil {
		err = to.Sync()
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = l.fs.Remove(name)
		return "", err
	}
	if err := l.fs.SyncDir(dir); err != nil {
		return "", err
	}
	return name, l.fs.SyncDir(l.dir)
}

func copySpan(to, from vfs.File, off, n int64) error {
	b := make([]byte, min(n, windowBytes))
	for at := int64(0); at < n; at += int64(len(b)) {
		b = b[:min(int64(len(b)), n-at)]
		if got, err := from.ReadAt(b, off+at); got < len(b) {
			return err
		}
		if _, err := to.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// sealReplayed ends a segment that a crash left open, durably.
func (l *Log) sealReplayed(s *SegmentInfo) error {
	f, err := l.fs.OpenReadWrite(s.Path)
	if err != nil {
		return fmt.Errorf("seal wal segment %s: %w", s.Path, err)
	}
	defer f.Close()
	if s.End >= segmentHeaderSize {
		b := appendRecord(nil, s.Number, s.Last, typeEnd, 0, 0, nil)
		if rest := s.Bytes - s.End; rest < int64(len(b)) {
			// The end of the file ends the segment as well. It must not move: how
			// far a sequence may lie ahead depends on the size, and the next
			// replay must judge as this one did.
			b = make([]byte, max(rest, 0))
		}
		if _, err := f.WriteAt(b, s.End); err != nil {
			// The torn bytes stay and will be found again: no harm but noise.
			if !vfs.IsFull(err) {
				return fmt.Errorf("seal wal segment %s: %w", s.Path, err)
			}
			l.log.Warn("wal segment not sealed", "path", s.Path, "err", err)
		}
	}
	if err := f.SyncData(); err != nil {
		return fmt.Errorf("sync wal segment %s: %w", s.Path, err)
	}
	return nil
}

// Advance makes sequence the lowest that the log goes on from: the next entry
// gets a higher one. It must be called between Replay and the first Append. It
// is for an owner that knows of entries which the log has lost (a relaxed sync
// before a power failure, a torn end, a removed directory) but which made it
// into published files: their sequences must not be given again.
func (l *Log) Advance(sequence uint64) error {
	if !l.replayed.Load() {
		return errNotReplayed
	}
	if l.files.active != nil {
		return errors.New("advance wal: entries were appended already")
	}
	if last := l.sequence.Load(); sequence > last {
		l.beforeAdvance, l.advanced = last, sequence
		l.sequence.Store(sequence)
	}
	return nil
}
