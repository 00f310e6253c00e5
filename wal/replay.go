package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"tsdbd/internal/binio"
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
// Damage, copied as well, and stepped over; with Options.Strict it is an error,
// a *binio.CorruptError, and no segment was changed. An entry for which fn
// returns a binio.ErrCorrupt counts as damaged. Any other error of fn or of a read
// ends the replay, and the log must be closed.
//
// What was replayed is durable when Replay returns. The next Append starts a
// new segment in a new epoch.
func (l *Log) Replay(fn func(*entry.Entry) error) error {
	if l.replayed.Load() {
		return errors.New("wal was already replayed")
	}
	if l.opt.Strict {
		for _, d := range l.damage {
			if !d.Torn {
				return binio.Corruptf(d.Segment, d.Offset, "%s", d.Reason)
			}
		}
	}
	decoder := entry.NewDecoder(nil)
	var last uint64
	known := false // whether last says where the log should go on
	segments := l.files.closed
	var window []byte
	var seals []func() error // done last: a replay that fails changes no segment
	for i := range segments {
		s := &segments[i]
		decoder.Forget()
		r := &reader{
			path: s.path, number: s.number, size: s.size, last: last, bounded: known,
			decoder: decoder, deliver: fn, damaged: l.damaged, window: window[:0],
		}
		if s.headerErr != nil {
			r.bounded = false
		} else {
			if known && s.header.previous > last {
				if err := l.missing(&segments[i-1], last, s.header.previous); err != nil {
					return err
				}
			}
			r.last, r.bounded = max(last, s.header.first-1), true
		}
		end, sealed, torn, err := l.walk(r)
		if err != nil {
			return err
		}
		// The last entry that may have been in the segment.
		limit := uint64(maxSequence)
		if i+1 < len(segments) && segments[i+1].headerErr == nil {
			limit = segments[i+1].header.previous
		}
		if s.headerErr != nil {
			first := limit + 1
			if r.opening != 0 {
				first = r.opening
			}
			if err := l.headerDamaged(s, i == len(segments)-1, last+1, first-1); err != nil {
				return err
			}
		}
		r.bound(limit, typeEnd)
		// What was still in doubt: a later segment of the same epoch was begun
		// after a sync of this one, but where it was given up and this one went
		// on.
		succeeded := i+1 < len(segments) && segments[i+1].headerErr == nil && s.headerErr == nil &&
			segments[i+1].header.epoch == s.header.epoch && segments[i+1].header.previous >= r.last
		if err := r.release(!succeeded); err != nil {
			return err
		}
		window = r.window
		last, known = max(last, r.last), true
		s.last = last
		if cut := int64(s.header.size) - s.size; cut > 0 && !sealed && i == len(segments)-1 {
			// Its size was durable before its first entry: no crash does that.
			d := Damage{
				Segment: s.path, Offset: end, Bytes: torn, First: last + 1, Last: limit,
				Reason: fmt.Sprintf("segment is cut from %d to %d bytes", s.header.size, s.size),
			}
			if err := l.damaged(d); err != nil {
				return err
			}
			torn = 0
		}
		if i == len(segments)-1 && s.headerErr == nil && end >= segmentHeaderSize && !l.damagedIn(s.path) {
			l.resumed = &openFile{path: s.path, number: s.number, first: s.header.first, size: s.size, end: end}
		}
		if torn > 0 {
			// An older segment may end torn where a crash hit the log before;
			// whether it lost anything, its successor's header tells.
			d := Damage{Segment: s.path, Offset: end, Bytes: torn, Torn: true, First: last + 1, Last: limit, Reason: "torn tail"}
			if i+1 < len(segments) && (segments[i+1].headerErr != nil || segments[i+1].header.previous > last) {
				d.Torn, d.Reason = false, "end of segment damaged"
				if err := l.damaged(d); err != nil {
					return err
				}
				continue
			}
			if err := l.damaged(d); err != nil {
				return err
			}
		}
		if !sealed || i == len(segments)-1 {
			seals = append(seals, func() error { return l.sealReplayed(s, end, sealed) })
		}
	}
	if err := l.missingEnd(last); err != nil {
		return err
	}
	for _, seal := range seals {
		if err := seal(); err != nil {
			return err
		}
	}
	l.dropSpares()
	l.sequence.Store(last)
	l.replayed.Store(true)
	return nil
}

// damagedIn reports whether damage was found in a segment.
func (l *Log) damagedIn(path string) bool {
	return slices.ContainsFunc(l.damage, func(d Damage) bool { return d.Segment == path })
}

// missingEnd reports what the owner knows to have been in the log behind its last
// entry.
func (l *Log) missingEnd(last uint64) error {
	known, newest := l.opt.Known, uint64(0)
	for i := range l.files.closed {
		newest = max(newest, l.files.closed[i].number)
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

// LostEnd reports whether Replay found that the end of the log is missing, of
// which Options.Known told.
func (l *Log) LostEnd() bool { return l.lostEnd }

// walk opens a segment and runs r over it.
func (l *Log) walk(r *reader) (end int64, sealed bool, torn int64, err error) {
	if r.file, err = l.fs.Open(r.path); err != nil {
		return 0, false, 0, fmt.Errorf("replay wal: %w", err)
	}
	defer r.file.Close()
	return r.run()
}

// missing reports that the segments up to s end before the entry that the next
// one says they end with.
func (l *Log) missing(s *segment, last, previous uint64) error {
	for _, d := range l.damage {
		if d.Segment == s.path && !d.Torn {
			return nil // the loss has been reported
		}
	}
	return l.damaged(Damage{Segment: s.path, Offset: s.size, First: last + 1, Last: previous, Reason: fmt.Sprintf("entries %d to %d are missing", last+1, previous)})
}

// headerDamaged reports a header that cannot be read. An empty last segment is
// what a crash while it was made can leave on a disk that reorders.
// The entries from first to last may have stood before those that were read.
func (l *Log) headerDamaged(s *segment, newest bool, first, last uint64) error {
	b := make([]byte, min(s.size, segmentHeaderSize+recordHeaderSize))
	f, err := l.fs.Open(s.path)
	if err != nil {
		return fmt.Errorf("replay wal: %w", err)
	}
	defer f.Close()
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return fmt.Errorf("read wal segment %s: %w", s.path, err)
	}
	return l.damaged(Damage{
		Segment: s.path, Bytes: min(s.size, segmentHeaderSize),
		Torn: newest && allZero(b), First: first, Last: last, Reason: s.headerErr.Error(),
	})
}

// damaged records a damage and copies its bytes to quarantine. In strict mode
// damage that is not a torn tail is the replay's error.
func (l *Log) damaged(d Damage) error {
	if l.opt.Strict && !d.Torn {
		return binio.Corruptf(d.Segment, d.Offset, "%s", d.Reason)
	}
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
func (l *Log) setAside(s segment) error {
	dir := path.Join(l.dir, quarantineDir)
	to := path.Join(dir, path.Base(s.path)+".foreign")
	for n := 1; ; n++ {
		if _, err := l.fs.Stat(to); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		to = path.Join(dir, fmt.Sprintf("%s.foreign-%d", path.Base(s.path), n))
	}
	err := l.fs.MkdirAll(dir)
	if err == nil {
		err = l.fs.Rename(s.path, to)
	}
	if err = errors.Join(err, l.fs.SyncDir(dir), l.fs.SyncDir(l.dir)); err != nil {
		return fmt.Errorf("quarantine %s: %w", s.path, err)
	}
	l.report(Damage{
		Segment: s.path, Bytes: s.size, Quarantine: to,
		Reason: fmt.Sprintf("segment belongs to data directory %s, not to %s", s.header.lineage, l.opt.Lineage),
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

// sealReplayed ends a segment that a crash left open, and makes the last one
// durable: what was read may have come from the page cache of a process that
// was killed before its sync.
func (l *Log) sealReplayed(s *segment, end int64, sealed bool) error {
	f, err := l.fs.OpenReadWrite(s.path)
	if err != nil {
		return fmt.Errorf("seal wal segment %s: %w", s.path, err)
	}
	defer f.Close()
	if !sealed && end >= segmentHeaderSize {
		b := appendRecord(nil, s.number, s.last, typeEnd, 0, 0, nil)
		if rest := s.size - end; rest < int64(len(b)) {
			// The end of the file ends the segment as well. It must not move: how
			// far a sequence may lie ahead depends on the size, and the next
			// replay must judge as this one did.
			b = make([]byte, max(rest, 0))
		}
		if _, err := f.WriteAt(b, end); err != nil {
			// The torn bytes stay and will be found again: no harm but noise.
			if !vfs.IsFull(err) {
				return fmt.Errorf("seal wal segment %s: %w", s.path, err)
			}
			l.log.Warn("wal segment not sealed", "path", s.path, "err", err)
		}
	}
	if err := f.SyncData(); err != nil {
		return fmt.Errorf("sync wal segment %s: %w", s.path, err)
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
