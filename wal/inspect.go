package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/wal/entry"
)

// SegmentInfo describes a segment file as Inspect found it.
type SegmentInfo struct {
	Path     string
	Number   uint64
	Epoch    uint32
	Lineage  identity.Lineage // of the data directory
	Size     int64            // bytes of the file at least, as the header says
	First    uint64           // sequence of the first entry it can hold
	Previous uint64           // sequence of the last entry of the log before it
	Last     uint64           // sequence of its last entry; First-1 if it has none
	Entries  int
	Bytes    int64 // size of the file
	End      int64 // offset behind the last record
	Sealed   bool  // an end record stands there
	Torn     int64 // bytes of an unfinished write behind End

	headerErr error
}

// Inspect reads the segments in dir without changing anything and calls fn
// with every entry in order, valid during the call only. It returns what it
// found of each segment and the damage, judged as Replay does; Quarantine is
// never set. It may run beside a Log that writes to dir: a segment that is
// trimmed meanwhile is left out, and the end of the newest one may be called
// torn.
func Inspect(fsys vfs.FS, dir string, fn func(s *SegmentInfo, e *entry.Entry) error) ([]SegmentInfo, []Damage, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("inspect wal %s: %w", dir, err)
	}
	var segments []SegmentInfo
	for _, name := range names {
		number, ok := parseName(name, segmentSuffix)
		if !ok {
			continue
		}
		s, err := inspectHeader(fsys, path.Join(dir, name), number)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return segments, nil, fmt.Errorf("inspect wal: %w", err)
		}
		segments = append(segments, s)
	}
	var out []SegmentInfo
	var damage []Damage
	decoder := entry.NewDecoder(nil)
	last := uint64(0) // entry of all segments so far
	for i := range segments {
		s := &segments[i]
		decoder.Forget()
		var next *SegmentInfo
		if i+1 < len(segments) {
			next = &segments[i+1]
		}
		found, gone, err := s.read(fsys, decoder, next, fn)
		if err != nil {
			return out, damage, err
		}
		if gone {
			continue
		}
		if n := len(out); n > 0 && s.headerErr == nil && s.Previous > last && len(found) == 0 && out[n-1].headerErr == nil {
			damage = append(damage, Damage{
				Segment: out[n-1].Path, Offset: out[n-1].End,
				Reason: fmt.Sprintf("entries %d to %d are missing", last+1, s.Previous),
			})
		}
		last = max(last, s.Last)
		damage = append(damage, found...)
		out = append(out, *s)
	}
	return out, damage, nil
}

// inspectHeader reads a segment's header. A damaged one is kept in headerErr.
func inspectHeader(fsys vfs.FS, file string, number uint64) (SegmentInfo, error) {
	s := SegmentInfo{Path: file, Number: number}
	f, err := fsys.Open(file)
	if err != nil {
		return s, err
	}
	defer f.Close()
	if s.Bytes, err = f.Size(); err != nil {
		return s, err
	}
	b := make([]byte, min(s.Bytes, segmentHeaderSize))
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return s, fmt.Errorf("read %s: %w", file, err)
	}
	h, err := parseSegmentHeader(b)
	switch {
	case errors.Is(err, errVersion):
		return s, fmt.Errorf("%s: %w", file, err)
	case err != nil:
		s.headerErr = err
	case h.number != number:
		s.headerErr = binio.Corruptf(file, 16, "segment %d under the name of segment %d", h.number, number)
		s.Number = h.number
	default:
		s.Epoch, s.First, s.Previous = h.epoch, h.first, h.previous
		s.Lineage, s.Size = h.lineage, int64(h.size)
	}
	return s, nil
}

// read walks the records of a segment. gone says that it was trimmed while it
// was read, so that what was found means nothing.
func (s *SegmentInfo) read(fsys vfs.FS, d *entry.Decoder, next *SegmentInfo, fn func(*SegmentInfo, *entry.Entry) error) (damage []Damage, gone bool, err error) {
	f, err := fsys.Open(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("inspect wal: %w", err)
	}
	defer f.Close()
	note := func(d Damage) error { damage = append(damage, d); return nil }
	if s.headerErr != nil {
		_ = note(Damage{Segment: s.Path, Bytes: min(s.Bytes, segmentHeaderSize), Reason: s.headerErr.Error()})
	}
	r := &reader{file: f, path: s.Path, number: s.Number, size: s.Bytes, decoder: d, damaged: note}
	if s.headerErr == nil {
		r.last, r.bounded = s.First-1, true
	}
	r.deliver = func(e *entry.Entry) error { return fn(s, e) }
	var torn int64
	if s.End, s.Sealed, torn, err = r.run(); err != nil {
		return nil, false, err
	}
	s.Last, s.Entries = r.last, r.delivered
	succeeded := next != nil && next.headerErr == nil && s.headerErr == nil && next.Epoch == s.Epoch && next.Previous >= s.Last
	_ = r.release(!succeeded)
	if torn > 0 {
		s.Torn = torn
		t := Damage{Segment: s.Path, Offset: s.End, Bytes: torn, Torn: true, Reason: "torn tail"}
		if next != nil && (next.headerErr != nil || next.Previous > s.Last) {
			t.Torn, t.Reason = false, "end of segment damaged"
		}
		if next == nil && s.Bytes < s.Size {
			t.Torn, t.Reason = false, s.cutText()
		}
		_ = note(t)
	} else if next == nil && !s.Sealed && s.Bytes < s.Size {
		_ = note(Damage{Segment: s.Path, Offset: s.End, Reason: s.cutText()})
	}
	// A trimmed segment is renamed before it is overwritten.
	if _, err := fsys.Stat(s.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	return damage, false, nil
}

func (s *SegmentInfo) cutText() string {
	return fmt.Sprintf("segment is cut from %d to %d bytes", s.Size, s.Bytes)
}

// Head is what the headers of a log's segments say.
type Head struct {
	// After is the sequence of the last entry before the oldest segment: entries
	// with a higher one are in the log. It is the highest number when there is no
	// segment, or the oldest one's header is damaged.
	After uint64
	// Lineages are those of the segments' data directories, without duplicates.
	Lineages []identity.Lineage
}

// ReadHead reads the headers of the segments in dir and changes nothing.
func ReadHead(fsys vfs.FS, dir string) (Head, error) {
	h := Head{After: math.MaxUint64}
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("read wal %s: %w", dir, err)
	}
	oldest := uint64(math.MaxUint64)
	for _, name := range names {
		number, ok := parseName(name, segmentSuffix)
		if !ok {
			continue
		}
		s, err := inspectHeader(fsys, path.Join(dir, name), number)
		if err != nil {
			return h, fmt.Errorf("read wal: %w", err)
		}
		if s.headerErr != nil {
			if number < oldest {
				oldest, h.After = number, math.MaxUint64
			}
			continue
		}
		if !slices.Contains(h.Lineages, s.Lineage) {
			h.Lineages = append(h.Lineages, s.Lineage)
		}
		if number < oldest {
			oldest, h.After = number, s.Previous
		}
	}
	return h, nil
}

// Lost returns the copies of damaged spans of the log in dir that were set aside,
// the texts about entries that are missing among them, and that nobody has
// removed since. Torn ends, and damage that lost nothing, are left out.
func Lost(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(path.Join(dir, quarantineDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, n := range names {
		if strings.Contains(n, "."+damagedKind+"-") {
			out = append(out, path.Join(dir, quarantineDir, n))
		}
	}
	return out, err
}
