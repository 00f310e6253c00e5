package meta

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

func TestShardDurations(t *testing.T) {
	const month6 = 180 * day
	for _, c := range []struct {
		rule ShardDurations
		keep time.Duration
		want time.Duration
	}{
		{ShardDurations{}, 0, week},
		{ShardDurations{}, hour, hour},
		{ShardDurations{}, 47 * hour, hour},
		{ShardDurations{}, 48*hour - 1, hour},
		{ShardDurations{}, 48 * hour, day},
		{ShardDurations{}, 179 * day, day},
		{ShardDurations{}, month6 - 1, day},
		{ShardDurations{}, month6, week},
		{ShardDurations{}, math.MaxInt64, week},
		{InfluxShardDurations, 48 * hour, day},
		{FineShardDurations, 0, week},
		{FineShardDurations, hour, hour},
		{FineShardDurations, 2*hour - 1, hour},
		{FineShardDurations, 2 * hour, day},
		{FineShardDurations, month6, day},
		{FineShardDurations, month6 + 1, week},
	} {
		if got := c.rule.For(c.keep); got != c.want {
			t.Errorf("%+v.For(%v) = %v, want %v", c.rule, c.keep, got, c.want)
		}
	}
}

func TestGroupBounds(t *testing.T) {
	date := func(s string) int64 {
		at, err := time.Parse("2006-01-02 15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixNano()
	}
	for _, c := range []struct {
		at         int64
		d          time.Duration
		start, end int64
	}{
		{0, week, date("1969-12-29 00:00"), date("1970-01-05 00:00")}, // Mondays
		{date("1970-01-05 00:00"), week, date("1970-01-05 00:00"), date("1970-01-12 00:00")},
		{date("1970-01-05 00:00") - 1, week, date("1969-12-29 00:00"), date("1970-01-05 00:00")},
		{0, 30 * day, date("1969-12-30 00:00"), date("1970-01-29 00:00")},
		{1500000000e9, 30 * day, date("2017-06-21 00:00"), date("2017-07-21 00:00")},
		{1500000000e9, hour, date("2017-07-14 02:00"), date("2017-07-14 03:00")},
		{-1, day, date("1969-12-31 00:00"), 0},
		{0, math.MaxInt64, 0, 0}, // filled in below
	} {
		start, end := GroupBounds(c.at, c.d)
		if c.d == math.MaxInt64 {
			if !(start <= c.at && c.at < end) {
				t.Errorf("GroupBounds(%d, %v) = %d, %d", c.at, c.d, start, end)
			}
			continue
		}
		if start != c.start || end != c.end {
			t.Errorf("GroupBounds(%d, %v) = %d, %d, want %d, %d", c.at, c.d, start, end, c.start, c.end)
		}
	}
}

// The standard library counts from year 1 too.
func TestGroupBoundsAgainstTimeTruncate(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 20000 {
		d := hour + time.Duration(rnd.Int64N(int64(1)<<(40+rnd.UintN(22))))
		at := int64(rnd.Uint64())
		switch rnd.IntN(8) {
		case 0:
			at = model.MinTime + rnd.Int64N(1e6)
		case 1:
			at = model.MaxTime - rnd.Int64N(1e6)
		}
		at = min(max(at, model.MinTime), model.MaxTime)
		start, end := GroupBounds(at, d)
		if at < start || at >= end || start < model.MinTime || end > model.MaxTime+1 {
			t.Fatalf("GroupBounds(%d, %v) = %d, %d", at, d, start, end)
		}
		lo := time.Unix(0, at).UTC().Truncate(d)
		hi := lo.Add(d)
		if start != model.MinTime && !lo.Equal(time.Unix(0, start)) {
			t.Fatalf("GroupBounds(%d, %v) starts at %d, want %v", at, d, start, lo)
		}
		if start == model.MinTime && lo.After(time.Unix(0, start)) {
			t.Fatalf("GroupBounds(%d, %v) starts at the minimum, want %v", at, d, lo)
		}
		if end != model.MaxTime+1 && !hi.Equal(time.Unix(0, end)) {
			t.Fatalf("GroupBounds(%d, %v) ends at %d, want %v", at, d, end, hi)
		}
		if end == model.MaxTime+1 && hi.Before(time.Unix(0, end)) {
			t.Fatalf("GroupBounds(%d, %v) ends at the maximum, want %v", at, d, hi)
		}
	}
}
