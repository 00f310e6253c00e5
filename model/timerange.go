package model

import (
	"math"
	"time"
)

// The legal range of a point's time in nanoseconds since the Unix epoch
// (InfluxDB's: the two outermost values of int64 at each end are reserved).
const (
	MinTime int64 = math.MinInt64 + 2
	MaxTime int64 = math.MaxInt64 - 1
)

// TimeRange is a closed range [Min, Max] of nanoseconds since the Unix epoch.
type TimeRange struct{ Min, Max int64 }

// AllTime is the range that holds every legal time.
var AllTime = TimeRange{Min: MinTime, Max: MaxTime}

// Contains reports whether t lies in r.
func (r TimeRange) Contains(t int64) bool { return t >= r.Min && t <= r.Max }

// Overlaps reports whether r and o share an instant.
func (r TimeRange) Overlaps(o TimeRange) bool { return r.Min <= o.Max && o.Min <= r.Max }

// Covers reports whether o lies within r.
func (r TimeRange) Covers(o TimeRange) bool { return r.Min <= o.Min && o.Max <= r.Max }

// Empty reports whether r holds no instant.
func (r TimeRange) Empty() bool { return r.Min > r.Max }

// Intersect returns the instants that lie in both; it may be Empty.
func (r TimeRange) Intersect(o TimeRange) TimeRange {
	return TimeRange{Min: max(r.Min, o.Min), Max: min(r.Max, o.Max)}
}

// Union returns the smallest range that holds both.
func (r TimeRange) Union(o TimeRange) TimeRange {
	return TimeRange{Min: min(r.Min, o.Min), Max: max(r.Max, o.Max)}
}

// Nanoseconds returns a time in nanoseconds since the Unix epoch, the nearest that an int64
// has. It may lie outside of AllTime, as the end of the last shard group does.
func Nanoseconds(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Share returns about how many of n rows, evenly spaced over a range, are in r.
func (r TimeRange) Share(n int64, of TimeRange) int64 {
	all, part := float64(of.Max)-float64(of.Min), float64(min(r.Max, of.Max))-float64(max(r.Min, of.Min))
	if part >= all {
		return n
	}
	return int64(math.Ceil(float64(n) * max(part, 0) / all))
}
