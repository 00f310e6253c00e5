package mongo

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// kind is the type of a value.
type kind uint8

const (
	none kind = iota // null
	integer
	float
	boolean
	text
)

// value is a value that is no document and no array.
type value struct {
	kind    kind
	i       int64
	f       float64
	b       bool
	s       string
	date    bool // i are milliseconds since 1970
	decimal bool // s is the text of a decimal, and f the float next to it if there is one
}

// The bounds of documents in documents, and of elements of arrays that become fields.
const (
	maxDepth    = 100
	maxElements = 100
)

// leaves calls f with each value in raw and its name, except below the names that are left
// out. It returns the reason why raw cannot be read.
func (d *reader) leaves(name string, raw []byte, depth int, f func(name string, v *value)) string {
	if d.skipped(name) {
		return ""
	}
	if depth > maxDepth {
		return fmt.Sprintf("%.100s: documents are nested more than %d deep", name, maxDepth)
	}
	if raw[0] != '{' && raw[0] != '[' {
		v, ok := scalar(raw)
		if !ok {
			return fmt.Sprintf("%s: %.100s is out of the range of numbers", name, raw)
		}
		f(name, &v)
		return ""
	}
	if raw[0] == '{' {
		v, is, reason := extended(raw)
		switch {
		case reason != "":
			return fmt.Sprintf("%s: %s", name, reason)
		case is:
			f(name, &v)
			return ""
		}
	}
	n := 0
	for m := range members(raw) {
		if n++; n > maxElements && raw[0] == '[' {
			reason := fmt.Sprintf("%s: the array has more than %d elements", name, maxElements)
			if depth == 0 && m.raw[0] == '{' {
				reason += ": -points " + name + " makes a point of each"
			}
			return reason
		}
		if reason := d.leaves(name+"."+m.name, m.raw, depth+1, f); reason != "" {
			return reason
		}
	}
	return ""
}

// scalar reads a value of plain JSON. It returns false for a number out of range.
func scalar(raw []byte) (value, bool) {
	switch raw[0] {
	case 'n':
		return value{}, true
	case 't', 'f':
		return value{kind: boolean, b: raw[0] == 't'}, true
	case '"':
		return value{kind: text, s: unquote(raw)}, true
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return value{kind: integer, i: n}, true
	}
	return double(string(raw))
}

// double reads a double. It returns false for a text that is none.
func double(s string) (value, bool) {
	switch s {
	case "NaN":
		return value{kind: float, f: math.NaN()}, true
	case "Infinity":
		return value{kind: float, f: math.Inf(1)}, true
	case "-Infinity":
		return value{kind: float, f: math.Inf(-1)}, true
	}
	if strings.ContainsAny(s, "xX_nN") {
		return value{}, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return value{kind: float, f: f}, err == nil
}

// extended reads a document that stands for a value, such as {"$numberLong":"5"}. is says
// that it does, and reason why it cannot be read.
func extended(raw []byte) (v value, is bool, reason string) {
	of := map[string][]byte{}
	first := ""
	for m := range members(raw) {
		if first == "" {
			if first = m.name; len(first) < 2 || first[0] != '$' {
				return v, false, ""
			}
		}
		of[m.name] = m.raw
	}
	if first == "" {
		return v, false, ""
	}
	if first == "$type" { // MongoDB 2 wrote it on either side
		first = "$binary"
	}
	inner := of[first]
	s := ""
	if len(inner) > 0 && inner[0] == '"' {
		s = unquote(inner)
	}
	bad := fmt.Sprintf("%.100s is not readable", raw)
	ok := true
	switch first {
	case "$oid", "$uuid", "$symbol":
		v, ok = value{kind: text, s: s}, s != "" || first == "$symbol"
	case "$numberInt", "$numberLong":
		var err error
		if len(inner) > 0 && inner[0] != '"' {
			s = string(inner)
		}
		v.kind = integer
		v.i, err = strconv.ParseInt(s, 10, 64)
		ok = err == nil
	case "$numberDouble":
		v, ok = double(s)
	case "$numberDecimal":
		if v, ok = double(s); !ok {
			v.kind = text // out of the range of doubles
		}
		v.decimal, v.s, ok = true, s, s != ""
	case "$date":
		v, ok = readDate(inner, s)
	case "$undefined":
	case "$binary":
		v, ok = readBinary(of, inner, s)
	default:
		return v, true, fmt.Sprintf("the type %s has no counterpart", first)
	}
	if !ok {
		return v, true, bad
	}
	return v, true, ""
}

// readDate reads the forms of a date: a text, {"$numberLong":"MILLISECONDS"}, and the number
// alone.
func readDate(raw []byte, s string) (value, bool) {
	v := value{kind: integer, date: true}
	switch {
	case len(raw) > 0 && raw[0] == '"':
		var ok bool
		v.i, ok = parseDate(s)
		return v, ok
	case len(raw) > 0 && raw[0] == '{':
		inner, is, reason := extended(raw)
		v.i = inner.i
		return v, is && reason == "" && inner.kind == integer && !inner.date
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	v.i = n
	return v, err == nil
}

// parseDate returns a date as milliseconds.
func parseDate(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999-0700"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at.UnixMilli(), true
		}
	}
	return 0, false
}

// readBinary reads a UUID as its text, and other bytes as base64.
func readBinary(of map[string][]byte, raw []byte, s string) (value, bool) {
	kind := of["$type"]
	if len(raw) > 0 && raw[0] == '{' {
		s, kind = "", nil
		for m := range members(raw) {
			switch {
			case len(m.raw) == 0 || m.raw[0] != '"':
			case m.name == "base64":
				s = unquote(m.raw)
			case m.name == "subType":
				kind = m.raw
			}
		}
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return value{}, false
	}
	if string(kind) == `"04"` && len(b) == 16 {
		h := hex.EncodeToString(b)
		s = h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	return value{kind: text, s: s}, true
}

// tag returns a value as the value of a tag, "" if it has none.
func (v *value) tag() string {
	switch {
	case v.decimal:
		return v.s
	case v.date:
		return time.UnixMilli(v.i).UTC().Format(time.RFC3339Nano)
	case v.kind == integer:
		return strconv.FormatInt(v.i, 10)
	case v.kind == float:
		return strconv.FormatFloat(v.f, 'g', -1, 64)
	case v.kind == boolean:
		return strconv.FormatBool(v.b)
	}
	return v.s
}
