package raftlog

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func TestInspect(t *testing.T) {
	m, s := newLog(t, small)
	for i := uint64(1); i <= 60; i += 5 {
		must(t, s.StoreLogs(entries(i, i+4, 1)))
	}
	must(t, s.DeleteRange(50, 60))
	must(t, s.StoreLogs(entries(50, 51, 2)))
	must(t, s.Close())
	next, cuts := uint64(1), 0
	r, err := Inspect(m, testDir, func(g *SegmentInfo, entries []raft.Log, truncated uint64) {
		if len(entries) == 0 {
			cuts++
			next = truncated + 1
		}
		for _, l := range entries {
			if want := entry(next, l.Term); !sameLog(&l, want) {
				t.Errorf("entry %d in %s: %+v", next, g.Path, l)
			}
			next++
		}
	})
	must(t, err)
	if cuts != 1 || next != 52 || r.First != 1 || r.Next != 52 || len(r.Damage) > 0 {
		t.Errorf("%d truncations, next %d, %+v", cuts, next, r)
	}
	count := 0
	for i, g := range r.Segments {
		count += g.Entries
		if last := i == len(r.Segments)-1; g.Closed != last || g.Torn || g.Used == 0 {
			t.Errorf("%+v", g)
		}
	}
	if count != 62 {
		t.Errorf("%d entries", count)
	}
}

func TestSetAside(t *testing.T) {
	m, s := newLog(t, small)
	must(t, s.StoreLogs(entries(1, 20, 1)))
	must(t, s.Close())
	must(t, m.Flip(segmentPath(testDir, 1), 700, 1))
	for i, name := range []string{"/data/quarantine/log-1", "/data/quarantine/log-2"} {
		must(t, SetAside(m, testDir))
		text := string(m.Content(name + ".reason"))
		if damaged := strings.Contains(text, "000000000001.rlog at offset 543"); damaged != (i == 0) || !strings.Contains(text, testDir) {
			t.Errorf("text of %s: %s", name, text)
		}
		if r, err := Inspect(m, name, nil); err != nil || len(r.Damage) != 1-i {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		must(t, Create(m, testDir, Base{Index: 5, Term: 1}))
		s := mustOpen(t, m, small)
		must(t, s.StoreLog(entry(6, 2)))
		must(t, s.Close())
	}
}
