package lineproto

import (
	"math"

	"tsdbd/column"
	"tsdbd/model"
)

// predicted reads the fields of a line that is expected to hold exactly those
// of wire, in that order, and appends their values to the batch. It returns
// the position behind them, or 0 if the line is otherwise; the batch may have
// grown then.
func (p *Parser) predicted(body []byte, i int, wire []column.WireField) int {
	b := p.batch
	first := len(b.Values)
	if cap(b.Values)-first < len(wire) {
		b.Values = grow(b.Values, len(wire))
	}
	b.Values = b.Values[:first+len(wire)]
	out := b.Values[first:]
	for k := range wire {
		if k > 0 {
			if i >= len(body) || body[i] != ',' {
				return 0
			}
			i++
		}
		w := &wire[k]
		x := load(body, i)
		if (x^w.First)&w.Mask != 0 {
			return 0
		}
		if n := len(w.Prefix); n > 8 {
			if load(body, i+n-8) != w.Last || n > 16 && string(body[i+8:i+n-8]) != w.Prefix[8:n-8] {
				return 0
			}
		}
		i += len(w.Prefix)
		x = load(body, i)
		switch w.Type {
		case model.Integer:
			negative := byte(x) == '-'
			if negative {
				i++
				x = load(body, i)
			}
			var u uint64
			d := digits(x)
			if d < 8 {
				u = decimal(x, d)
				i += d
			} else {
				u, d, i = scanDigits(body, i)
			}
			// 18 digits cannot overflow; longer ones are left to strconv.
			if d == 0 || d > 18 || i >= len(body) || body[i] != 'i' {
				return 0
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
			f, next := scanFloat(body, i, x)
			if next == 0 {
				return 0
			}
			i = next
			out[k] = sign | math.Float64bits(f)
		case model.Unsigned:
			u, d, next := scanDigits(body, i)
			if d == 0 || d > 19 || next >= len(body) || body[next] != 'u' {
				return 0
			}
			i = next + 1
			out[k] = u
		case model.String:
			s, next := plainString(body, i)
			if next == 0 {
				return 0
			}
			out[k] = column.StringWord(len(b.Strings), len(s))
			b.Strings = append(b.Strings, s...)
			i = next
		case model.Boolean:
			v, n := boolean(x)
			if n == 0 {
				return 0
			}
			out[k] = v
			i += n
		}
	}
	if len(wire) == 0 || i < len(body) && body[i] != ' ' && body[i] != '\n' {
		return 0
	}
	return i
}

func grow(vals []uint64, n int) []uint64 {
	w := make([]uint64, len(vals), max(2*cap(vals), len(vals)+n, 1024))
	copy(w, vals)
	return w
}
