package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// places are the damages without what only one of the two readers says.
func places(list []Damage) []string {
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprintf("%s torn %v", d.Segment, d.Torn))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestInspectReadsAsReplay flips bytes and cuts segments: Inspect must deliver
// the entries that Replay delivers, judge the damage in the same way, and
// change nothing.
func TestInspectReadsAsReplay(t *testing.T) {
	fs, want := sample(t)
	r := newRand(t)
	names := segments(fs)
	for trial := range 400 {
		c := fs.Clone()
		name := names[r.IntN(len(names))]
		size := len(c.Content(name))
		at := int64(r.IntN(size))
		what := fmt.Sprintf("trial %d, %s at %d", trial, name, at)
		switch {
		case trial == 0: // sound
		case trial%5 == 4:
			if err := c.Truncate(name, at); err != nil {
				t.Fatal(err)
			}
		case trial%5 == 3:
			if err := c.Remove(name); err != nil {
				t.Fatal(err)
			}
		default:
			if err := c.Flip(name, at, byte(1+r.IntN(255))); err != nil {
				t.Fatal(err)
			}
		}
		before := map[string]string{}
		for _, n := range segments(c) {
			before[n] = string(c.Content(n))
		}
		got := map[uint64]string{}
		infos, damage, err := Inspect(c, "w", func(s *SegmentInfo, e *entry.Entry) error {
			if e.Sequence < s.First && s.headerErr == nil {
				t.Errorf("%s: entry %d in a segment that begins at %d", what, e.Sequence, s.First)
			}
			got[e.Sequence] = entrytest.Text(e)
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for n, data := range before {
			if string(c.Content(n)) != data {
				t.Fatalf("%s: %s has changed", what, n)
			}
		}
		entries := 0
		for _, s := range infos {
			entries += s.Entries
		}
		if len(infos) != len(before) || entries != len(got) {
			t.Errorf("%s: %d segments of %d, %d entries of %d", what, len(infos), len(before), entries, len(got))
		}
		l, replayed := open(t, Options{FS: c, SegmentBytes: 4 << 10})
		if !maps.Equal(got, replayed) {
			t.Errorf("%s: %d entries inspected, %d replayed", what, len(got), len(replayed))
		}
		if !slices.Equal(places(damage), places(l.Damage())) {
			t.Errorf("%s: damage %v, replay says %v", what, damage, l.Damage())
		}
		closed, err := Check(c, "w", func() error { return nil })
		lasting := slices.DeleteFunc(slices.Clone(damage), func(d Damage) bool { return d.Torn || d.Segment == names[len(names)-1] })
		if err != nil || len(c.Content(names[len(names)-1])) > 0 && !slices.Equal(places(closed), places(lasting)) {
			t.Errorf("%s: damage of closed segments %v, %v, inspected %v", what, closed, err, damage)
		}
		if trial == 0 && (!maps.Equal(got, want) || len(damage) > 0) {
			t.Errorf("sound log: %d entries of %d, damage %v", len(got), len(want), damage)
		}
		mustClose(t, l)
	}
}

// vanishing is a file system in which a segment is trimmed while it is read.
type vanishing struct {
	*vfstest.FS
	name string
}

func (v *vanishing) Stat(name string) (fs.FileInfo, error) {
	if name == v.name {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return v.FS.Stat(name)
}

func TestInspectBesideTrim(t *testing.T) {
	c, _ := sample(t)
	names := segments(c)
	if err := c.Flip(names[0], 60, 1); err != nil {
		t.Fatal(err)
	}
	// What is read of a recycled segment means nothing.
	infos, damage, err := Inspect(&vanishing{c, names[0]}, "w", func(*SegmentInfo, *entry.Entry) error { return nil })
	if err != nil || len(damage) > 0 || len(infos) != len(names)-1 {
		t.Errorf("%d segments of %d, damage %v, %v", len(infos), len(names), damage, err)
	}
	if infos, damage, err := Inspect(c, "nowhere", nil); err != nil || infos != nil || damage != nil {
		t.Errorf("a log that is not there: %v %v %v", infos, damage, err)
	}
	stop := errors.New("stop")
	if _, _, err := Inspect(c, "w", func(*SegmentInfo, *entry.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error of the callback: %v", err)
	}
}
