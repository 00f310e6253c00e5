package touched

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/testkit/formats"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

const hour = int64(time.Hour)

// apply returns the catalog after changes.
func apply(t testing.TB, d *meta.Data, cmds ...meta.Command) *meta.Data {
	t.Helper()
	for _, cmd := range cmds {
		next, err := meta.Apply(cmd, d)
		if err != nil {
			t.Fatalf("%+v: %v", cmd, err)
		}
		d = next
	}
	return d
}

// catalog has a database with three days in the policy raw, shards 1 to 3.
func catalog(t testing.TB) *meta.Data {
	day := 24 * time.Hour
	policy := func(name string) meta.Command {
		return meta.CreateRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: name, ShardGroupDuration: &day}}
	}
	d := apply(t, &meta.Data{Lineage: identity.Lineage{1, 2, 3}}, meta.CreateDatabase{Name: "d"}, policy("raw"), policy("hours"), policy("days"))
	for n := range 3 {
		d = apply(t, d, meta.CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: int64(n) * 24 * hour})
	}
	return d
}

func create(into string, every time.Duration) meta.CreateDownsample {
	return meta.CreateDownsample{Database: "d", From: "raw", Into: into, Every: every, Functions: []string{"max"}, Time: 72 * hour}
}

// disk is a file system with the directory of a catalog.
func disk(t testing.TB) *vfstest.FS {
	fs := vfstest.New()
	if err := fs.MkdirAll("meta"); err != nil {
		t.Fatal(err)
	}
	return fs
}

func open(fs vfs.FS, d *meta.Data) *Marks {
	return Open(fs, "meta", d, slog.New(slog.DiscardHandler))
}

// rows are rows of measurements at hours.
func rows(measurement string, hours ...float64) []point.Row {
	l := &point.Layout{Measurement: measurement, Fields: []column.Field{{Key: "f", Type: model.Float}}}
	var out []point.Row
	for _, h := range hours {
		out = append(out, point.Row{Layout: l, Time: int64(h * float64(hour))})
	}
	return out
}

// waiting writes down all that is waiting, in hours, spans that touch each other as one.
func waiting(m *Marks, id uint64, before int64) string {
	var b strings.Builder
	list := func(name string, s spans) {
		for i := 0; i < len(s); {
			j := i
			for j+1 < len(s) && s[j+1].from == s[j].to {
				j++
			}
			if s[i].from < before {
				fmt.Fprintf(&b, "%s %d-%d, ", name, s[i].from/hour, min(s[j].to, before)/hour)
			}
			i = j + 1
		}
	}
	t := m.tiers[id]
	if t == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(t.measurements)) {
		list(name, t.measurements[name])
	}
	list("", t.all)
	return strings.TrimSuffix(b.String(), ", ")
}

// TestMarks follows the windows of a downsample through what happens to its source.
func TestMarks(t *testing.T) {
	d := catalog(t)
	m := open(disk(t), d)
	m.Write(1, 1, rows("cpu", 1)) // nobody asks yet
	created := apply(t, d, create("hours", time.Hour))
	id := created.Database("d").Downsamples[0].ID
	m.After(2, created)
	sequence := uint64(2)
	step := func(what, want string, do func()) {
		t.Helper()
		sequence++
		do()
		if got := waiting(m, id, 72*hour); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	change := func(cmd meta.Command) {
		m.Before(sequence, cmd, created)
		created = apply(t, created, cmd)
		m.After(sequence, created)
	}
	complete := func(upTo uint64, windows ...meta.ComputedWindows) func() {
		return func() { change(meta.CompleteWindows{ID: id, Sequence: upTo, Windows: windows}) }
	}
	step("created", " 0-72", func() {})
	step("some back-fill", " 30-72", complete(3, meta.ComputedWindows{From: 0, To: 30 * hour}))
	step("late rows", "cpu 3-4, cpu 5-6, mem 3-4,  30-72", func() {
		m.Write(sequence, 1, append(rows("cpu", 3.5, 3.9, 5, 3), rows("mem", 3.1)...))
	})
	step("back-fill done", "cpu 3-4, cpu 5-6, mem 3-4", complete(sequence, meta.ComputedWindows{From: 30 * hour, To: 72 * hour}))
	step("rows of no source", "cpu 3-4, cpu 5-6, mem 3-4", func() { m.Write(sequence, 9, rows("cpu", 7)) })
	step("computed before a row came", "cpu 3-4, mem 3-4", func() {
		m.Write(sequence, 1, rows("cpu", 3.2))
		complete(sequence-1, meta.ComputedWindows{Measurement: "cpu", From: 3 * hour, To: 6 * hour})()
	})
	step("computed", "mem 3-4", complete(sequence+1, meta.ComputedWindows{Measurement: "cpu", From: 3 * hour, To: 4 * hour}))
	keys := map[model.SeriesID]string{7: "disk,path=/", 8: "cpu,host=a"}
	key := func(id model.SeriesID) (string, error) {
		if k, ok := keys[id]; ok {
			return k, nil
		}
		return "", errors.New("unknown series")
	}
	step("a delete", "cpu 26-29, disk 26-29, mem 3-4", func() {
		m.Delete(sequence, 2, roaring.BitmapOf(7, 8), model.TimeRange{Min: 26*hour + 1, Max: 28 * hour}, key)
	})
	step("a delete of a whole shard", "cpu 26-29, disk 24-48, mem 3-4", func() {
		m.Delete(sequence, 2, roaring.BitmapOf(7), model.AllTime, key)
	})
	step("a delete of a series without a name", "cpu 26-29, disk 24-48, mem 3-4,  50-51", func() {
		m.Delete(sequence, 3, roaring.BitmapOf(9), model.TimeRange{Min: 50 * hour, Max: 50 * hour}, key)
	})
	step("whole windows but of one measurement", "mem 0-70,  70-72", func() {
		m.Touch(sequence, "d", "raw", "", model.TimeRange{Min: 60 * hour, Max: 72*hour - 1})
		complete(sequence, meta.ComputedWindows{Except: []string{"mem"}, From: 0, To: 70 * hour})()
	})
	step("whole windows", "", complete(99, meta.ComputedWindows{From: 0, To: 72 * hour}))
	step("a group that expired", "", func() {
		change(meta.DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: 1, IfDuration: 0})
		complete(99, meta.ComputedWindows{From: 0, To: 72 * hour})()
		m.Before(sequence, meta.DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: 2, IfDuration: time.Hour}, created)
	})
	step("a shard that was dropped", " 24-48", func() { change(meta.DropShard{ID: 2}) })
	step("a statement that moves series", "cpu 60-62,  24-48", func() {
		m.Touch(sequence, "d", "raw", "cpu", model.TimeRange{Min: 60 * hour, Max: 61 * hour})
		m.Touch(sequence, "d", "days", "cpu", model.AllTime)
		m.Touch(sequence, "x", "raw", "cpu", model.AllTime)
	})
	if got := waiting(m, id, 30*hour); got != " 24-30" {
		t.Errorf("before 30: %q", got)
	}
	if got := fmt.Sprint(m.Waiting(id, 61*hour, 5)); got != fmt.Sprint([]Span{{"cpu", 60 * hour, 61 * hour}, {"", 24 * hour, 48 * hour}}) {
		t.Errorf("before 61: %s", got)
	}
	if got, want := m.State(id, 60*hour), (State{Windows: 24, Earliest: 24 * hour, Whole: 24 * hour}); got != want {
		t.Errorf("state %+v, want %+v", got, want)
	}
	step("dropped", "", func() { change(meta.DropDownsample{Database: "d", From: "raw", Into: "hours"}) })
	m.Write(99, 3, rows("cpu", 50))
	if len(m.tiers) != 0 || m.sources.Load() != nil {
		t.Error("something is left of a downsample that was dropped")
	}
}

// TestMarksModel holds spans against a sequence for each window, also after the file.
func TestMarksModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range 200 {
		d := apply(t, catalog(t), create("hours", time.Hour))
		id := d.Database("d").Downsamples[0].ID
		fs := disk(t)
		m := open(fs, d)
		limit := []int{maxSpans, 12}[rnd.IntN(2)]
		m.tiers[id].limit = limit
		type place struct {
			measurement string
			window      int64
		}
		want := map[place]uint64{} // what is certainly waiting
		for w := range int64(72) {
			want[place{"", w}] = 0
		}
		for sequence := uint64(1); sequence < 60; sequence++ {
			switch rnd.IntN(8) {
			case 0:
				from := rnd.Int64N(72)
				w := meta.ComputedWindows{Measurement: []string{"", "a", "b"}[rnd.IntN(3)], From: from * hour, To: min(72, from+rnd.Int64N(40)) * hour}
				upTo := sequence - min(sequence, uint64(rnd.IntN(4)))
				m.Before(sequence, meta.CompleteWindows{ID: id, Sequence: upTo, Windows: []meta.ComputedWindows{w}}, d)
				maps.DeleteFunc(want, func(p place, of uint64) bool {
					return of <= upTo && p.window*hour >= w.From && p.window*hour < w.To && (w.Measurement == "" || w.Measurement == p.measurement)
				})
			case 1:
				p := place{[]string{"", "a", "b"}[rnd.IntN(3)], rnd.Int64N(72)}
				to := min(71, p.window+rnd.Int64N(20))
				m.Touch(sequence, "d", "raw", p.measurement, model.TimeRange{Min: p.window * hour, Max: to*hour + 5})
				for ; p.window <= to; p.window++ {
					want[p] = sequence
				}
			case 2:
				if err := m.Save(d.Lineage); err != nil {
					t.Fatal(err)
				}
				m = open(fs, d)
				m.tiers[id].limit = limit
			default:
				p := place{[]string{"a", "b", "c"}[rnd.IntN(3)], rnd.Int64N(72)}
				m.Write(sequence, 1, rows(p.measurement, float64(p.window)+0.5))
				want[p] = sequence
			}
			tier := m.tiers[id]
			have := map[place]uint64{}
			count := len(tier.all)
			note := func(name string, s spans) {
				for i, sp := range s {
					if sp.from >= sp.to || i > 0 && s[i-1].to > sp.from {
						t.Fatalf("spans %v", s)
					}
					for w := sp.from / hour; w < sp.to/hour; w++ {
						have[place{name, w}] = sp.sequence
					}
				}
			}
			note("", tier.all)
			for name, s := range tier.measurements {
				note(name, s)
				count += len(s)
			}
			if count != tier.count || count > limit {
				t.Fatalf("%d spans, counted %d, limit %d", count, tier.count, limit)
			}
			for p, of := range want {
				if got, ok := have[p]; (!ok || got < of) && (limit == maxSpans || have[place{"", p.window}] < of) {
					t.Fatalf("at %d: %v has %d, want %d or more", sequence, p, got, of)
				}
			}
			if limit == maxSpans && len(have) != len(want) {
				t.Fatalf("at %d: %d windows, want %d", sequence, len(have), len(want))
			}
		}
	}
}

// TestMarksBounded: neither many windows nor many measurements take memory without end,
// and no window is forgotten.
func TestMarksBounded(t *testing.T) {
	d := apply(t, catalog(t), create("hours", time.Second))
	id := d.Database("d").Downsamples[0].ID
	for name, measurement := range map[string]func(i int) string{
		"windows":      func(int) string { return "cpu" },
		"measurements": func(i int) string { return fmt.Sprint("m", i) },
	} {
		m := open(disk(t), d)
		m.Before(1, meta.CompleteWindows{ID: id, Sequence: 1, Windows: []meta.ComputedWindows{{From: 0, To: 72 * hour}}}, d)
		m.tiers[id].limit = 100
		for i := range 5000 {
			m.Write(uint64(i+2), 1, rows(measurement(i), float64(i%72*3600+i)/3600*2))
			if n := m.tiers[id].count; n > 100 {
				t.Fatalf("%s: %d spans", name, n)
			}
		}
		for i := range 5000 {
			at := int64(float64(i%72*3600+i) / 3600 * 2 * float64(hour))
			covered := slices.ContainsFunc(m.tiers[id].all, func(s span) bool { return s.from <= at && at < s.to }) ||
				slices.ContainsFunc(m.tiers[id].measurements[measurement(i)], func(s span) bool { return s.from <= at && at < s.to })
			if !covered {
				t.Fatalf("%s: row %d is forgotten", name, i)
			}
		}
	}
}

// TestFile: the file has what the marks have, and what cannot be read marks everything.
func TestFile(t *testing.T) {
	d := apply(t, catalog(t), create("hours", time.Hour), create("days", 24*time.Hour))
	id := d.Database("d").Downsamples[0].ID
	fs := disk(t)
	m := open(fs, d)
	m.Before(1, meta.CompleteWindows{ID: id, Sequence: 1, Windows: []meta.ComputedWindows{{From: 0, To: 60 * hour}}}, d)
	m.Write(5, 1, append(rows("cpu", 3, -7), rows("mem, é", 1)...))
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(fs, "meta/touched")
	if err != nil {
		t.Fatal(err)
	}
	formats.Golden(t, "touched-v1.golden", b)
	formats.Examples(t, "touched.md")
	golden := b
	const some, all = "cpu -7--6, cpu 3-4, mem, é 1-2,  60-72", " 0-72"
	if got := waiting(open(fs, d), id, 99*hour); got != some {
		t.Errorf("read: %q", got)
	}
	write := func(b []byte) {
		if err := vfs.WriteFileAtomic(fs, "meta", "meta/touched", b); err != nil {
			t.Fatal(err)
		}
	}
	other := *d
	other.Lineage = identity.Lineage{9}
	for what, marks := range map[string]func() *Marks{
		"damaged":              func() *Marks { write(append(slices.Clone(golden[:50]), golden[51:]...)); return open(fs, d) },
		"of another version":   func() *Marks { b := slices.Clone(golden); b[8] = 2; write(b); return open(fs, d) },
		"empty":                func() *Marks { write(nil); return open(fs, d) },
		"of another directory": func() *Marks { write(golden); return open(fs, &other) },
		"missing": func() *Marks {
			if err := fs.Remove("meta/touched"); err != nil {
				t.Fatal(err)
			}
			return open(fs, d)
		},
	} {
		m := marks()
		if got := waiting(m, id, 99*hour); got != all {
			t.Errorf("%s: %q", what, got)
		}
		if err := m.Save(d.Lineage); err != nil || !strings.Contains(waiting(open(fs, d), id, 99*hour), all) {
			t.Errorf("%s, saved: %v", what, err)
		}
	}
	// Nothing to note, no file.
	m.After(9, catalog(t))
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat("meta/touched"); err == nil {
		t.Error("a file without downsamples")
	}
}

// TestFull: a full disk costs what the file says, not the marks, and no Save fails.
func TestFull(t *testing.T) {
	d := apply(t, catalog(t), create("hours", time.Hour))
	id := d.Database("d").Downsamples[0].ID
	fs := disk(t)
	m := open(fs, d)
	m.Before(1, meta.CompleteWindows{ID: id, Sequence: 1, Windows: []meta.ComputedWindows{{From: 0, To: 72 * hour}}}, d)
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	m.Write(2, 1, rows("cpu", 3))
	fs.SetLimit(1)
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	if got := waiting(open(fs, d), id, 99*hour); got != " 0-72" {
		t.Errorf("after a restart: %q", got)
	}
	fs.SetLimit(0)
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	if got := waiting(open(fs, d), id, 99*hour); got != "cpu 3-4" {
		t.Errorf("with room again: %q", got)
	}
}

func FuzzDecode(f *testing.F) {
	golden, err := os.ReadFile("testdata/touched-v1.golden")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden[headerBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		m := &Marks{}
		tiers, lineage, err := decode("f", seal(identity.Lineage{1}, payload))
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		m.tiers = tiers
		again, _, err := decode("f", m.encode(lineage))
		if err != nil || len(again) != len(tiers) {
			t.Fatalf("%d tiers, again %d, %v", len(tiers), len(again), err)
		}
	})
}

// BenchmarkWrite is the cost of marks for a row: of one measurement, and of ten that
// take turns.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{1, 10} {
		d := apply(b, catalog(b), create("hours", time.Hour))
		m := open(disk(b), d)
		var batch []point.Row
		for i := range n {
			batch = append(batch, rows(fmt.Sprint("m", i), 5)...)
		}
		var all []point.Row
		for len(all) < 5000 {
			all = append(all, batch...)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for i := range b.N {
				m.Write(uint64(i), 1, all)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(all)), "ns/row")
		})
	}
}
