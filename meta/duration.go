package meta

import (
	"math/bits"
	"time"

	"tsdbd/model"
)

const (
	hour = time.Hour
	day  = 24 * hour
	week = 7 * day

	// MinRetentionPolicyDuration is the shortest life of a policy's data that
	// is not for ever, and the shortest shard group.
	MinRetentionPolicyDuration = time.Hour
)

// ShardDurations is the rule that gives a retention policy the duration of its
// shard groups when the statement does not: one hour below DayFrom, one day
// below WeekFrom, else, and for ever, seven days. A zero threshold stands for
// InfluxDB's. Commands carry the rule, so that Apply does not depend on local
// configuration.
type ShardDurations struct {
	DayFrom  time.Duration `json:",omitempty"`
	WeekFrom time.Duration `json:",omitempty"`
}

// InfluxShardDurations are the thresholds of InfluxDB 1.x and the default:
// policies under 2 days get hours, under 180 days days, others weeks.
var InfluxShardDurations = ShardDurations{DayFrom: 2 * day, WeekFrom: 180 * day}

// FineShardDurations are thresholds for installations that want a policy of 2
// hours to have groups of a day already: under 2 h: 1 h; up to 180 d: 1 d;
// longer: 7 d.
var FineShardDurations = ShardDurations{DayFrom: 2 * hour, WeekFrom: 180*day + 1}

// For returns the shard group duration of a policy that keeps data for d; 0 is
// for ever.
func (s ShardDurations) For(d time.Duration) time.Duration {
	dayFrom, weekFrom := s.DayFrom, s.WeekFrom
	if dayFrom <= 0 {
		dayFrom = InfluxShardDurations.DayFrom
	}
	if weekFrom <= 0 {
		weekFrom = InfluxShardDurations.WeekFrom
	}
	switch {
	case d == 0 || d >= weekFrom:
		return week
	case d >= dayFrom:
		return day
	}
	return hour
}

// normalise returns the group duration for a wish (0: none): at least one hour.
func (s ShardDurations) normalise(wish, d time.Duration) time.Duration {
	if wish == 0 {
		return s.For(d)
	}
	return max(wish, MinRetentionPolicyDuration)
}

// yearOne is the distance from January 1 of year 1 to the Unix epoch.
const yearOneSeconds = 62135596800

// GroupBounds returns the range [start, end) of the group of duration d that
// holds t: times are cut at multiples of d counted from January 1 of year 1,
// so that groups of 7 days begin on Mondays. The range is clipped to the legal
// times. d must be positive.
func GroupBounds(t int64, d time.Duration) (start, end int64) {
	width := uint64(d)
	hi, lo := bits.Mul64(yearOneSeconds, uint64(time.Second))
	_, into := bits.Div64(hi%width, lo, width)
	m := t % int64(d)
	if m < 0 {
		m += int64(d)
	}
	into = (into + uint64(m)) % width // both terms are below 1<<63
	start = t - int64(into)
	if start > t || start < model.MinTime {
		start = model.MinTime // the subtraction wrapped, or nearly so
	}
	end = t + int64(width-into)
	if end <= t || end > model.MaxTime {
		end = model.MaxTime + 1
	}
	return start, end
}
