package meta

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// TestDownsamples: which definitions the catalog takes, and what becomes of them.
func TestDownsamples(t *testing.T) {
	policy := func(name string, d time.Duration) Command {
		return CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: name, Duration: &d}}
	}
	create := func(from, into string, every time.Duration, functions ...string) CreateDownsample {
		return CreateDownsample{Database: "d", From: from, Into: into, Every: every, Functions: functions, Time: int64(60 * day)}
	}
	d := mustApply(t, empty(), CreateDatabase{Name: "d"}, policy("raw", 3*day), policy("hours", 0), policy("days", 0), policy("other", 0),
		CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: int64(58 * day)}, CreateShardGroup{Database: "d", RetentionPolicy: "raw", Time: int64(61 * day)})
	d = mustApply(t, d, create("raw", "hours", hour, "mean", "max"))
	tier := d.Database("d").Downsample("hours")
	if want := (Downsample{ID: d.Index, From: "raw", Into: "hours", Every: hour, Functions: []string{"mean", "max"}, Backfill: int64(day)}); !reflect.DeepEqual(*tier, want) {
		t.Errorf("%+v, want %+v", *tier, want)
	}
	for _, c := range []struct {
		cmd  Command
		want error
	}{
		{create("raw", "hours", hour, "mean", "max"), ErrDownsampleExists},
		{create("other", "hours", hour, "mean"), ErrDownsampleExists},
		{create("raw", "raw", hour, "mean"), ErrDownsampleInvalid},
		{create("hours", "days", day, "max"), ErrDownsampleInvalid},
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

	done := mustApply(t, d, CompleteWindows{tier.ID, 5, []ComputedWindows{{Measurement: "m", To: 1}, {From: 1, To: 2}}})
	if got := done.Database("d").Downsample("hours").Computed; got != 2 {
		t.Errorf("%d computed", got)
	}
	if mustApply(t, done, CompleteWindows{ID: 99, Windows: []ComputedWindows{{}}}, CompleteWindows{ID: tier.ID}) != done {
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

func TestDownsampleStart(t *testing.T) {
	d := Downsample{Every: hour}
	for at, want := range map[int64]int64{0: 0, 1: 0, int64(hour) - 1: 0, int64(hour): int64(hour), -1: -int64(hour), -int64(hour): -int64(hour)} {
		if got := d.Start(at); got != want {
			t.Errorf("window of %d starts at %d, want %d", at, got, want)
		}
	}
}
