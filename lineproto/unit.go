package lineproto

import (
	"fmt"
	"time"
)

// Unit returns the length in ns of the precision parameter of a write: "" and
// ns, and n, u, ms, s, m, h for the 1.x API or us, ms, s for the v2 API. The
// error is the text InfluxDB answers.
func Unit(precision string, v2 bool) (int64, error) {
	units, known := unitsV1, "n, u, ms, s, m or h"
	if v2 {
		units, known = unitsV2, "ns, us, ms or s"
	}
	if unit, ok := units[precision]; ok {
		return int64(unit), nil
	}
	return 0, fmt.Errorf("invalid precision %q (use %s)", precision, known)
}

var (
	unitsV1 = map[string]time.Duration{
		"": 1, "n": 1, "ns": 1, "u": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	}
	unitsV2 = map[string]time.Duration{"": 1, "ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}
)

// truncate rounds t down to a multiple of unit.
func truncate(t, unit int64) int64 {
	if unit <= 1 {
		return t
	}
	r := t % unit
	if r < 0 {
		r += unit
	}
	return t - r
}
