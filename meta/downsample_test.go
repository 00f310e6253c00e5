package meta

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"tsdbd/model"
)

// TestDownsamples: which definitions the catalog takes, and what becomes of them.
func TestDownsamples(t *testing.T) {
	policy := func(name string, d time.Duration) Command {
		return CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: name, Duration: &d}}
	}
	create := func(from, into string, every time.Duration, functions ...string) CreateDownsample {
		return CreateDownsample{Database: "d", From: from, Into: into, Definitions: []Definition{{Period: Period{Every: every}, Functions: functions}}, Time: int64(60 * day)}
	}
	d := mustApply(t, empty(), CreateDatabase{Name: "d"}, policy("raw", 3*day), policy("hours", 0), policy("days", 0), policy("other", 0),
		CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: int64(58 * day)}, CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: int64(61 * day)})
	d = mustApply(t, d, create("raw", "hours", hour, "mean", "max"))
	sample := d.Database("d").Downsample("hours")
	if want := (Downsample{ID: d.Index, From: "raw", Into: "hours", Definitions: []Definition{{Since: model.MinTime, Period: Period{Every: hour}, Functions: []string{"mean", "max"}}}, Backfill: int64(day), Changed: int64(60 * day)}); !reflect.DeepEqual(*sample, want) {
		t.Errorf("%+v, want %+v", *sample, want)
	}
	if next, err := Apply(create("raw", "hours", hour, "mean", "max"), d); err != nil || next != d {
		t.Errorf("the same downsample again: changed %v, %v", next != d, err)
	}
	for _, c := range []struct {
		cmd  Command
		want error
	}{
		{create("raw", "hours", hour, "mean"), ErrDownsampleExists},
		{create("raw", "hours", 2*hour, "mean", "max"), ErrDownsampleExists},
		{create("other", "hours", hour, "mean"), ErrDownsampleExists},
		{create("raw", "raw", hour, "mean"), ErrDownsampleInvalid},
		{create("hours", "days", 90*time.Minute, "max"), ErrDownsampleInvalid},
		{create("hours", "days", day, "min"), ErrDownsampleInvalid},
		{create("hours", "raw", day, "max"), ErrDownsampleInvalid},
		{create("other", "raw", day, "max"), ErrDownsampleInvalid},
		{create("raw", "days", 4*day, "max"), ErrDownsampleInvalid},
		{create("raw", "days", time.Millisecond, "max"), ErrDownsampleInvalid},
		{create("raw", "days", day), ErrDownsampleInvalid},
		{create("raw", "days", day, "max", "max"), ErrDownsampleInvalid},
		{create("raw", "x", day, "max"), ErrRetentionPolicyNotFound},
		{create("x", "days", day, "max"), ErrRetentionPolicyNotFound},
		{CreateDownsample{Database: "x"}, ErrDatabaseNotFound},
		{DropDownsample{"x", "raw", "hours"}, ErrDatabaseNotFound},
		{DropDownsample{"d", "raw", "days"}, ErrDownsampleNotFound},
		{DropDownsample{"d", "other", "hours"}, ErrDownsampleNotFound},
	} {
		if _, err := Apply(c.cmd, d); !errors.Is(err, c.want) {
			t.Errorf("%T%+v: %v, want %v", c.cmd, c.cmd, err, c.want)
		}
	}
	d = mustApply(t, d, create("raw", "days", day, "count"))
	if _, err := Apply(AlterRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "raw", Duration: ptr(5 * hour), ShardGroupDuration: ptr(hour)}}, d); !errors.Is(err, ErrDownsampleInvalid) {
		t.Errorf("a policy that becomes shorter than a window: %v", err)
	}

	done := mustApply(t, d, CompleteWindows{sample.ID, 5, []ComputedWindows{{Measurement: "m", To: 1}, {From: 1, To: 2}}})
	if got := done.Database("d").Downsample("hours").Computed; got != 2 {
		t.Errorf("%d computed", got)
	}
	if mustApply(t, done, CompleteWindows{ID: 99, Windows: []ComputedWindows{{}}}, CompleteWindows{ID: sample.ID}) != done {
		t.Error("no change made a change")
	}
	if got := d.Database("d").Downsample("hours").Computed; got != 0 {
		t.Errorf("the catalog before has %d computed", got)
	}

	if got := mustApply(t, d, DropDownsample{"d", "raw", "hours"}).Database("d").Downsamples; len(got) != 1 || got[0].Into != "days" {
		t.Errorf("after the drop: %+v", got)
	}
	if got := mustApply(t, d, DropRetentionPolicy{"d", "days"}).Database("d").Downsamples; len(got) != 1 || got[0].Into != "hours" {
		t.Errorf("without a target: %+v", got)
	}
	if got := mustApply(t, d, DropRetentionPolicy{"d", "raw"}).Database("d").Downsamples; len(got) != 0 {
		t.Errorf("without a source: %+v", got)
	}
}

// TestExpired: the catalog knows up to where the age of rows has had an effect.
func TestExpired(t *testing.T) {
	d := mustApply(t, empty(), CreateDatabase{Name: "d", Policy: &RetentionPolicySpec{Duration: ptr(3 * day)}})
	for n := range 4 {
		d = mustApply(t, d, CreateShardGroup{Database: "d", Time: int64(n) * int64(day)})
	}
	expired := func() int64 {
		rp, _ := d.RetentionPolicy("d", "")
		return rp.Expired
	}
	d = mustApply(t, d, DropShardGroup{Database: "d", ID: 4})
	if got := expired(); got != 0 {
		t.Errorf("a drop that is no expiry: %d", got)
	}
	d = mustApply(t, d, DropShardGroup{Database: "d", ID: 2, IfDuration: 3 * day}, DropShardGroup{Database: "d", ID: 1, IfDuration: 3 * day})
	if got := expired(); got != int64(2*day) {
		t.Errorf("expired up to %v", time.Duration(got))
	}
}

// TestDownsampleWindows: windows follow one another without a gap from the start of time to
// its end.
func TestDownsampleWindows(t *testing.T) {
	const first, last = model.MinTime, model.MaxTime
	for _, c := range []struct {
		every                time.Duration
		at, start, end, ceil int64
	}{
		{hour, 0, 0, int64(hour), 0},
		{hour, 1, 0, int64(hour), int64(hour)},
		{hour, int64(hour) - 1, 0, int64(hour), int64(hour)},
		{hour, -1, -int64(hour), 0, 0},
		{hour, -int64(hour), -int64(hour), 0, -int64(hour)},
		{hour, first, first, -int64(2562047 * hour), first},
		{hour, first + 1, first, -int64(2562047 * hour), -int64(2562047 * hour)},
		{hour, last, int64(2562047 * hour), math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, first, first, 0, first},
		{math.MaxInt64, -1, first, 0, 0},
		{math.MaxInt64, last, 0, math.MaxInt64, math.MaxInt64},
	} {
		d := Downsample{Definitions: []Definition{{Since: first, Period: Period{Every: c.every}}}}
		if start, end, ceil := d.Start(c.at), d.End(c.at), d.Ceil(c.at); start != c.start || end != c.end || ceil != c.ceil {
			t.Errorf("%v: %d is in [%d, %d), next %d, want [%d, %d), %d", c.every, c.at, start, end, ceil, c.start, c.end, c.ceil)
		}
	}
	d := Downsample{Definitions: []Definition{{Since: first, Period: Period{Every: hour}}}}
	for _, c := range []struct{ from, to, want int64 }{
		{0, 0, 0},
		{5, 0, 0},
		{0, int64(hour), 1},
		{0, int64(3 * hour), 3},
		{first, d.End(first), 1},
		{d.Start(last), math.MaxInt64, 1},
		{first, math.MaxInt64, 5124096},
	} {
		if got := d.Windows(c.from, c.to); got != c.want {
			t.Errorf("%d windows from %d to %d, want %d", got, c.from, c.to, c.want)
		}
	}
	for _, c := range []struct{ at, n, want int64 }{
		{0, 1, int64(hour)},
		{0, 3, int64(3 * hour)},
		{first, 1, d.End(first)},
		{first, 1 << 40, math.MaxInt64},
		{last, 1, math.MaxInt64},
		{last, 9, math.MaxInt64},
		{-1, 1 << 22, math.MaxInt64},
		{0, 2562047, int64(2562047 * hour)},
		{0, 2562048, math.MaxInt64},
		{first, 5124096, math.MaxInt64},
		{first, 2562048, 0},
	} {
		if got := d.After(c.at, c.n); got != c.want {
			t.Errorf("%d windows from %d end at %d, want %d", c.n, c.at, got, c.want)
		}
	}
}

// TestBackfillOfAllTime: what there was at the creation is a length of time, though it be
// longer than one can be.
func TestBackfillOfAllTime(t *testing.T) {
	century := 100 * 365 * day
	d := mustApply(t, empty(), CreateDatabase{Name: "d", Policy: &RetentionPolicySpec{Name: "raw", ShardGroupDuration: &century}},
		CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "hours"}})
	for at := int64(-9e18); at < 9e18; at += 1e18 {
		d = mustApply(t, d, CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: at})
	}
	d = mustApply(t, d, CreateDownsample{Database: "d", From: "raw", Into: "hours", Definitions: []Definition{{Period: Period{Every: hour}, Functions: []string{"max"}}}, Time: model.MaxTime})
	if got := d.Database("d").Downsamples[0].Backfill; got != math.MaxInt64 {
		t.Errorf("%d", got)
	}
}

// TestLost: what the target has of times that the source does not cover cannot be computed
// again.
func TestLost(t *testing.T) {
	h := int64(hour)
	d := Downsample{From: "raw", Definitions: []Definition{{Since: model.MinTime, Period: Period{Every: hour}}}}
	for _, c := range []struct {
		expired int64
		groups  [][2]int64 // of the source, in half hours
		from    int64
		to      int64 // in half hours, not included
		want    string
	}{
		{0, nil, 0, 10, "[0,10)"},
		{0, [][2]int64{{2, 4}, {4, 6}}, 0, 10, "[0,2)[6,10)"},
		{0, [][2]int64{{2, 4}, {6, 8}}, 2, 8, "[4,6)"},
		{0, [][2]int64{{3, 5}}, 0, 10, "[0,2)[6,10)"}, // windows of which it has a part
		{0, [][2]int64{{0, 20}}, 2, 10, ""},
		{0, [][2]int64{{20, 30}}, 2, 10, "[2,10)"},
		{4, [][2]int64{{0, 2}, {2, 8}}, 0, 10, "[0,4)[8,10)"}, // a late group of lost rows, and one that has lost some
		{5, [][2]int64{{5, 8}}, 0, 10, "[0,6)[8,10)"},
		{12, [][2]int64{{0, 8}}, 0, 10, "[0,10)"},
	} {
		db := &Database{RetentionPolicies: []*RetentionPolicy{{Name: "raw"}}}
		rp := db.RetentionPolicies[0]
		rp.Expired = c.expired * h / 2
		for _, g := range c.groups {
			rp.ShardGroups = append(rp.ShardGroups, &ShardGroup{Start: g[0] * h / 2, End: g[1] * h / 2})
		}
		got := ""
		for _, r := range d.Lost(db, model.TimeRange{Min: c.from * h / 2, Max: c.to*h/2 - 1}) {
			got += fmt.Sprintf("[%d,%d)", r.Min*2/h, (r.Max+1)*2/h)
		}
		if got != c.want {
			t.Errorf("expired %d, groups %v, [%d,%d): %s, want %s", c.expired, c.groups, c.from, c.to, got, c.want)
		}
	}
}

// TestKeeps: rows of some time keep a tag if a definition of that time does.
func TestKeeps(t *testing.T) {
	db := &Database{RetentionPolicies: []*RetentionPolicy{{Name: "raw"}}}
	d := Downsample{From: "raw", Definitions: []Definition{{Since: model.MinTime, Period: Period{Every: hour}}, {Since: 100, Period: Period{Every: hour}, Without: []string{"pod"}}, {Since: 200, Period: Period{Every: hour}, Grouped: true, By: []string{"dc"}}}}
	for _, c := range []struct {
		tag      string
		from, to int64
		want     bool
	}{
		{"pod", 0, 99, true},
		{"pod", 99, 300, true},
		{"pod", 100, 300, false},
		{"host", 100, 150, true},
		{"host", 199, 300, true},
		{"host", 200, 300, false},
		{"dc", 200, 300, true},
	} {
		if got := d.Keeps(db, c.tag, model.TimeRange{Min: c.from, Max: c.to}); got != c.want {
			t.Errorf("%s in [%d, %d]: %v", c.tag, c.from, c.to, got)
		}
	}
}

// TestRestoredDownsample: a downsample that is restored knows what its policies had lost, unless
// they have rows of that time.
func TestRestoredDownsample(t *testing.T) {
	create := CreateDownsample{
		Database: "d", From: "raw", Into: "hours", Definitions: []Definition{{Period: Period{Every: hour}, Functions: []string{"max"}}}, Time: int64(60 * day),
		Begins: int64(day), FromExpired: int64(50 * day), IntoExpired: int64(2 * day),
	}
	d := mustApply(t, empty(), CreateDatabase{Name: "d", Policy: &RetentionPolicySpec{Name: "raw"}}, CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "hours"}},
		CreateShardGroup{Database: "d", RetentionPolicy: "hours", Time: 0})
	for _, c := range []struct{ first, from int64 }{{56, 50}, {49, 50}, {1, 0}} { // days; a shard group has seven
		db := mustApply(t, d, CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: c.first * int64(day)}, create).Database("d")
		got := []int64{db.Downsample("hours").Begins, db.RetentionPolicy("raw").Expired, db.RetentionPolicy("hours").Expired}
		if want := []int64{int64(day), c.from * int64(day), int64(2 * day)}; !reflect.DeepEqual(got, want) {
			t.Errorf("a first shard group with day %d: %v, want %v", c.first, got, want)
		}
	}
}
