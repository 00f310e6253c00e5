package downsample

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
)

// shadow is a point of the source that never expires.
type shadow struct {
	measurement string
	tags        [3]string // values of a, b and c
	field       string    // f: a float, g: an integer
	value       int64
	at          int64 // seconds; no two points have one time
}

// series returns the measurement and the tags of a point as answers have them.
func (p *shadow) series() string {
	out := p.measurement
	for i, value := range p.tags {
		if value != "" {
			out += fmt.Sprintf(",%c=%s", 'a'+i, value)
		}
	}
	return out
}

// shadows are all points.
type shadows []shadow

// aggregates returns what a downsample has of the windows that begin before a time, by
// series and time.
func (s shadows) aggregates(d *meta.Downsample, before int64) map[string]string {
	type total struct{ count, sum, least, most int64 }
	totals := map[string]map[string]*total{}
	for i := range s {
		p := &s[i]
		start := d.Start(p.at * 1e9)
		if start >= before {
			continue
		}
		row := p.series() + " " + time.Unix(0, start).UTC().Format("2006-01-02T15:04:05Z")
		if totals[row] == nil {
			totals[row] = map[string]*total{}
		}
		t := totals[row][p.field]
		if t == nil {
			t = &total{least: p.value, most: p.value}
			totals[row][p.field] = t
		}
		t.count, t.sum, t.least, t.most = t.count+1, t.sum+p.value, min(t.least, p.value), max(t.most, p.value)
	}
	out := map[string]string{}
	for row, fields := range totals {
		var cells []string
		for field, t := range fields {
			for function, v := range map[string]int64{"count": t.count, "sum": t.sum, "min": t.least, "max": t.most} {
				if slices.Contains(d.Current().Functions, function) {
					cells = append(cells, fmt.Sprintf("%s_%s=%d", function, field, v))
				}
			}
		}
		slices.Sort(cells)
		out[row] = strings.Join(cells, " ")
	}
	return out
}

// aggregatesOf returns what a downsample has of the windows that begin before a time.
func (h *harness) aggregatesOf(d *meta.Downsample, before int64) map[string]string {
	got := h.contents(fmt.Sprintf("SELECT * FROM %s./.*/ WHERE time < %d GROUP BY *", d.Into, before))
	maps.DeleteFunc(got, func(key, _ string) bool { return meta.Staged(key) })
	return got
}

// TestFoldsModel: whatever series become one, in downsamples of rows of which some have
// expired, before or afterwards, and wherever the server is killed, the aggregates are those
// of all rows that there ever were.
func TestFoldsModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 44))
	folded, refused, cuts := 0, 0, 0
	for range testseed.Rounds(10) {
		h := newHarness(t)
		h.now = time.Unix(0, 0).Add(48 * time.Hour)
		h.must("CREATE DATABASE d WITH DURATION 3d SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY t1 ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; CREATE RETENTION POLICY t2 ON d DURATION INF REPLICATION 1 SHARD DURATION 14d")
		h.must("CREATE DOWNSAMPLE ON d FROM raw INTO t1 EVERY 1h AS count, sum, min, max; CREATE DOWNSAMPLE ON d FROM raw INTO t2 EVERY 1d AS sum, max")
		var all shadows
		taken := map[int64]bool{}
		compare := func(what string, lost bool, want ...shadows) {
			t.Helper()
			db := h.store.Catalog().Database("d")
			for i, w := range want {
				text := ""
				for k := range db.Downsamples {
					d := &db.Downsamples[k]
					before := d.Start(h.now.Add(-settle(d.Current().Every)).UnixNano())
					if lost {
						before = d.Ceil(db.RetentionPolicy("raw").Expired)
					}
					got, want := h.aggregatesOf(d, before), w.aggregates(d, before)
					for _, key := range slices.Sorted(maps.Keys(want)) {
						if got[key] != want[key] {
							text += fmt.Sprintf("%s: %s has %q, want %q\n", d.Into, key, got[key], want[key])
						}
					}
					for key := range got {
						if want[key] == "" {
							text += fmt.Sprintf("%s: %s has %q, want nothing\n", d.Into, key, got[key])
						}
					}
				}
				if text == "" {
					return
				}
				if i == len(want)-1 {
					t.Fatalf("%s:\n%s", what, text)
				}
			}
		}
		for step := range 70 {
			h.now = h.now.Add(time.Duration(rnd.IntN(120)) * time.Minute)
			what := "write"
			switch rnd.IntN(8) {
			case 0, 1:
				statement, after := all.move(rnd)
				what = fmt.Sprintf("step %d, %s", step, statement)
				var left *vfstest.FS
				if rnd.IntN(3) == 0 {
					n, keep := rnd.IntN(12), float64(rnd.IntN(3))/2
					h.fs.SetHook(func(vfstest.Op) error {
						if n--; n == -1 {
							left = h.fs.Crash(rnd, keep)
						}
						return nil
					})
				}
				got := h.ask(statement)
				h.fs.SetHook(nil)
				if left != nil {
					cuts++
					_ = h.store.Close()
					h.fs = left
					h.open()
					compare(what+", cut", true, all, after)
					got = h.ask(statement)
				}
				switch {
				case strings.Contains(got, "not found"): // it was done before the cut, or nothing has the name
					all = after
				case strings.Contains(got, "already"): // a series has both tags
					refused++
				case strings.HasPrefix(got, "ERR"):
					t.Fatalf("%s: %s", what, got)
				default:
					if !strings.Contains(got, "merged=0") {
						folded++
					}
					all = after
				}
				compare(what, true, all)
			case 2:
				what = "expire"
				if err := h.settle(); err != nil {
					t.Fatal(err)
				}
				if err := h.expire("raw"); err != nil && !strings.Contains(err.Error(), "waits") {
					what = err.Error()
				}
				compare(what, true, all)
			case 3:
				what = "crash"
				h.crash(1)
			case 4:
				what = "flush"
				h.store.FlushSoon()
			case 5:
				what = "settled"
				if err := h.settle(); err != nil {
					t.Fatal(err)
				}
				compare(what, false, all)
			default:
				var lines []string
				floor := h.store.Catalog().Database("d").RetentionPolicy("raw").Expired / 1e9
				for range 1 + rnd.IntN(30) {
					p := shadow{measurement: fmt.Sprintf("m%d", rnd.IntN(2)), field: "f", value: int64(rnd.IntN(50) - 20), at: h.now.Unix() - int64(rnd.IntN(36*3600))}
					p.tags = [3]string{[]string{"", "x", "y", "z"}[rnd.IntN(4)], []string{"", "u", "v"}[rnd.IntN(3)], []string{"", "", "", "x"}[rnd.IntN(4)]}
					if p.at < floor+86400 || taken[p.at] {
						continue
					}
					taken[p.at] = true
					suffix := ""
					if rnd.IntN(3) == 0 {
						p.field, suffix = "g", "i"
					}
					all = append(all, p)
					lines = append(lines, fmt.Sprintf("%s %s=%d%s %d", p.series(), p.field, p.value, suffix, p.at))
				}
				if err := h.load("raw", strings.Join(lines, "\n")); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.now = h.now.Add(49 * time.Hour)
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		compare("at the end", false, all)
		if err := h.store.RemoveStaged(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, policy := range []string{"t1", "t2"} {
			if got := h.ask(fmt.Sprintf("SELECT * FROM %s./^_fold:/", policy)); got != "" {
				t.Errorf("staged rows are left:\n%s", got)
			}
		}
		compare("without staged rows", false, all)
		_ = h.store.Close()
	}
	t.Logf("%d moves merged series, %d were refused, %d were cut off", folded, refused, cuts)
	if folded == 0 || cuts == 0 {
		t.Error("the test has not tested")
	}
}

// move returns a statement, and what it makes of the points.
func (s shadows) move(rnd *rand.Rand) (string, shadows) {
	m := fmt.Sprintf("m%d", rnd.IntN(2))
	where, value := "", ""
	if rnd.IntN(2) == 0 {
		value = []string{"u", "v"}[rnd.IntN(2)]
		where = fmt.Sprintf(" WHERE b = '%s'", value)
	}
	after := slices.Clone(s)
	each := func(f func(p *shadow)) {
		for i := range after {
			if p := &after[i]; p.measurement == m && (where == "" || p.tags[1] == value) {
				f(p)
			}
		}
	}
	switch rnd.IntN(5) {
	case 0:
		each(func(p *shadow) { p.tags[0] = "" })
		return "UPDATE " + m + " DROP TAG a" + where, after
	case 1:
		each(func(p *shadow) { p.tags[1] = "" })
		return "UPDATE " + m + " DROP TAG b" + where, after
	case 2:
		each(func(p *shadow) { p.tags[0] = "x" })
		return "UPDATE " + m + " SET a = 'x'" + where, after
	case 3:
		where = ""
		each(func(p *shadow) {
			if p.tags[0] != "" {
				p.tags[0], p.tags[2] = "", p.tags[0]
			}
		})
		return "ALTER MEASUREMENT " + m + " RENAME TAG a TO c", after
	}
	where = ""
	other := map[string]string{"m0": "m1", "m1": "m0"}[m]
	each(func(p *shadow) { p.measurement = other })
	return "ALTER MEASUREMENT " + m + " RENAME TO " + other, after
}
