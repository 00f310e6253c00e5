package tsm1

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"tsdbd/model"
)

// separator is between the series and the field in the key of a column.
const separator = "#!~#"

// splitKey returns the series and the field of the key of a column.
func splitKey(key []byte) (series, field []byte, ok bool) {
	series, field, ok = bytes.Cut(key, []byte(separator))
	return series, field, ok && len(series) > 0
}

// namer finds the canonical keys of series. It belongs to one goroutine.
type namer struct {
	buf  []byte
	tags model.Tags
}

// name is what is known of a series by its key in InfluxDB.
type name struct {
	// key is the canonical key, or, if the series cannot be stored, the key in InfluxDB.
	key []byte
	// reason says why the series cannot be stored.
	reason string
}

// name returns the name of a series by its key in InfluxDB, valid until the next call and
// as long as raw is.
//
// InfluxDB keeps the key as a client has spelled it, with tags in order. Most clients
// spell it as InfluxDB would. Those keys are canonical here as well.
func (n *namer) name(raw []byte) name {
	if plain(raw) {
		return name{key: raw}
	}
	measurement, tags := n.parse(text(raw))
	if reason := model.Unstorable(measurement, tags); reason != "" {
		return name{key: raw, reason: reason}
	}
	n.buf = model.AppendSeriesKey(n.buf[:0], measurement, tags)
	return name{key: n.buf}
}

// text returns b as a string that shares its memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// plain reports whether a key is canonical and storable: printable ASCII without
// backslashes and spaces, with tags in strictly ascending order that are not empty. It
// says no to some keys that are canonical too.
func plain(raw []byte) bool {
	if len(raw) == 0 || raw[0] == '#' || raw[0] == ',' {
		return false
	}
	var previous []byte
	start, equals := 0, -1 // of the present tag; start is 0 for the measurement
	tag := func(end int) bool {
		if start == 0 {
			return true
		}
		if equals <= start || equals+1 == end {
			return false
		}
		key := raw[start:equals]
		ascends := bytes.Compare(previous, key) < 0 && string(key) != "time"
		previous = key
		return ascends
	}
	for i, c := range raw {
		switch special[c] {
		case 0:
		case ',':
			if !tag(i) {
				return false
			}
			start, equals = i+1, -1
		case '=':
			if start > 0 && equals >= 0 {
				return false
			}
			equals = i
		default:
			return false
		}
	}
	return tag(len(raw))
}

// special has the bytes that plain looks at: separators, and 1 for bytes that make a key
// not plain.
var special = func() (t [256]byte) {
	for c := range t {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			t[c] = 1
		}
	}
	t[','], t['='] = ',', '='
	return t
}()

// parse takes a key apart as InfluxDB does. A backslash hides the separator behind it.
//
// The first 2.x releases have the measurement and the field as the tags \x00 and \xff,
// behind ids of organization and bucket.
func (n *namer) parse(raw string) (string, model.Tags) {
	end := unescapedIndex(raw, 1, ',')
	measurement := unescaped(raw[:end], `,"= `)
	n.tags = n.tags[:0]
	for end < len(raw) {
		start := end + 1
		equals := unescapedIndex(raw, start, '=')
		end = unescapedIndex(raw, min(equals+1, len(raw)), ',')
		if equals >= end {
			equals = end
		}
		n.tags = append(n.tags, model.Tag{
			Key: unescaped(raw[start:equals], ",= "), Value: unescaped(raw[min(equals+1, end):end], ",= "),
		})
	}
	n.tags = slices.DeleteFunc(n.tags, func(t model.Tag) bool {
		if t.Key == "\x00" {
			measurement = t.Value
		}
		return t.Key == "\x00" || t.Key == "\xff"
	})
	n.tags.Sort()
	return measurement, n.tags
}

// unescapedIndex returns the first position of c from start on that has no backslash
// before it, or the length.
func unescapedIndex(s string, start int, c byte) int {
	for i := start; i < len(s); i++ {
		if s[i] == c && s[i-1] != '\\' {
			return i
		}
	}
	return len(s)
}

// unescaped drops backslashes before the given characters.
func unescaped(s, characters string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(characters, s[i+1]) >= 0 {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}
