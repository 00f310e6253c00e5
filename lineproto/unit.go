package lineproto

import (
	"fmt"
	"time"
)

// Unit returns the length in ns of the precision parameter of a write: "" and
// ns, and n, u, ms, s, m, h for the 1.x API or us, ms, s for the v2 API. The
// error is the text InfluxDB answers.
func Unit(precision string, v2 bool) (int64, error) {
	switch precision {
	case "", "ns":
		return 1, nil
	case "ms":
		return int64(time.Millisecond), nil
	case "s":
		return int64(time.Second), nil
	}
	if v2 {
		if precision == "us" {
			return int64(time.Microsecond), nil
		}
		return 0, fmt.Errorf("invalid precision %q (use ns, us, ms or s)", precision)
	}
	switch precision {
	case "n":
		return 1, nil
	case "u":
		return int64(time.Microsecond), nil
	case "m":
		return int64(time.Minute), nil
	case "h":
		return int64(time.Hour), nil
	}
	return 0, fmt.Errorf("invalid precision %q (use n, u, ms, s, m or h)", precision)
}

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
