package lineproto

import (
	"encoding/binary"
	"math"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/point"
)

// slack is how far behind a field's prefix predicted may look: a sign, the 19
// digits and the point of the longest number that it reads itself, and the byte
// behind them; or a sign and a load of 8 bytes.
const slack = 1 + 19 + 1 + 1

// predicted reads the fields of a line that is expected to hold exactly those
// of wire, in that order, and appends their values to the batch. It returns
// the position behind them, or 0 if the line is otherwise, or so near to the
// end of the body that looking ahead would leave it; the batch may have grown
// then.
func (p *Parser) predicted(body []byte, i int, wire []point.WireField) int {
	b := p.batch
	first := len(b.Values)
	if cap(b.Values)-first < len(wire) {
		b.Values = grow(b.Values, len(wire))
	}
	b.Values = b.Values[:first+len(wire)]
	out := b.Values[first:]
	for k := range wire {
		w := &wire[k]
		n := len(w.Prefix)
		// Every unchecked access below is to a position < end, which is within
		// the body: at most 1 + n behind i for the comma and the prefix, and
		// less than slack behind those for the value.
		if i+1+n+slack > len(body) {
			return 0
		}
		if k > 0 {
			if at(body, i) != ',' {
				return 0
			}
			i++
		}
		if (load8(body, i)^w.First)&w.Mask != 0 {
			return 0
		}
		i += n
		if n > 8 {
			if load8(body, i-8) != w.Last {
				return 0
			}
			if n > 16 && (load8(body, i-16) != w.Middle || n > 24 && string(body[i-n+8:i-16]) != w.Prefix[8:n-16]) {
				return 0
			}
		}
		x := load8(body, i)
		switch w.Type {
		case model.Integer:
			negative := byte(x) == '-'
			if negative {
				i++
				x = load8(body, i)
			}
			d := digits(x)
			if uint(d-1) >= 7 { // none or eight
				u, next := longInteger(body, i)
				if next == 0 {
					return 0
				}
				out[k], i = u, next
			} else {
				if at(body, i+d) != 'i' {
					return 0
				}
				out[k] = decimal(x, d)
				i += d + 1
			}
			if negative {
				out[k] = -out[k]
			}
		case model.Float:
			sign := uint64(0)
			if byte(x) == '-' {
				sign = 1 << 63
				i++
				x = load8(body, i)
			}
			f, next := scanFloat(body, i, x)
			if next == 0 || at(body, next)|0x20 == 'e' {
				if f, next = oddFloat(body, i); next == 0 {
					return 0
				}
			}
			i = next
			out[k] = sign | math.Float64bits(f)
		default:
			if i, out[k] = p.otherValue(body, i, x, w.Type); i == 0 {
				return 0
			}
		}
	}
	if len(wire) == 0 || i < len(body) && body[i] != ' ' && body[i] != '\n' {
		return 0
	}
	return i
}

// at is b[i]. The caller has made sure that i < len(b).
func at(b []byte, i int) byte {
	return *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))
}

// load8 is load where the caller has made sure that i+8 <= len(b).
func load8(b []byte, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i))[:])
}

// longInteger reads digits and an "i", 0 if the slow path has to look.
func longInteger(body []byte, i int) (u uint64, next int) {
	u, n, i := scanDigits(body, i)
	// 18 digits cannot overflow; longer ones are left to strconv.
	if n == 0 || n > 18 || i >= len(body) || body[i] != 'i' {
		return 0, 0
	}
	return u, i + 1
}

// otherValue reads a value of the rarer types, which begins with x. It returns
// the position behind it, or 0.
func (p *Parser) otherValue(body []byte, i int, x uint64, t model.FieldType) (int, uint64) {
	switch t {
	case model.Unsigned:
		u, n, i := scanDigits(body, i)
		if n == 0 || n > 19 || i >= len(body) || body[i] != 'u' {
			return 0, 0
		}
		return i + 1, u
	case model.String:
		return p.quotedValue(body, i)
	case model.Boolean:
		v, n := boolean(x)
		if n == 0 {
			return 0, 0
		}
		return i + n, v
	}
	return 0, 0
}

func grow(vals []uint64, n int) []uint64 {
	w := make([]uint64, len(vals), max(2*cap(vals), len(vals)+n, 1024))
	copy(w, vals)
	return w
}
