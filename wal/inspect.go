package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/wal/entry"
)

// Inspect reads the segments in dir without changing anything and calls fn
// with every entry in order, valid during the call only. It returns what it
// found of each segment and the damage, judged as Replay does; Quarantine is
// never set. It may run beside a Log that writes to dir: a segment that is
// trimmed meanwhile is left out, and the end of the newest one may be called
// torn.
func Inspect(fsys vfs.FS, dir string, fn func(s *SegmentInfo, e *entry.Entry) error) ([]SegmentInfo, []Damage, error) {
	return inspect(fsys, dir, walk{deliver: fn})
}

// Check returns the damage of the segments in dir that are closed: of all but the newest,
// to which a Log may write at any time. pace is called with each entry, and its error
// ends Check.
func Check(fsys vfs.FS, dir string, pace func() error) ([]Damage, error) {
	_, damage, err := inspect(fsys, dir, walk{closed: true, deliver: func(*SegmentInfo, *entry.Entry) error { return pace() }})
	return slices.DeleteFunc(damage, func(d Damage) bool { return d.Torn }), err
}

// inspect reads the segments in dir with a walk.
func inspect(fsys vfs.FS, dir string, w walk) ([]SegmentInfo, []Damage, error) {
	var damage []Damage
	note := func(d Damage) error { damage = append(damage, d); return nil }
	segments, err := findSegments(fsys, dir, func(d Damage) { _ = note(d) }, func(*SegmentInfo) (bool, error) { return false, nil })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("inspect wal %s: %w", dir, err)
	}
	w.fs, w.damaged, w.vanishing = fsys, note, true
	err = w.run(segments)
	gone := map[string]bool{}
	segments = slices.DeleteFunc(segments, func(s SegmentInfo) bool {
		gone[s.Path] = s.gone
		return s.gone
	})
	damage = slices.DeleteFunc(damage, func(d Damage) bool { return gone[d.Segment] })
	return segments, damage, err
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
	segments, err := findSegments(fsys, dir, func(Damage) {}, func(*SegmentInfo) (bool, error) { return false, nil })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("read wal %s: %w", dir, err)
	}
	for i, s := range segments {
		if s.headerErr != nil {
			continue
		}
		if i == 0 {
			h.After = s.Previous
		}
		if !slices.Contains(h.Lineages, s.Lineage) {
			h.Lineages = append(h.Lineages, s.Lineage)
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
