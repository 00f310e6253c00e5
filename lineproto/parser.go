package lineproto

import (
	"bytes"
	"encoding/binary"
	"math"

	"tsdbd/column"
	"tsdbd/model"
)

// Options says how bodies are read. The zero value reads nanoseconds and
// stamps lines without a time with 0.
type Options struct {
	Unit int64 // ns per unit of the timestamps, see Unit; 0 means 1
	Now  int64 // time of lines that have none, ns; rounded down to Unit

	// MaxErrorBytes bounds the bytes of bad lines that are kept for the error
	// text (1 MiB if 0). The first bad line is always kept.
	MaxErrorBytes int
}

const defaultMaxErrorBytes = 1 << 20

// maxStringBytes is the longest string a batch can represent; see
// column.StringWord.
const maxStringBytes = 1<<24 - 1

// Parser reads bodies of line protocol into batches. It holds only scratch
// memory and what it last met; it is used by one goroutine at a time, and any
// number of parsers may share a table. The zero value is ready.
type Parser struct {
	table *column.Table
	view  *column.View
	last  uint32 // number of the entry of the latest line, 0 if none
	batch *column.Batch
	opt   Options
	errs  *Errors

	// space is the position of the first space at or behind the place that
	// was last searched, so that a body without spaces is searched once.
	space int

	tags      []tag
	fields    []field
	seen      map[string]int
	key       []byte
	signature []byte
	unescaped []byte
}

// Parse appends the points of body to batch in their order and sets
// batch.Database. Series and layouts are interned in table. Nothing of body is
// kept: strings are copied to batch.Strings. It returns the number of points
// appended. The error is nil or an *Errors; good lines are appended whatever
// the others are.
func (p *Parser) Parse(batch *column.Batch, table *column.Table, body []byte, opt Options) (int, error) {
	if opt.Unit <= 0 {
		opt.Unit = 1
	}
	if opt.MaxErrorBytes <= 0 {
		opt.MaxErrorBytes = defaultMaxErrorBytes
	}
	opt.Now = truncate(opt.Now, opt.Unit)
	if p.table != table {
		p.table, p.last = table, 0
	}
	p.view = table.View()
	p.batch, p.opt, p.space = batch, opt, -1
	batch.Database = table.Database()
	before := len(batch.Rows)
	for pos := 0; pos < len(body); {
		if pos = p.fast(body, pos); pos < len(body) {
			pos = p.slow(body, pos)
		}
	}
	errs := p.errs
	p.batch, p.errs, p.view = nil, nil, nil
	n := len(batch.Rows) - before
	if errs != nil {
		return n, errs
	}
	return n, nil
}

// fast reads lines of the common shape from pos on: the series' raw bytes were
// met before, one space, the fields as predicted or at least plain, one space
// and a timestamp or none, newline. It returns the position of the first line
// that is not so. Such lines end where the slow path ends them too: raw bytes
// with another reading are not put into the table.
func (p *Parser) fast(body []byte, pos int) int {
	b, v, last := p.batch, p.view, p.last
	vals, unit := b.Values, p.opt.Unit
	for pos < len(body) {
		// The series: the one that followed last time, the same again, or by
		// the hash of its bytes.
		var number uint32
		var e *column.Entry
		n := 0
		prev := v.Entry(last)
		if prev != nil {
			number = prev.Next()
			if e = v.Entry(number); e != nil {
				n = v.Match(e, body[pos:])
			}
			if n == 0 {
				if n = v.Match(prev, body[pos:]); n != 0 {
					number, e = last, prev
				}
			}
		}
		if n == 0 {
			raw := p.rawKey(body, pos)
			if raw == nil {
				break
			}
			number, v = p.table.Find(raw)
			if number == 0 {
				break
			}
			e, n = v.Entry(number), len(raw)
		}
		if prev != nil && prev.Next() != number {
			prev.SetNext(number)
		}
		i := pos + n + 1

		// The fields.
		layout := v.Layout(e)
		if layout == nil {
			v = p.table.View()
			if layout = v.Layout(e); layout == nil {
				break
			}
		}
		first, firstString := len(vals), len(b.Strings)
		wire := layout.Wire()
		if cap(vals)-first < len(wire) {
			vals = grow(vals, len(wire))
		}
		vals = vals[:first+len(wire)]
		out := vals[first:]
		matched := len(wire) > 0
	fields:
		for k := range wire {
			w := &wire[k]
			x := load(body, i)
			if size := len(w.Prefix); size <= 8 {
				if (x^w.First)&w.Mask != 0 {
					matched = false
					break
				}
				i += size
			} else {
				if x != w.First || load(body, i+size-8) != w.Last {
					matched = false
					break
				}
				if size > 16 && string(body[i+8:i+size-8]) != w.Prefix[8:size-8] {
					matched = false
					break
				}
				i += size
			}
			x = load(body, i)
			switch w.Type {
			case model.Integer:
				negative := byte(x) == '-'
				if negative {
					i++
					x = load(body, i)
				}
				d := digits(x)
				u := decimal8(x, d)
				i += d
				if d == 8 {
					u, d, i = scanDigits(body, i, u, d)
				}
				// 18 digits cannot overflow; longer ones are left to strconv.
				if i >= len(body) || body[i] != 'i' || uint(d-1) >= 18 {
					matched = false
					break fields
				}
				i++
				if negative {
					u = -u
				}
				out[k] = u
			case model.Float:
				sign := uint64(0)
				if byte(x) == '-' {
					sign = 1 << 63
					i++
					x = load(body, i)
				}
				var f float64
				d := digits(x)
				if c := byte(x >> (8 * uint(d))); d-1 < 5 && d > 0 && c == '.' {
					// The point is cut out of the word, so that short decimals
					// are read as one number.
					low := uint64(1)<<(8*uint(d)) - 1
					y := x&low | (x>>8)&^low
					all := digits(y) // the top byte is 0
					if all < 7 && all > d {
						f = float64(decimal8(y, all)) / pow10Float[all-d]
						i += all + 1
						out[k] = sign | math.Float64bits(f)
						break
					}
				}
				var ok bool
				if f, i, ok = scanFloat(body, i); !ok {
					matched = false
					break fields
				}
				out[k] = sign | math.Float64bits(f)
			case model.Unsigned:
				var u uint64
				var d int
				u, d, i = scanDigits(body, i, 0, 0)
				if i >= len(body) || body[i] != 'u' || uint(d-1) >= 19 {
					matched = false
					break fields
				}
				i++
				out[k] = u
			case model.String:
				s, next := plainString(body, i)
				if next == 0 {
					matched = false
					break fields
				}
				out[k] = column.StringWord(len(b.Strings), len(s))
				b.Strings = append(b.Strings, s...)
				i = next
			case model.Boolean:
				val, size := boolean(x)
				if size == 0 {
					matched = false
					break fields
				}
				out[k] = val
				i += size
			}
			if k == len(wire)-1 {
				break
			}
			if i >= len(body) || body[i] != ',' {
				matched = false
				break
			}
			i++
		}
		if matched && i < len(body) && body[i] != ' ' && body[i] != '\n' {
			matched = false
		}
		if !matched {
			vals, b.Strings = vals[:first], b.Strings[:firstString]
			i = pos + n + 1
			if layout, vals, i = p.plainFields(layout.Measurement, vals, body, i); layout == nil {
				vals, b.Strings = vals[:first], b.Strings[:firstString]
				break
			}
			e.SetLayout(layout)
		}

		// The time.
		t := p.opt.Now
		if i < len(body) && body[i] == ' ' {
			i++
			negative := i < len(body) && body[i] == '-'
			if negative {
				i++
			}
			u, d, next := scanDigits(body, i, 0, 0)
			t = int64(u)
			if uint(d-1) >= 19 || t < 0 {
				vals, b.Strings = vals[:first], b.Strings[:firstString]
				break
			}
			if negative {
				t = -t
			}
			i = next
			ok := t >= model.MinTime && t <= model.MaxTime
			if unit != 1 {
				t, ok = scale(t, unit)
			}
			if !ok || i < len(body) && body[i] != '\n' {
				vals, b.Strings = vals[:first], b.Strings[:firstString]
				break
			}
		}
		b.Rows = append(b.Rows, column.Row{Series: v.Series(e), Layout: layout, Time: t, First: uint32(first)})
		pos = i + 1
		last = number
	}
	b.Values, p.view, p.last = vals, v, last
	return min(pos, len(body))
}

// scale multiplies a timestamp by the unit. ok is false outside the legal
// range of times.
func scale(t, unit int64) (int64, bool) {
	if t > model.MaxTime/unit || t < model.MinTime/unit {
		return 0, false
	}
	t *= unit
	return t, t >= model.MinTime && t <= model.MaxTime
}

func grow(vals []uint64, n int) []uint64 {
	w := make([]uint64, len(vals), max(2*cap(vals), len(vals)+n, 1024))
	copy(w, vals)
	return w
}

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
		if p.space >= len(body) || p.space-pos > model.MaxKeyLength {
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
func (p *Parser) plainFields(measurement string, vals []uint64, body []byte, i int) (*column.Layout, []uint64, int) {
	b := p.batch
	p.signature = column.AppendLayoutMeasurement(p.signature[:0], measurement)
	for {
		start := i
		for i < len(body) && plainKeyByte[body[i]] {
			i++
		}
		if i == start || i >= len(body) || body[i] != '=' {
			return nil, vals, i
		}
		key := body[start:i]
		i++
		x := load(body, i)
		var t model.FieldType
		var value uint64
		switch c := byte(x); {
		case c == '-' || c-'0' <= 9:
			begin := i
			if c == '-' {
				i++
			}
			u, d, next := scanDigits(body, i, 0, 0)
			if uint(d-1) >= 18 || next >= len(body) {
				return nil, vals, i
			}
			switch body[next] {
			case 'i':
				t, value, i = model.Integer, u, next+1
				if c == '-' {
					value = -u
				}
			case 'u':
				if c == '-' {
					return nil, vals, i
				}
				t, value, i = model.Unsigned, u, next+1
			default:
				f, next, ok := scanFloat(body, i)
				if !ok {
					return nil, vals, begin
				}
				t, value, i = model.Float, math.Float64bits(f), next
				if c == '-' {
					value |= 1 << 63
				}
			}
		case c == '"':
			s, next := plainString(body, i)
			if next == 0 {
				return nil, vals, i
			}
			t, value, i = model.String, column.StringWord(len(b.Strings), len(s)), next
			b.Strings = append(b.Strings, s...)
		default:
			var size int
			if value, size = boolean(x); size == 0 {
				return nil, vals, i
			}
			t = model.Boolean
			i += size
		}
		p.signature = column.AppendLayoutField(p.signature, t, key)
		vals = append(vals, value)
		if i < len(body) && body[i] == ',' {
			i++
			continue
		}
		if i < len(body) && body[i] != ' ' && body[i] != '\n' {
			return nil, vals, i
		}
		return p.table.FindLayout(p.signature), vals, i
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
