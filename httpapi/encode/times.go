package encode

import (
	"strconv"
	"time"
)

// timeFormat renders timestamps: as integers of a unit, or as RFC 3339 with
// as many decimals as needed. It caches the date of the last day, so it belongs to
// one answer.
type timeFormat struct {
	unit     int64          // nanoseconds per unit; 0 means RFC 3339
	zone     *time.Location // nil is UTC
	zoneName string         // of zone; loading one reads a file
	start    int64          // first second of the cached day
	date     [11]byte       // "2006-01-02T" of the cached day
	ready    bool
}

// setZone sets the zone of times. The planner has refused names that cannot be
// loaded; for such a name the zone is UTC.
func (f *timeFormat) setZone(name string) {
	if name == f.zoneName || f.unit != 0 {
		return
	}
	f.zoneName, f.zone = name, nil
	if loc, err := time.LoadLocation(name); err == nil && loc != time.UTC {
		f.zone = loc
	}
}

// EpochUnit returns the nanoseconds per unit of an epoch parameter. An unknown value
// means nanoseconds, as in InfluxDB.
func EpochUnit(epoch string) int64 {
	switch epoch {
	case "u":
		return 1e3
	case "ms":
		return 1e6
	case "s":
		return 1e9
	case "m":
		return 60e9
	case "h":
		return 3600e9
	}
	return 1
}

// append appends ns without quotes; units larger than a nanosecond divide
// toward zero.
func (f *timeFormat) append(dst []byte, ns int64) []byte {
	switch f.unit {
	case 0:
		return f.appendRFC3339(dst, ns)
	case 1:
		return strconv.AppendInt(dst, ns, 10)
	}
	return strconv.AppendInt(dst, ns/f.unit, 10)
}

func (f *timeFormat) appendRFC3339(dst []byte, ns int64) []byte {
	if f.zone != nil {
		return time.Unix(0, ns).In(f.zone).AppendFormat(dst, time.RFC3339Nano)
	}
	sec := ns / 1e9
	frac := ns - sec*1e9
	if frac < 0 {
		frac += 1e9
		sec--
	}
	s := sec - f.start
	if uint64(s) >= 86400 || !f.ready {
		f.setDay(sec)
		s = sec - f.start
	}
	t := uint32(s)
	h := t / 3600
	t -= h * 3600
	m := t / 60
	t -= m * 60
	dst = append(dst, f.date[:]...)
	dst = append(dst, digits2[h*2], digits2[h*2+1], ':', digits2[m*2], digits2[m*2+1], ':', digits2[t*2], digits2[t*2+1])
	if frac != 0 {
		dst = appendFraction(dst, uint32(frac))
	}
	return append(dst, 'Z')
}

func (f *timeFormat) setDay(sec int64) {
	day := time.Unix(sec, 0).UTC().Truncate(24 * time.Hour)
	f.start, f.ready = day.Unix(), true
	day.AppendFormat(f.date[:0], "2006-01-02T")
}

// appendFraction appends the nanoseconds of a second, without trailing zeros.
func appendFraction(dst []byte, ns uint32) []byte {
	var d [10]byte
	d[0] = '.'
	for i := 9; i >= 1; i-- {
		d[i] = byte('0' + ns%10)
		ns /= 10
	}
	n := len(d)
	for d[n-1] == '0' {
		n--
	}
	return append(dst, d[:n]...)
}
