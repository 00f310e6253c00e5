package config

import (
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written "64MiB", "64m" or plain.
type Size int64

// Int returns the size as an int, which is the largest one where it does not
// hold the size.
func (s Size) Int() int { return int(min(int64(s), math.MaxInt)) }

// sizeUnits are tried in this order, longest suffix first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"kib", 1 << 10},
	{"mib", 1 << 20},
	{"gib", 1 << 30},
	{"kb", 1e3},
	{"mb", 1e6},
	{"gb", 1e9},
	{"k", 1 << 10},
	{"m", 1 << 20},
	{"g", 1 << 30},
	{"b", 1},
}

// UnmarshalText reads a size: k, m and g are powers of 1024, as InfluxDB's.
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := strings.ToLower(strings.TrimSpace(string(text))), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size such as 64MiB", text)
	}
	*s = Size(n * unit)
	return nil
}

// MarshalText writes a size in the largest unit that divides it.
func (s Size) MarshalText() ([]byte, error) {
	for _, u := range []int{2, 1, 0} {
		if unit := sizeUnits[u]; s != 0 && int64(s)%unit.bytes == 0 {
			return fmt.Appendf(nil, "%d%s", int64(s)/unit.bytes, []string{"KiB", "MiB", "GiB"}[u]), nil
		}
	}
	return strconv.AppendInt(nil, int64(s), 10), nil
}

// LogLevel is a level of the log, by its name.
type LogLevel slog.Level

// UnmarshalText reads debug, info, warn or error in any case.
func (l *LogLevel) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "debug":
		*l = LogLevel(slog.LevelDebug)
	case "info":
		*l = LogLevel(slog.LevelInfo)
	case "warn":
		*l = LogLevel(slog.LevelWarn)
	case "error":
		*l = LogLevel(slog.LevelError)
	default:
		return fmt.Errorf("%q is not debug, info, warn or error", text)
	}
	return nil
}

// String returns the name.
func (l LogLevel) String() string { return slog.Level(l).String() }

// MarshalText writes the name.
func (l LogLevel) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Duration is a length of time, written as Go does, and with days and weeks.
type Duration time.Duration

const day = 24 * time.Hour

// UnmarshalText reads a duration such as 90s, 2h30m, 7d or 26w.
func (d *Duration) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	var total time.Duration
	whole := false // days or weeks were given
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"w", 7 * day}, {"d", day}} {
		number, rest, ok := strings.Cut(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > int64(math.MaxInt64/u.unit) {
			return fmt.Errorf("%q is not a duration such as 90s, 2h30m or 7d", text)
		}
		total, s, whole = total+time.Duration(n)*u.unit, rest, true
	}
	if s != "" || !whole {
		t, err := time.ParseDuration(s)
		if err != nil || t < 0 || total+t < 0 {
			return fmt.Errorf("%q is not a duration such as 90s, 2h30m or 7d", text)
		}
		total += t
	}
	if total < 0 {
		return fmt.Errorf("%q is too long a duration", text)
	}
	*d = Duration(total)
	return nil
}

// MarshalText writes whole days as such, the rest as Go does.
func (d Duration) MarshalText() ([]byte, error) {
	t := time.Duration(d)
	if t >= day && t%day == 0 {
		return fmt.Appendf(nil, "%dd", t/day), nil
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return []byte(s), nil
}

// FileMode is the permissions of a file, written in octal.
type FileMode fs.FileMode

// UnmarshalText reads permissions such as 0660.
func (m *FileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q is not a file mode such as 0660", text)
	}
	*m = FileMode(n)
	return nil
}

// MarshalText writes four octal digits.
func (m FileMode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }
