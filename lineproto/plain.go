package lineproto

import (
	"bytes"
	"encoding/binary"
	"math"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// longName is the longest spelling of a series, and the longest field key, that
// the fast path looks up: together they are no column key of forbidden length.
const longName = (model.MaxKeyLength - 4) / 2

// rawKey returns the bytes from pos to the first space that no backslash
// stands before, or nil when they cannot be a known series' spelling.
func (p *Parser) rawKey(body []byte, pos int) []byte {
	for from := pos; ; from = p.space + 1 {
		if p.space < from {
			i := bytes.IndexByte(body[from:], ' ')
			if i < 0 {
				i = len(body) - from
			}
			p.space = from + i
		}
		if p.space >= len(body) || p.space-pos > longName {
			return nil
		}
		if p.space > pos && body[p.space-1] == '\\' {
			continue
		}
		raw := body[pos:p.space]
		if bytes.IndexByte(raw, '\n') >= 0 {
			return nil
		}
		return raw
	}
}

// quoted returns the end of the string whose opening quote stands at i: the
// position of the closing one, and whether backslashes stand between. It is 0
// when there is no string.
func quoted(body []byte, i int) (end int, escaped bool) {
	if i >= len(body) || body[i] != '"' {
		return 0, false
	}
	i++
	n := bytes.IndexByte(body[i:], '"')
	if n < 0 {
		return 0, false
	}
	first := bytes.IndexByte(body[i:i+n], '\\')
	if first < 0 {
		return i + n, false
	}
	for i += first; i < len(body) && body[i] != '"'; i++ {
		if body[i] == '\\' {
			i++
		}
	}
	if i >= len(body) {
		return 0, false
	}
	return i, true
}

// quotedValue reads a string value into the batch. It returns the position
// behind it, 0 if the slow path has to look, and the value's word.
func (p *Parser) quotedValue(body []byte, i int) (next int, value uint64) {
	end, escaped := quoted(body, i)
	if end == 0 {
		return 0, 0
	}
	s := body[i+1 : end]
	if escaped || len(s) > maxStringBytes {
		if value = p.appendString(s); value&longString != 0 {
			return 0, 0
		}
		return end + 1, value
	}
	b := p.batch
	value = column.StringWord(len(b.Strings), len(s))
	b.Strings = append(b.Strings, s...)
	return end + 1, value
}

// oddFloat reads a float that scanFloat declines: with an exponent, a point at
// either end, more digits, or one that needs more precision. i is behind the
// sign. next is 0 if the slow path has to look.
func oddFloat(body []byte, i int) (f float64, next int) {
	next = i
	for next < len(body) && body[next] != ',' && body[next] != ' ' && body[next] != '\n' {
		next++
	}
	if next == i || body[i] == '-' {
		return 0, 0
	}
	t, value, reason := number(body[i:next])
	if t != model.Float || reason != "" {
		return 0, 0
	}
	return math.Float64frombits(value), next
}

var (
	wordTrue, wordTRUE, wordTrueC = word("true"), word("TRUE"), word("True")
	wordFals, wordFALS, wordFalsC = word("fals"), word("FALS"), word("Fals")
)

func word(s string) uint64 { return uint64(binary.LittleEndian.Uint32([]byte(s))) }

// boolean reads the boolean that x begins with; size is 0 when it does not.
// What stands behind it is for the caller to check.
func boolean(x uint64) (value uint64, size int) {
	switch w := x & math.MaxUint32; {
	case w == wordTrue || w == wordTRUE || w == wordTrueC:
		return 1, 4
	case w == wordFals && byte(x>>32) == 'e', w == wordFALS && byte(x>>32) == 'E', w == wordFalsC && byte(x>>32) == 'e':
		return 0, 5
	}
	switch byte(x) {
	case 't', 'T':
		return 1, 1
	case 'f', 'F':
		return 0, 1
	}
	return 0, 0
}

// plainFields reads fields that are not those predicted, as long as their keys
// need no unescaping and their values are of the common forms, and finds their
// layout. It returns a nil layout where the slow path is needed: also for
// layouts that it has not seen before, and for fields that stand twice, which no layout has.
//
// It returns the layout and the position behind the fields.
func (p *Parser) plainFields(measurement string, body []byte, i int) (*point.Layout, int) {
	b := p.batch
	p.signature = point.AppendLayoutMeasurement(p.signature[:0], measurement)
	for {
		start := i
		for i < len(body) && plainKeyByte[body[i]] {
			i++
		}
		if i == start || i >= len(body) || body[i] != '=' || i-start > longName {
			return nil, 0
		}
		key := body[start:i]
		i++
		x := load(body, i)
		var t model.FieldType
		var value uint64
		switch c := byte(x); {
		case c == '-' || c == '.' || c-'0' <= 9:
			if c == '-' {
				i++
			}
			u, d, next := scanDigits(body, i)
			switch {
			case next < len(body) && body[next] == 'i':
				if d == 0 || d > 18 {
					return nil, 0
				}
				t, value, i = model.Integer, u, next+1
				if c == '-' {
					value = -u
				}
			case next < len(body) && body[next] == 'u':
				if d == 0 || d > 19 || c == '-' {
					return nil, 0
				}
				t, value, i = model.Unsigned, u, next+1
			default:
				f, next := scanFloat(body, i, load(body, i))
				if next == 0 || next < len(body) && body[next]|0x20 == 'e' {
					if f, next = oddFloat(body, i); next == 0 {
						return nil, 0
					}
				}
				t, value, i = model.Float, math.Float64bits(f), next
				if c == '-' {
					value |= 1 << 63
				}
			}
		case c == '"':
			t = model.String
			if i, value = p.quotedValue(body, i); i == 0 {
				return nil, 0
			}
		default:
			var size int
			if value, size = boolean(x); size == 0 {
				return nil, 0
			}
			t = model.Boolean
			i += size
		}
		p.signature = point.AppendLayoutField(p.signature, t, key)
		b.Values = append(b.Values, value)
		if i < len(body) && body[i] == ',' {
			i++
			continue
		}
		if i < len(body) && body[i] != ' ' && body[i] != '\n' {
			return nil, 0
		}
		return p.table.FindLayout(p.signature), i
	}
}

// plainKeyByte are the bytes of field keys that stand for themselves wherever
// they stand.
var plainKeyByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c > ' ' && c != ',' && c != '=' && c != '\\' && c != '"'
	}
	return t
}()
