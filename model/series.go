package model

import (
	"slices"
	"strings"
)

// SeriesID numbers a series within its database. Ids start at 1, 0 means
// none, and an id is never given to another series key.
type SeriesID uint32

// MaxSeriesID is the largest SeriesID.
const MaxSeriesID = 1<<32 - 1

// MaxKeyLength is the longest series key (measurement and tags, escaped), and
// the longest column key, in bytes. InfluxDB 1.x has the same limit.
const MaxKeyLength = 65535

// Tag is one unescaped key and value.
type Tag struct{ Key, Value string }

// Tags is a tag set sorted by key.
type Tags []Tag

// Get returns the value of key, or "" when the set lacks it (a tag with an
// empty value and an absent tag are the same thing).
func (t Tags) Get(key string) string {
	for i := range t {
		if t[i].Key == key {
			return t[i].Value
		}
	}
	return ""
}

// Sort sorts the set by key.
func (t Tags) Sort() {
	slices.SortFunc(t, func(a, b Tag) int { return strings.Compare(a.Key, b.Key) })
}

// AppendSeriesKey appends the canonical series key: the measurement with
// comma and space escaped, then for each tag, in order of key,
// ",key=value" with comma, equals and space escaped by a backslash. It is the
// text InfluxDB shows in SHOW SERIES. Tags must be sorted.
func AppendSeriesKey(dst []byte, measurement string, tags Tags) []byte {
	dst = appendEscaped(dst, measurement, false)
	for i := range tags {
		dst = append(dst, ',')
		dst = appendEscaped(dst, tags[i].Key, true)
		dst = append(dst, '=')
		dst = appendEscaped(dst, tags[i].Value, true)
	}
	return dst
}

func appendEscaped(dst []byte, s string, equals bool) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ',' || c == ' ' || (equals && c == '='):
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// ParseSeriesKey splits a canonical series key. The tags are appended to dst
// and share key's memory where nothing was escaped. A malformed key yields
// what can be read of it; keys come from our own writer, behind checksums.
func ParseSeriesKey(key string, dst Tags) (measurement string, tags Tags) {
	end := indexUnescaped(key, 0, ',')
	measurement = unescape(key[:end], false)
	for end < len(key) {
		start := end + 1
		eq := indexUnescaped(key, start, '=')
		end = indexUnescaped(key, min(eq, len(key)), ',')
		if eq >= len(key) {
			break
		}
		dst = append(dst, Tag{Key: unescape(key[start:eq], true), Value: unescape(key[eq+1:end], true)})
	}
	return measurement, dst
}

// SeriesMeasurement returns the unescaped measurement of a canonical key.
func SeriesMeasurement(key string) string {
	return unescape(key[:indexUnescaped(key, 0, ',')], false)
}

// indexUnescaped returns the first position of c from start on without a backslash
// before it, or len(s).
func indexUnescaped(s string, start int, c byte) int {
	for i := start; i < len(s); i++ {
		if s[i] == c && (i == 0 || s[i-1] != '\\') {
			return i
		}
	}
	return len(s)
}

func unescape(s string, equals bool) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if c := s[i+1]; c == ',' || c == ' ' || (equals && c == '=') {
				b = append(b, c)
				i++
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
