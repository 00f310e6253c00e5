package promapi

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/prom/engine"
)

// The bounds of the times that a request may name, with the texts by which clients
// of Go name "always".
var (
	minTime = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	maxTime = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)

// parseTime reads seconds since 1970, with fractions of a millisecond cut, or RFC 3339.
func parseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < math.MaxInt64/1000-62135596801 {
		seconds, fraction := math.Modf(f)
		fraction = math.Round(fraction*1000) / 1000
		return time.Unix(int64(seconds), int64(fraction*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	switch s { // time.Parse reads years of four digits only
	case minTime.Format(time.RFC3339Nano):
		return minTime, nil
	case maxTime.Format(time.RFC3339Nano):
		return maxTime, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseDuration reads seconds, or a duration such as 1h30m.
func parseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		ns := f * float64(time.Second)
		if !(math.Abs(ns) < math.MaxInt64) { // also NaN
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}

// timeOr reads a time parameter, or returns another time if there is none.
func (c *Call) timeOr(name string, absent time.Time) (time.Time, error) {
	s := c.param(name)
	if s == "" {
		return absent, nil
	}
	t, err := parseTime(s)
	if err != nil {
		return t, invalid(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t, nil
}

// times reads the parameters start and end, which may be absent.
func (c *Call) times() (start, end time.Time, err error) {
	if start, err = c.timeOr("start", minTime); err == nil {
		end, err = c.timeOr("end", maxTime)
	}
	return start, end, err
}

// limit reads the parameter limit; 0 is none.
func (c *Call) limit() (int, error) {
	s := c.param("limit")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	if err != nil {
		return 0, invalid("limit", err)
	}
	return n, nil
}

// lookup reads the parameters of a request for labels.
func (a *API) lookup(c *Call) (*engine.Lookup, error) {
	l := &engine.Lookup{Access: c.Access}
	var err error
	if l.Limit, err = c.limit(); err != nil {
		return nil, err
	}
	l.Start, l.End, err = c.times()
	return l, err
}

// selectors reads the parameters match[]. Each of them must select by something.
func (a *API) selectors(c *Call) ([][]*labels.Matcher, error) {
	sets, err := a.opt.Engine.Selectors(c.Request.Form["match[]"])
	if err != nil {
		return nil, err
	}
next:
	for _, set := range sets {
		for _, m := range set {
			if m != nil && !m.Matches("") {
				continue next
			}
		}
		return nil, badData("match[] must contain at least one non-empty matcher")
	}
	return sets, nil
}
