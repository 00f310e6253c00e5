package hll

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"tsdbd/internal/binio"
)

const (
	precision = 16 // bits of a hash that choose a register
	registers = 1 << precision
	fine      = 25 // bits of a hash that choose an entry of the list
	between   = fine - precision
	pending   = 4096 // entries that are gathered before they are sorted in
)

// Sketch holds what is known of the values. The zero value has none.
type Sketch struct {
	list  []uint32 // entries, ascending; nil once there are registers
	fresh []uint32 // entries that are not yet in the list
	dense []uint8  // registers, or nil
}

// Add adds a value by its hash.
func (s *Sketch) Add(hash uint64) {
	if s.dense != nil {
		s.raise(uint32(hash>>(64-precision)), uint8(bits.LeadingZeros64(hash<<precision|1<<(precision-1))+1))
		return
	}
	if s.fresh = append(s.fresh, entryOf(hash)); len(s.fresh) >= pending {
		s.settle()
	}
}

// entryOf returns the entry of a hash: its first 25 bits, and where the last nine
// of these are zero, so that they do not tell the register's value, how many zeros
// follow.
func entryOf(hash uint64) uint32 {
	first := uint32(hash >> (64 - fine))
	if first&(1<<between-1) != 0 {
		return first << 1
	}
	zeros := bits.LeadingZeros64(hash<<fine|(1<<fine-1)) + 1
	return first<<7 | uint32(zeros)<<1 | 1
}

// raise sets a register to at least value.
func (s *Sketch) raise(register uint32, value uint8) {
	if s.dense[register] < value {
		s.dense[register] = value
	}
}

// settle sorts the fresh entries into the list, and the list into registers when
// it has become longer than they are.
func (s *Sketch) settle() {
	if len(s.fresh) == 0 || s.dense != nil {
		return
	}
	s.list = append(s.list, s.fresh...)
	slices.Sort(s.list)
	s.list, s.fresh = slices.Compact(s.list), s.fresh[:0]
	if len(s.list) < registers/5 || len(appendList(nil, s.list)) <= registers {
		return
	}
	s.widen()
}

// widen turns the list into registers.
func (s *Sketch) widen() {
	s.dense = make([]uint8, registers)
	s.raiseAll(s.list)
	s.list, s.fresh = nil, nil
}

// raiseAll sets the registers of entries.
func (s *Sketch) raiseAll(list []uint32) {
	for _, e := range list {
		if e&1 == 1 {
			s.raise(e>>(32-precision), uint8(e>>1&63)+between)
		} else {
			s.raise(e>>(between+1)&(registers-1), uint8(bits.LeadingZeros32(e<<(31-between))+1))
		}
	}
}

// Merge adds the values of o, which it does not change except for the order of its
// entries.
func (s *Sketch) Merge(o *Sketch) {
	o.settle()
	if o.dense != nil && s.dense == nil {
		s.settle()
		if s.dense == nil {
			s.widen()
		}
	}
	switch {
	case o.dense != nil:
		for i, v := range o.dense {
			s.raise(uint32(i), v)
		}
	case s.dense != nil:
		s.raiseAll(o.list)
	default:
		s.fresh = append(s.fresh, o.list...)
		s.settle()
	}
}

// Bytes returns the memory of the sketch.
func (s *Sketch) Bytes() int64 { return 4*int64(cap(s.list)+cap(s.fresh)) + int64(len(s.dense)) }

// Count estimates the number of distinct values.
func (s *Sketch) Count() uint64 {
	s.settle()
	if s.dense == nil {
		const m = 1 << fine
		return uint64(m * math.Log(m/(m-float64(len(s.list)))))
	}
	return uint64(estimate(s.dense))
}

// estimate is Ertl's improved estimator ("New cardinality estimation algorithms
// for HyperLogLog sketches", 2017), which needs no tables of measured bias.
func estimate(dense []uint8) float64 {
	const most = 64 - precision
	var counts [most + 2]float64
	for _, r := range dense {
		counts[min(int(r), most+1)]++
	}
	const m = float64(registers)
	z := m * tau(1-counts[most+1]/m)
	for k := most; k >= 1; k-- {
		z = (z + counts[k]) / 2
	}
	z += m * sigma(counts[0]/m)
	return m * m / (2 * math.Ln2 * z)
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for before := -1.0; z != before; y += y {
		before = z
		x *= x
		z += x * y
	}
	return z
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for before := -1.0; z != before; {
		before = z
		x = math.Sqrt(x)
		y /= 2
		z -= (1 - x) * (1 - x) * y
	}
	return z / 3
}

// The text of a sketch is prefix and, in base64: a version, the precision, 1 and
// an empty set, then the list with the number of its entries, the last one and the
// length of their deltas as varints; or 0 and the registers behind their number.
// Numbers take four bytes, the highest first. InfluxDB 1.12 reads and writes the
// same, but puts a part of the list into the set, in any order.
const (
	prefix  = "HLL_"
	version = 1
)

// Text returns the sketch as text.
func (s *Sketch) Text() string {
	s.settle()
	if s.dense == nil && len(s.list) == 0 {
		return prefix
	}
	b := []byte{version, precision}
	if s.dense != nil {
		b = binary.BigEndian.AppendUint32(append(b, 0), registers)
		b = append(b, s.dense...)
	} else {
		deltas := appendList(nil, s.list)
		b = binary.BigEndian.AppendUint32(append(b, 1), 0)
		b = binary.BigEndian.AppendUint32(b, uint32(len(s.list)))
		b = binary.BigEndian.AppendUint32(b, s.list[len(s.list)-1])
		b = binary.BigEndian.AppendUint32(b, uint32(len(deltas)))
		b = append(b, deltas...)
	}
	return prefix + base64.StdEncoding.EncodeToString(b)
}

func appendList(dst []byte, list []uint32) []byte {
	last := uint32(0)
	for _, e := range list {
		dst = binary.AppendUvarint(dst, uint64(e-last))
		last = e
	}
	return dst
}

var errText = errors.New("not the text of a sketch")

// Parse returns the sketch of a text.
func Parse(text string) (*Sketch, error) {
	if len(text) < len(prefix) || text[:len(prefix)] != prefix {
		return nil, errText
	}
	s := &Sketch{}
	if len(text) == len(prefix) {
		return s, nil
	}
	b, err := base64.StdEncoding.DecodeString(text[len(prefix):])
	if err == nil && len(b) >= 7 && b[0] > version {
		return nil, binio.CheckVersion("", "sketch of distinct values", uint64(b[0]), version)
	}
	if err != nil || len(b) < 7 || b[0] != version || b[1] != precision || b[2] > 1 {
		return nil, errText
	}
	n, rest := binary.BigEndian.Uint32(b[3:]), b[7:]
	if b[2] == 0 {
		if n != registers || len(rest) != registers || slices.Max(rest) > 64-precision+1 {
			return nil, errText
		}
		s.dense = rest
		return s, nil
	}
	if uint64(len(rest)) < 4*uint64(n)+12 {
		return nil, errText
	}
	for i := range n {
		s.fresh = append(s.fresh, binary.BigEndian.Uint32(rest[4*i:]))
	}
	rest = rest[4*n:]
	count, deltas := binary.BigEndian.Uint32(rest), rest[12:]
	last := uint64(0)
	for range count {
		d, size := binary.Uvarint(deltas)
		if last += d; size <= 0 || d > math.MaxUint32 || last > math.MaxUint32 {
			return nil, errText
		}
		s.fresh = append(s.fresh, uint32(last))
		deltas = deltas[size:]
	}
	if len(deltas) > 0 {
		return nil, errText
	}
	return s, nil
}
