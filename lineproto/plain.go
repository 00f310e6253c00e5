package lineproto

import (
	"bytes"
	"encoding/binary"
	"math"

	"tsdbd/column"
	"tsdbd/model"
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

// plainString returns the string whose opening quote stands at i, and the
// position behind the closing one; next is 0 when it is not there or the
// string holds backslashes.
func plainString(body []byte, i int) (s []byte, next int) {
	if i >= len(body) || body[i] != '"' {
		return nil, 0
	}
	i++
	n := bytes.IndexByte(body[i:], '"')
	if n < 0 || n > maxStringBytes || bytes.IndexByte(body[i:i+n], '\\') >= 0 {
		return nil, 0
	}
	return body[i : i+n], i + n + 1
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
// layouts not met before and for fields that stand twice, which no layout has.
//
// It returns the layout and the position behind the fields.
func (p *Parser) plainFields(measurement string, body []byte, i int) (*column.Layout, int) {
	b := p.batch
	p.signature = column.AppendLayoutMeasurement(p.signature[:0], measurement)
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
		case c == '-' || c-'0' <= 9:
			if c == '-' {
				i++
			}
			u, d, next := scanDigits(body, i)
			if uint(d-1) >= 18 || next >= len(body) {
				return nil, 0
			}
			switch body[next] {
			case 'i':
				t, value, i = model.Integer, u, next+1
				if c == '-' {
					value = -u
				}
			case 'u':
				if c == '-' {
					return nil, 0
				}
				t, value, i = model.Unsigned, u, next+1
			default:
				f, next := scanFloat(body, i, load(body, i))
				if next == 0 {
					return nil, 0
				}
				t, value, i = model.Float, math.Float64bits(f), next
				if c == '-' {
					value |= 1 << 63
				}
			}
		case c == '"':
			s, next := plainString(body, i)
			if next == 0 {
				return nil, 0
			}
			t, value, i = model.String, column.StringWord(len(b.Strings), len(s)), next
			b.Strings = append(b.Strings, s...)
		default:
			var size int
			if value, size = boolean(x); size == 0 {
				return nil, 0
			}
			t = model.Boolean
			i += size
		}
		p.signature = column.AppendLayoutField(p.signature, t, key)
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
