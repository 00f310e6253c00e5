package touched

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
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
	return meta.CreateDownsample{Database: "d", From: "raw", Into: into, Definitions: []meta.Definition{{Period: meta.Period{Every: every}, Functions: []string{"max"}}}, Time: 72 * hour}
}

// disk is a file system with the directory of a catalog.
func disk(t testing.TB) *vfstest.FS {
	fs := vfstest.New()
	if err := fs.MkdirAll("meta"); err != nil {
		t.Fatal(err)
	}
	return fs
}

func open(fs vfs.FS, d *meta.Data) *Marks { return openAfter(fs, d, 0) }

// openAfter opens marks if the log has no entries up to a sequence any more.
func openAfter(fs vfs.FS, d *meta.Data, sequence uint64) *Marks {
	return Open(fs, "meta", d, sequence, slog.New(slog.DiscardHandler), func(name string, why error) error {
		if damage := new(binio.CorruptError); !errors.As(why, &damage) && !strings.Contains(why.Error(), "version") || damage.Path != "" && damage.Path != "meta/"+name {
			return fmt.Errorf("set aside for %w", why)
		}
		return fs.Rename("meta/"+name, "meta/aside")
	})
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
	t := m.downsamples[id]
	if t == nil {
		return ""
	}
	found, whole := m.waitingLocked(id, before)
	slices.SortStableFunc(found, func(a, b Span) int { return strings.Compare(a.Measurement, b.Measurement) })
	for _, sp := range append(found, whole...) {
		fmt.Fprintf(&b, "%s %d-%d, ", sp.Measurement, sp.From/hour, sp.To/hour)
	}
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
	if got := fmt.Sprint(m.Waiting(id, 61*hour)); got != fmt.Sprint([]Span{{"cpu", 60 * hour, 61 * hour}, {"", 24 * hour, 48 * hour}}) {
		t.Errorf("before 61: %s", got)
	}
	if got, want := m.State(id, 60*hour), (State{Windows: 24, Earliest: 24 * hour, Whole: 24}); got != want {
		t.Errorf("state %+v, want %+v", got, want)
	}
	step("dropped", "", func() { change(meta.DropDownsample{Database: "d", From: "raw", Into: "hours"}) })
	m.Write(99, 3, rows("cpu", 50))
	if len(m.downsamples) != 0 || m.place(3) != nil {
		t.Error("something is left of a downsample that was dropped")
	}
}

// TestIncrease: rows of the source mark the window after theirs as well, if the source has a
// shard group there, and a group is kept until the first window after it is computed.
func TestIncrease(t *testing.T) {
	cmd := create("hours", time.Hour)
	cmd.Definitions[0].Functions = []string{"increase"}
	d := apply(t, catalog(t), cmd, meta.CreateShardGroup{Database: "d", RetentionPolicy: "hours", Time: hour})
	id := d.Database("d").Downsamples[0].ID
	m := open(disk(t), d)
	expire := meta.DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: 1, IfDuration: time.Hour}
	sequence := uint64(1)
	complete := func(from, to int64) {
		cmd := meta.CompleteWindows{ID: id, Sequence: sequence, Windows: []meta.ComputedWindows{{From: from * hour, To: to * hour, Target: sequence}}}
		m.Before(sequence, cmd, d)
		sequence++
	}
	complete(0, 72)
	for _, step := range []struct {
		shard uint64
		hour  float64
		want  string
	}{{1, 5, "cpu 5-7"}, {1, 23.5, "cpu 23-25"}, {3, 71, "cpu 71-72"}, {4, 3, "cpu 3-4"}} {
		m.Write(sequence, step.shard, rows("cpu", step.hour))
		if got := waiting(m, id, 99*hour); got != step.want {
			t.Errorf("a row at %g: %q, want %q", step.hour, got, step.want)
		}
		complete(0, 72)
	}
	m.Write(sequence, 2, rows("cpu", 24))
	if err := m.Expirable(expire, d); !errors.Is(err, meta.ErrDownsampleWaits) {
		t.Errorf("the window after the group is not computed: %v", err)
	}
	complete(24, 25)
	if err := m.Expirable(expire, d); err != nil {
		t.Errorf("only the second window after the group is not computed: %v", err)
	}
}

// TestTarget: what changes rows of the target marks their windows, where the source has
// shard groups.
func TestTarget(t *testing.T) {
	d := apply(t, catalog(t), create("hours", time.Hour))
	day := 24 * time.Hour
	for n := range 5 { // shards 4 to 8
		d = apply(t, d, meta.CreateShardGroup{Database: "d", RetentionPolicy: "hours", Time: int64(n) * 24 * hour})
	}
	id := d.Database("d").Downsamples[0].ID
	m := open(disk(t), d)
	key := func(model.SeriesID) (string, error) { return "cpu,host=a", nil }
	sequence := uint64(10)
	change := func(cmd meta.Command) {
		m.Before(sequence, cmd, d)
		d = apply(t, d, cmd)
		m.After(sequence, d)
	}
	// Windows are complete when both are: the rows of the source have been read, and
	// nobody has touched the target since it was seen to be right.
	whole := meta.ComputedWindows{From: 0, To: 72 * hour}
	change(meta.CompleteWindows{ID: id, Sequence: sequence, Windows: []meta.ComputedWindows{{From: 0, To: 72 * hour, Target: sequence}}})
	m.Write(sequence+1, 4, rows("cpu", 3))
	m.Write(sequence+2, 1, rows("cpu", 5))
	for _, upTo := range []struct {
		source, target uint64
		want           string
	}{{sequence, sequence, "cpu 3-4, cpu 5-6"}, {sequence, sequence + 2, "cpu 5-6"}, {sequence + 2, sequence + 2, ""}} {
		whole.Target = upTo.target
		m.Before(sequence+3, meta.CompleteWindows{ID: id, Sequence: upTo.source, Windows: []meta.ComputedWindows{whole}}, d)
		if got := waiting(m, id, 99*hour); got != upTo.want {
			t.Errorf("complete up to %d and %d: %q, want %q", upTo.source, upTo.target, got, upTo.want)
		}
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"computed", func() {}, ""},
		{"rows of somebody", func() { m.Write(sequence, 5, rows("cpu", 30, 31)) }, "cpu 30-32"},
		{"rows where the source has no shard", func() { m.Write(sequence, 7, rows("cpu", 80)) }, ""},
		{"a delete that goes further than the source", func() {
			m.Delete(sequence, 6, roaring.BitmapOf(1), model.TimeRange{Min: 70 * hour, Max: 90 * hour}, key)
			m.Delete(sequence, 7, roaring.BitmapOf(1), model.TimeRange{Min: 70 * hour, Max: 90 * hour}, key)
		}, "cpu 70-72"},
		{"series with other names", func() { m.Shard(sequence, 4, "cpu", "mem") }, "cpu 0-24, mem 0-24"},
		{"files from elsewhere", func() { m.Shard(sequence, 4, "") }, " 0-24"},
		{"a dropped shard", func() { change(meta.DropShard{ID: 5}) }, " 24-48"},
		{"a dropped group", func() { change(meta.DropShardGroup{Database: "d", RetentionPolicy: "hours", ID: 6}) }, " 48-72"},
		{"a shorter life", func() {
			change(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "hours", Duration: &day}})
		}, ""},
		{"a group that expired", func() {
			change(meta.DropShardGroup{Database: "d", RetentionPolicy: "hours", ID: 4, IfDuration: day})
		}, ""},
		{"a group of the source that expired", func() {
			change(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "raw", Duration: &day}})
			m.Write(sequence, 1, rows("cpu", 3))
			m.Write(sequence, 3, rows("cpu", 50))
			change(meta.DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: 1, IfDuration: day})
		}, "cpu 50-51"},
		{"a longer life", func() {
			long := 48 * time.Hour
			change(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "hours", Duration: &long}})
		}, " 24-72"},
		{"a longer life of the source", func() {
			long := 48 * time.Hour
			change(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "raw", Duration: &long}})
		}, ""},
	} {
		change(meta.CompleteWindows{ID: id, Sequence: sequence, Windows: []meta.ComputedWindows{{From: 0, To: 72 * hour, Target: sequence}}})
		sequence++
		step.do()
		if got := waiting(m, id, 99*hour); got != step.want {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}

// TestLost: who folds rows of the target that nothing can compute again sees whether they
// change meanwhile. Staged rows are no change.
func TestLost(t *testing.T) {
	d := apply(t, catalog(t), create("hours", time.Hour))
	day := 24 * time.Hour
	d = apply(t, d, meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "raw", Duration: &day}})
	for n := range 5 { // shards 4 to 8
		d = apply(t, d, meta.CreateShardGroup{Database: "d", RetentionPolicy: "hours", Time: int64(n) * 24 * hour})
	}
	id := d.Database("d").Downsamples[0].ID
	m := open(disk(t), d)
	key := func(model.SeriesID) (string, error) { return "cpu,host=a", nil }
	expire := meta.DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: 1, IfDuration: day}
	m.Before(1, expire, d)
	d = apply(t, d, expire)
	m.After(1, d)
	for i, step := range []struct {
		what string
		do   func(sequence uint64)
		lost bool
	}{
		{"rows of the source", func(n uint64) { m.Write(n, 2, rows("cpu", 30)) }, false},
		{"late rows of the source", func(n uint64) { m.Write(n, 1, rows("cpu", 3)) }, false},
		{"rows of windows that are computed", func(n uint64) { m.Write(n, 5, rows("cpu", 30, 31)) }, false},
		{"rows of windows that have expired", func(n uint64) { m.Write(n, 4, rows("cpu", 3)) }, true},
		{"rows where the source has no shard", func(n uint64) { m.Write(n, 7, rows("cpu", 80)) }, true},
		{"staged rows", func(n uint64) { m.Write(n, 4, rows(meta.StagedPrefix+"cpu", 3, 4)) }, false},
		{"a row behind staged rows", func(n uint64) { m.Write(n, 4, append(rows(meta.StagedPrefix+"cpu", 3), rows("cpu", 3)...)) }, true},
		{"a delete of what is computed", func(n uint64) {
			m.Delete(n, 5, roaring.BitmapOf(1), model.TimeRange{Min: 30 * hour, Max: 31 * hour}, key)
		}, false},
		{"a delete of what has expired", func(n uint64) {
			m.Delete(n, 4, roaring.BitmapOf(1), model.TimeRange{Min: 3 * hour, Max: 5 * hour}, key)
		}, true},
		{"a move", func(n uint64) { m.Shard(n, 4, "cpu", "mem") }, true},
		{"a dropped shard", func(n uint64) { m.Before(n, meta.DropShard{ID: 7}, d) }, true},
	} {
		before, sequence := m.Lost(id), uint64(10+i)
		step.do(sequence)
		want := before
		if step.lost {
			want = sequence
		}
		if got := m.Lost(id); got != want {
			t.Errorf("%s: lost rows last touched by %d, want %d", step.what, got, want)
		}
	}
	drop := meta.DropDownsample{Database: "d", From: "raw", Into: "hours"}
	d = apply(t, d, drop)
	m.After(30, d)
	for i, step := range []struct {
		what string
		do   func(sequence uint64)
		lost bool
	}{
		{"rows that were computed", func(n uint64) { m.Write(n, 5, rows("cpu", 30)) }, true},
		{"rows of the source", func(n uint64) { m.Write(n, 2, rows("cpu", 30)) }, false},
		{"staged rows", func(n uint64) { m.Write(n, 5, rows(meta.StagedPrefix+"cpu", 30)) }, false},
		{"a delete", func(n uint64) {
			m.Delete(n, 5, roaring.BitmapOf(1), model.TimeRange{Min: 30 * hour, Max: 31 * hour}, key)
		}, true},
		{"a dropped shard", func(n uint64) { m.Before(n, meta.DropShard{ID: 5}, d) }, true},
	} {
		before, sequence := m.Lost(id), uint64(40+i)
		step.do(sequence)
		want := before
		if step.lost {
			want = sequence
		}
		if got := m.Lost(id); got != want {
			t.Errorf("of a downsample that is gone, %s: rows last touched by %d, want %d", step.what, got, want)
		}
	}
	if got := m.Lost(99); got != 0 {
		t.Errorf("no downsample: %d", got)
	}
}

// TestLongerLifeSaved: a crash right after the files of the catalog have a change finds the
// marks that follow from it, though After was not called.
func TestLongerLifeSaved(t *testing.T) {
	day, long := 24*time.Hour, 48*time.Hour
	alter := func(d *time.Duration) meta.Command {
		return meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "hours", Duration: d}}
	}
	d := apply(t, catalog(t), create("hours", time.Hour), alter(&day))
	id := d.Database("d").Downsamples[0].ID
	fs := disk(t)
	m := open(fs, d)
	m.Before(1, meta.CompleteWindows{ID: id, Sequence: 1, Windows: []meta.ComputedWindows{{From: 0, To: 72 * hour}}}, d)
	m.Before(2, alter(&long), d)
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	after := apply(t, d, alter(&long))
	m = open(fs, after)
	m.Before(2, alter(&long), after)
	m.After(2, after)
	if got := waiting(m, id, 99*hour); got != " 0-72" {
		t.Errorf("%q", got)
	}
}

// TestCoarseGap: however coarse marks are, they do not reach over times for which the
// source has no shard group.
func TestCoarseGap(t *testing.T) {
	d := apply(t, catalog(t), meta.CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: 9 * 24 * hour}, create("hours", time.Hour))
	id := d.Database("d").Downsamples[0].ID
	m := open(disk(t), d)
	m.Before(1, meta.CompleteWindows{ID: id, Sequence: 1, Windows: []meta.ComputedWindows{{From: 0, To: 240 * hour}}}, d)
	m.downsamples[id].limit = 6
	for i := range 40 {
		m.Write(uint64(i+2), 1, rows(fmt.Sprint("m", i%9), float64(i)))
		m.Write(uint64(i+2), 4, rows(fmt.Sprint("m", i%9), 216+float64(i%20)))
	}
	for _, sp := range append(m.Waiting(id, 999*hour), Span{From: m.downsamples[id].marks[""][0].from, To: m.downsamples[id].marks[""][0].to}) {
		if sp.From < 72*hour && sp.To > 72*hour {
			t.Errorf("windows from %d to %d", sp.From/hour, sp.To/hour)
		}
	}
}

// TestEnds: windows at the ends of time.
func TestEnds(t *testing.T) {
	d := apply(t, catalog(t), meta.CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: model.MinTime},
		meta.CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: model.MaxTime}, create("hours", time.Hour))
	id := d.Database("d").Downsamples[0].ID
	fs := disk(t)
	m := open(fs, d)
	m.Before(1, meta.CompleteWindows{ID: id, Sequence: 1, Windows: []meta.ComputedWindows{{From: model.MinTime, To: math.MaxInt64}}}, d)
	if got := m.Waiting(id, math.MaxInt64); len(got) != 0 {
		t.Fatalf("left: %v", got)
	}
	sample := &d.Database("d").Downsamples[0]
	first := rows("cpu", 0, 0, 1)
	first[0].Time, first[1].Time = model.MinTime, model.MaxTime
	m.Write(2, 4, first[:1])
	m.Write(2, 5, first[1:2])
	m.Write(2, 1, first[2:])
	want := []Span{{"cpu", model.MinTime, sample.End(model.MinTime)}, {"cpu", hour, 2 * hour}, {"cpu", sample.Start(model.MaxTime), math.MaxInt64}}
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Marks{m, open(fs, d)} {
		if got := m.Waiting(id, math.MaxInt64); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if got := m.State(id, math.MaxInt64).Windows; got != 3 {
			t.Errorf("%d windows", got)
		}
	}
	m.Touch(3, "d", "raw", "", model.AllTime)
	if got, want := m.State(id, math.MaxInt64).Whole, int64(5124096); got != want { // 584 years
		t.Errorf("%d windows of all time, want %d", got, want)
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
		m.downsamples[id].limit = limit
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
				m.downsamples[id].limit = limit
			default:
				p := place{[]string{"a", "b", "c"}[rnd.IntN(3)], rnd.Int64N(72)}
				m.Write(sequence, 1, rows(p.measurement, float64(p.window)+0.5))
				want[p] = sequence
			}
			sample := m.downsamples[id]
			have := map[place]uint64{}
			count := 0
			for name, s := range sample.marks {
				count += len(s)
				for i, sp := range s {
					if sp.from >= sp.to || i > 0 && s[i-1].to > sp.from {
						t.Fatalf("spans %v", s)
					}
					for w := sp.from / hour; w < sp.to/hour; w++ {
						have[place{name, w}] = sp.source
					}
				}
			}
			if count != sample.count || count > limit {
				t.Fatalf("%d spans, counted %d, limit %d", count, sample.count, limit)
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
		m.downsamples[id].limit = 100
		for i := range 5000 {
			m.Write(uint64(i+2), 1, rows(measurement(i), float64(i*7919%(72*3600))/3600))
			if n := m.downsamples[id].count; n > 100 {
				t.Fatalf("%s: %d spans", name, n)
			}
		}
		for i := range 5000 {
			at := int64(float64(i*7919%(72*3600)) / 3600 * float64(hour))
			covered := slices.ContainsFunc(slices.Concat(m.downsamples[id].marks[""], m.downsamples[id].marks[measurement(i)]), func(s span) bool { return s.from <= at && at < s.to })
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
	m.Touch(6, "d", "hours", "cpu", model.TimeRange{Min: 5 * hour, Max: 5 * hour})
	if err := m.Save(d.Lineage); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(fs, "meta/touched")
	if err != nil {
		t.Fatal(err)
	}
	formats.Golden(t, "touched-v2.golden", b)
	formats.Examples(t, "touched.md")
	golden := b
	const some, all = "cpu -7--6, cpu 3-4, cpu 5-6, mem, é 1-2,  60-72", " 0-72"
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
		"of another version":   func() *Marks { b := slices.Clone(golden); b[8] = 1; write(b); return open(fs, d) },
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
		if err := fs.Remove("meta/aside"); (err == nil) != (what != "missing") {
			t.Errorf("%s, set aside: %v", what, err)
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

// TestWithoutFile: windows whose marks are lost wait until they are computed from all entries
// that the log does not have any more, whatever was computed when some of these came.
func TestWithoutFile(t *testing.T) {
	d := apply(t, catalog(t), create("hours", time.Hour))
	id := d.Database("d").Downsamples[0].ID
	m := openAfter(disk(t), d, 10)
	for _, c := range []struct {
		sequence uint64
		want     string
	}{{9, " 0-72"}, {10, " 3-72"}} {
		m.Before(12, meta.CompleteWindows{ID: id, Sequence: c.sequence, Windows: []meta.ComputedWindows{{From: 0, To: 3 * hour, Target: c.sequence}}}, d)
		if got := waiting(m, id, 99*hour); got != c.want {
			t.Errorf("computed from entries up to %d: %q waits, want %q", c.sequence, got, c.want)
		}
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
	golden, err := os.ReadFile("testdata/touched-v2.golden")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden[headerBytes:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		m := &Marks{}
		downsamples, lineage, err := decode("f", seal(identity.Lineage{1}, payload))
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		m.downsamples = downsamples
		again, _, err := decode("f", m.encode(lineage))
		if err != nil || len(again) != len(downsamples) {
			t.Fatalf("%d downsamples, again %d, %v", len(downsamples), len(again), err)
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

// BenchmarkWaiting is how long writers wait for a list of as many windows as there may be.
func BenchmarkWaiting(b *testing.B) {
	d := apply(b, catalog(b), create("hours", time.Hour))
	id := d.Database("d").Downsamples[0].ID
	m := open(disk(b), d)
	for i := range maxSpans / 2 {
		m.Write(uint64(i), 1, rows(fmt.Sprint("m", i), 1))
	}
	b.Run("locked", func(b *testing.B) {
		for b.Loop() {
			m.mu.Lock()
			m.waitingLocked(id, 72*hour)
			m.mu.Unlock()
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			m.Waiting(id, 72*hour)
		}
	})
}

// BenchmarkComplete is what marks cost when windows of one of 1,000 downsamples are complete.
func BenchmarkComplete(b *testing.B) {
	d := &meta.Data{}
	for i := range 100 {
		name := fmt.Sprint("d", i)
		d = apply(b, d, meta.CreateDatabase{Name: name}, meta.CreateRetentionPolicy{Database: name, Policy: meta.RetentionPolicySpec{Name: "raw"}})
		for k := range 10 {
			cmd := create(fmt.Sprint("t", k), time.Minute)
			cmd.Database = name
			d = apply(b, d, meta.CreateRetentionPolicy{Database: name, Policy: meta.RetentionPolicySpec{Name: cmd.Into}}, cmd)
		}
	}
	m := open(disk(b), d)
	cmd := meta.CompleteWindows{ID: d.Database("d50").Downsamples[5].ID, Windows: []meta.ComputedWindows{{From: 0, To: hour}}}
	for b.Loop() {
		m.Before(1, cmd, d)
		d = apply(b, d, cmd)
		m.After(1, d)
	}
}
