package wal

import (
	"errors"
	"fmt"
	"io/fs"

	"tsdbd/internal/vfs"
	"tsdbd/wal/entry"
)

// walk reads the segments of a log in their order, for Replay, Inspect and Check. It
// changes nothing.
type walk struct {
	fs      vfs.FS
	deliver func(*SegmentInfo, *entry.Entry) error
	damaged func(Damage) error // called with what cannot be delivered; an error ends the walk
	// vanishing says that segments may be trimmed during the walk, which leaves them out.
	vanishing bool
	closed    bool // the newest segment is not read

	// lost has the segments with damage; true: not all of it was torn.
	lost map[string]bool
}

// report passes a damage on.
func (w *walk) report(d Damage) error {
	w.lost[d.Segment] = w.lost[d.Segment] || !d.Torn
	return w.damaged(d)
}

// run reads the segments and completes their descriptions.
func (w *walk) run(segments []SegmentInfo) error {
	w.lost = make(map[string]bool)
	decoder := entry.NewDecoder(nil)
	last, known := uint64(0), false // known: last says where the log should go on
	var window []byte
	for i := range segments {
		s := &segments[i]
		var next *SegmentInfo // if its header can be read
		newest := i == len(segments)-1
		if !newest && segments[i+1].headerErr == nil {
			next = &segments[i+1]
		}
		decoder.Forget()
		r := &reader{
			path: s.Path, number: s.Number, size: s.Bytes, last: last, bounded: known, window: window[:0],
			decoder: decoder, deliver: func(e *entry.Entry) error { return w.deliver(s, e) }, damaged: w.report,
		}
		switch {
		case s.headerErr != nil:
			r.bounded = false
		case known && s.Previous > last && !w.lost[segments[i-1].Path]:
			before := &segments[i-1]
			d := Damage{
				Segment: before.Path, Offset: before.Bytes, First: last + 1, Last: s.Previous,
				Reason: fmt.Sprintf("entries %d to %d are missing", last+1, s.Previous),
			}
			if err := w.report(d); err != nil {
				return err
			}
			fallthrough
		default:
			r.last, r.bounded = max(last, s.First-1), true
		}
		if newest && w.closed {
			break
		}
		err := w.read(s, r)
		window = r.window
		if w.vanishing {
			// A trimmed segment is renamed before it is overwritten.
			if _, serr := w.fs.Stat(s.Path); errors.Is(serr, fs.ErrNotExist) {
				s.gone, w.lost[s.Path] = true, true
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := w.judge(s, r, next, newest, last); err != nil {
			return err
		}
		last, known = s.Last, true
	}
	return nil
}

// read runs r over a segment.
func (w *walk) read(s *SegmentInfo, r *reader) (err error) {
	if r.file, err = w.fs.Open(s.Path); err != nil {
		return fmt.Errorf("read wal: %w", err)
	}
	defer r.file.Close()
	s.End, s.Sealed, s.Torn, err = r.run()
	s.Entries = r.delivered
	return err
}

// judge completes the description of a segment from its end and from the header of
// the next one, and reports damage there. last is the sequence of the last entry before it.
func (w *walk) judge(s *SegmentInfo, r *reader, next *SegmentInfo, newest bool, last uint64) error {
	s.Last = max(last, r.last)
	limit := uint64(maxSequence) // the last entry that may have been in it
	if next != nil {
		limit = next.Previous
	}
	if s.headerErr != nil {
		first := limit + 1
		if r.opening != 0 {
			first = r.opening
		}
		if err := w.headerDamaged(s, newest, last+1, first-1); err != nil {
			return err
		}
	}
	r.bound(limit, typeEnd)
	// What was still in doubt: a later segment of the same epoch was begun after a
	// sync of this one, but where it was given up and this one went on.
	succeeded := next != nil && s.headerErr == nil && next.Epoch == s.Epoch && next.Previous >= r.last
	if err := r.release(!succeeded); err != nil {
		return err
	}
	d := Damage{Segment: s.Path, Offset: s.End, Bytes: s.Torn, First: s.Last + 1, Last: limit}
	switch {
	case newest && !s.Sealed && s.Bytes < s.Size:
		// Its size was durable before its first entry: no crash does that.
		d.Reason = fmt.Sprintf("segment is cut from %d to %d bytes", s.Size, s.Bytes)
	case s.Torn == 0:
		_, damaged := w.lost[s.Path]
		s.clean = !damaged
		return nil
	case !newest && (next == nil || next.Previous > s.Last):
		// An older segment may end torn where a crash hit the log before; whether
		// it lost anything, its successor's header tells.
		d.Reason, s.cutOff = "end of segment damaged", true
	default:
		_, damaged := w.lost[s.Path]
		s.clean = !damaged
		d.Torn, d.Reason = true, "torn tail"
	}
	return w.report(d)
}

// headerDamaged reports a header that cannot be read. A crash while a segment was made
// can leave an empty last segment on a disk that reorders. The entries
// from first to last may have stood before those that were read.
func (w *walk) headerDamaged(s *SegmentInfo, newest bool, first, last uint64) error {
	b := make([]byte, min(s.Bytes, segmentHeaderSize+recordHeaderSize))
	f, err := w.fs.Open(s.Path)
	if err != nil {
		return fmt.Errorf("read wal: %w", err)
	}
	defer f.Close()
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return fmt.Errorf("read wal segment %s: %w", s.Path, err)
	}
	return w.report(Damage{
		Segment: s.Path, Bytes: min(s.Bytes, segmentHeaderSize),
		Torn: newest && allZero(b), First: first, Last: last, Reason: s.headerErr.Error(),
	})
}
