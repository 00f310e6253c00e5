package tsm

import (
	"encoding/binary"
	"math"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/tsm/codec"
	"tsdbd/tsm/stats"
)

// A chunk's body is a table of columns and their bytes. Column 0 holds the
// times unless they are regular; then the fields follow in the order of the
// series' field list.
//
//	inline (in the index entry):  table | columns
//	data section:                 crc u32 | headLen varint | table | columns shorter than 256 | each other column: crc u32, bytes
//
// The table has a varint per column: length<<1 | 1 if a presence precedes the
// values, or if the times are a reference (times.go). Length 0 is a column without values. The first checksum covers
// headLen, table and short columns.

// rawColumn is an encoded column: a presence if sparse, then the value block.
type rawColumn struct {
	bytes  []byte
	sparse bool
	block  int // offset of the block in bytes
	values int // in the block
	kind   codec.Kind
}

// kindOf returns the kind of a column of values.
func kindOf(t model.FieldType) codec.Kind {
	switch t {
	case model.Float:
		return codec.Floats
	case model.Boolean:
		return codec.Booleans
	case model.String:
		return codec.Strings
	}
	return codec.Integers
}

func (c *rawColumn) tableWord() uint64 {
	w := uint64(len(c.bytes)) << 1
	if c.sparse {
		w |= 1
	}
	return w
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// inlineSize returns the size of the body of an inline chunk of cols.
func inlineSize(cols []rawColumn) int {
	n := 0
	for i := range cols {
		n += len(cols[i].bytes) + uvarintLen(cols[i].tableWord())
	}
	return n
}

func appendTable(dst []byte, cols []rawColumn) []byte {
	for i := range cols {
		dst = binary.AppendUvarint(dst, cols[i].tableWord())
	}
	return dst
}

func appendInlineBody(dst []byte, cols []rawColumn) []byte {
	dst = appendTable(dst, cols)
	for i := range cols {
		dst = append(dst, cols[i].bytes...)
	}
	return dst
}

// appendDataBody also returns the offset in dst of the bytes of column 0.
func appendDataBody(dst []byte, cols []rawColumn) (body []byte, first int) {
	at := len(dst)
	head := 0
	for i := range cols {
		head += uvarintLen(cols[i].tableWord())
		if n := len(cols[i].bytes); n < smallColumn {
			head += n
		}
	}
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.AppendUvarint(dst, uint64(head))
	dst = appendTable(dst, cols)
	first = len(dst)
	for i := range cols {
		if len(cols[i].bytes) < smallColumn {
			dst = append(dst, cols[i].bytes...)
		}
	}
	binary.LittleEndian.PutUint32(dst[at:], binio.Checksum(dst[at+4:]))
	for i := range cols {
		if b := cols[i].bytes; len(b) >= smallColumn {
			dst = binary.LittleEndian.AppendUint32(dst, binio.Checksum(b))
			if i == 0 {
				first = len(dst)
			}
			dst = append(dst, b...)
		}
	}
	return dst, first
}

// columnPlace says where a column's bytes lie in a body. A column of
// smallColumn bytes or more in the data section is preceded by its checksum.
type columnPlace struct {
	off, size uint32
	sparse    bool
	copied    bool // its bytes are there, of a body that is elsewhere
}

// parseInlineBody sets places to the columns of an inline body.
func parseInlineBody(b []byte, places []columnPlace) bool {
	off := parseTable(b, 0, places)
	if off < 0 {
		return false
	}
	for i := range places {
		p := &places[i]
		if int(p.size) > len(b)-off {
			return false
		}
		p.off = uint32(off)
		off += int(p.size)
	}
	return off == len(b)
}

// parseDataBody checks the head of a body of the data section and sets places
// to its columns. It returns a reason and the offset in b of the damage, or "".
func parseDataBody(b []byte, places []columnPlace) (reason string, at int) {
	if len(b) < 5 {
		return "chunk too short", 0
	}
	n, start := binio.Uvarint(b, 4)
	if start < 0 || n > uint64(len(b)-start) {
		return "chunk head exceeds chunk", 0
	}
	end := start + int(n)
	if binio.Checksum(b[4:end]) != binary.LittleEndian.Uint32(b) {
		return "chunk head checksum mismatch", 0
	}
	head := b[:end]
	small, big := parseTable(head, start, places), end
	if small < 0 {
		return "bad column table", start
	}
	for i := range places {
		p := &places[i]
		if p.size < smallColumn {
			if int(p.size) > end-small {
				return "column exceeds chunk head", small
			}
			p.off = uint32(small)
			small += int(p.size)
			continue
		}
		if len(b)-big < 4 || int(p.size) > len(b)-big-4 {
			return "column exceeds chunk", big
		}
		p.off = uint32(big + 4)
		big += 4 + int(p.size)
	}
	if small != end || big != len(b) {
		return "chunk length does not match columns", 0
	}
	return "", 0
}

// parseTable reads the table and returns the offset after it, or -1.
func parseTable(b []byte, off int, places []columnPlace) int {
	for i := range places {
		var w uint64
		if w, off = binio.Uvarint(b, off); off < 0 || w>>1 > math.MaxInt32 {
			return -1
		}
		places[i] = columnPlace{size: uint32(w >> 1), sparse: w&1 != 0}
	}
	return off
}

// A column with one value holds it plain: a float64 in 8 bytes or, where that
// is shorter and exact to the bit, as a decimal: exponent u8, m zigzag varint,
// the value being m/10^exponent; an integer as a zigzag varint, an unsigned integer as a varint, a boolean in a byte, a
// string as its bytes and a byte 0. Several values are a block of package
// codec.

// appendValues appends the values of v, which has no null.
func appendValues(dst []byte, v *column.Vector) []byte {
	one := v.Len() == 1
	switch v.Type {
	case model.Float:
		if one {
			return appendFloat(dst, v.Floats[0])
		}
		return codec.AppendFloats(dst, v.Floats)
	case model.Integer:
		if one {
			return binary.AppendUvarint(dst, binio.ZigZag(v.Ints[0]))
		}
		return codec.AppendIntegers(dst, v.Ints)
	case model.Unsigned:
		if one {
			return binary.AppendUvarint(dst, v.Uints[0])
		}
		return codec.AppendUnsigneds(dst, v.Uints)
	case model.Boolean:
		if one {
			return append(dst, byte(stats.BoolWord(v.Bools[0])))
		}
		return codec.AppendBooleans(dst, v.Bools)
	case model.String:
		if one {
			return append(append(dst, v.Strings[0]...), 0)
		}
		return codec.AppendStrings(dst, v.Strings)
	}
	return dst
}

// maxDecimal bounds a lone decimal so that it takes at most 7 bytes.
const maxDecimal = 1 << 41

func appendFloat(dst []byte, x float64) []byte {
	if math.Abs(x) < maxDecimal {
		for e := range stats.Exponents {
			if m, ok := stats.Decimal(x, e); ok && m > -maxDecimal && m < maxDecimal {
				return binary.AppendUvarint(append(dst, byte(e)), binio.ZigZag(m))
			}
		}
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
}

func decodeFloat(b []byte) (float64, bool) {
	switch {
	case len(b) == 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), true
	case len(b) < 2 || len(b) > 8 || int(b[0]) >= stats.Exponents:
		return 0, false
	}
	w, off := binio.Uvarint(b, 1)
	return stats.OfDecimal(binio.UnZigZag(w), int(b[0])), off == len(b)
}

// decodeValues sets v, which has its type, to the n values in b.
func decodeValues(v *column.Vector, b []byte, n int) bool {
	if n == 1 {
		return decodeOne(v, b)
	}
	var err error
	switch v.Type {
	case model.Float:
		v.Floats, err = codec.DecodeFloats(v.Floats[:0], b, n)
	case model.Integer:
		v.Ints, err = codec.DecodeIntegers(v.Ints[:0], b, n)
	case model.Unsigned:
		v.Uints, err = codec.DecodeUnsigneds(v.Uints[:0], b, n)
	case model.Boolean:
		v.Bools, err = codec.DecodeBooleans(v.Bools[:0], b, n)
	case model.String:
		v.Strings, err = codec.DecodeStrings(v.Strings[:0], b, n)
	}
	return err == nil && v.Len() == n
}

func decodeOne(v *column.Vector, b []byte) bool {
	switch v.Type {
	case model.Float:
		x, ok := decodeFloat(b)
		if !ok {
			return false
		}
		v.Floats = append(v.Floats[:0], x)
	case model.Integer:
		w, off := binio.Uvarint(b, 0)
		if off != len(b) {
			return false
		}
		v.Ints = append(v.Ints[:0], binio.UnZigZag(w))
	case model.Unsigned:
		w, off := binio.Uvarint(b, 0)
		if off != len(b) {
			return false
		}
		v.Uints = append(v.Uints[:0], w)
	case model.Boolean:
		if len(b) != 1 || b[0] > 1 {
			return false
		}
		v.Bools = append(v.Bools[:0], b[0] == 1)
	case model.String:
		if len(b) == 0 || b[len(b)-1] != 0 {
			return false
		}
		v.Strings = append(v.Strings[:0], string(b[:len(b)-1]))
	default:
		return false
	}
	return true
}

// spread moves the n values at the front of v to the rows that are valid.
// Rows without a value get the zero value.
func spread(v *column.Vector, n, rows int, valid column.Bitmap) {
	v.Resize(rows)
	switch v.Type {
	case model.Float:
		spreadSlice(v.Floats, n, valid)
	case model.Integer:
		spreadSlice(v.Ints, n, valid)
	case model.Unsigned:
		spreadSlice(v.Uints, n, valid)
	case model.Boolean:
		spreadSlice(v.Bools, n, valid)
	case model.String:
		spreadSlice(v.Strings, n, valid)
	}
	v.Valid = valid
}

func spreadSlice[T any](s []T, n int, valid column.Bitmap) {
	var zero T
	for i := len(s) - 1; i >= 0; i-- {
		if valid.Get(i) {
			n--
			s[i] = s[n]
		} else {
			s[i] = zero
		}
	}
}

// gather sets dst to the values of v's valid rows.
func gather(dst, v *column.Vector, rows int) {
	dst.Reset(v.Type)
	switch v.Type {
	case model.Float:
		dst.Floats = gatherSlice(dst.Floats, v.Floats[:rows], v.Valid)
	case model.Integer:
		dst.Ints = gatherSlice(dst.Ints, v.Ints[:rows], v.Valid)
	case model.Unsigned:
		dst.Uints = gatherSlice(dst.Uints, v.Uints[:rows], v.Valid)
	case model.Boolean:
		dst.Bools = gatherSlice(dst.Bools, v.Bools[:rows], v.Valid)
	case model.String:
		dst.Strings = gatherSlice(dst.Strings, v.Strings[:rows], v.Valid)
	}
}

func gatherSlice[T any](dst, s []T, valid column.Bitmap) []T {
	for i, x := range s {
		if valid.Get(i) {
			dst = append(dst, x)
		}
	}
	return dst
}
