package keyblock

import (
	"encoding/binary"
	"strconv"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Decoder decodes blocks and keeps its memory. It belongs to one goroutine.
type Decoder struct {
	columns []column
	words   [][]byte // of all columns
}

// column is a column that is read from its first value to its last.
type column struct {
	form   int
	prefix []byte
	suffix []byte
	words  [][]byte
	digits int
	width  int
	number uint64 // base, or the value before
	packed []byte
	at     int // in packed: bits, or bytes of texts
}

const most = 1_000_000_000_000_000_000 // no number has more than maxDigits digits

// Decode appends the n keys of a block to text, and the end of each in text to
// ends. A block that is damaged, holds a key that is empty or too long, or
// unpacks to more than maxText bytes, is a *binio.CorruptError.
func (d *Decoder) Decode(text []byte, ends []uint32, b []byte, n, maxText int) ([]byte, []uint32, error) {
	if err := d.parse(b, n); err != nil {
		return text, ends, err
	}
	first, had := len(text), len(ends)
	for range n {
		start := len(text)
		for i := range d.columns {
			c := &d.columns[i]
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, c.prefix...)
			var ok bool
			if text, ok = c.next(text); !ok || len(text)-start > model.MaxKeyLength {
				return text[:first], ends[:had], damaged("bad value in column")
			}
		}
		if len(text) == start || len(text)-first > maxText {
			return text[:first], ends[:had], damaged("key empty or text too long")
		}
		ends = append(ends, uint32(len(text)))
	}
	return text, ends, nil
}

func damaged(reason string) error { return binio.Corruptf("", -1, "key block: %s", reason) }

// parse reads the columns of n keys.
func (d *Decoder) parse(b []byte, n int) error {
	in := binio.NewDecoder(b)
	if n <= 0 || n > maxKeys {
		return damaged("bad number of keys")
	}
	d.columns, d.words = d.columns[:0], d.words[:0]
	for range in.Count(1) {
		head := in.Uvarint()
		if head>>3 > uint64(in.Len()) {
			return damaged("column too long")
		}
		c := column{form: int(head & 7), prefix: in.Bytes(int(head >> 3))}
		switch c.form {
		case formConst:
		case formDict:
			count := in.Count(1)
			at := len(d.words)
			for range count {
				d.words = append(d.words, in.Bytes(in.Count(1)))
			}
			if c.words = d.words[at:len(d.words):len(d.words)]; len(c.words) == 0 {
				return damaged("empty dictionary")
			}
			c.width = widthOf(uint64(len(c.words) - 1))
			c.packed = in.Bytes((n*c.width + 7) / 8)
		case formNumber, formAscends:
			c.suffix = in.Bytes(in.Count(1))
			c.digits, c.width = int(in.Byte()), int(in.Byte())
			c.number = in.Uvarint()
			if c.digits > maxDigits || c.width > 60 || c.number >= most {
				return damaged("bad number column")
			}
			c.packed = in.Bytes((n*c.width + 7) / 8)
		case formText:
			start := in.Offset()
			for range n {
				in.Bytes(in.Count(1))
			}
			c.packed = b[start:in.Offset()]
		default:
			return damaged("unknown form of a column")
		}
		if err := in.Err(); err != nil {
			return err
		}
		d.columns = append(d.columns, c)
	}
	if in.Err() == nil && in.Len() > 0 {
		return damaged("bytes left over")
	}
	return in.Err()
}

// next appends the column's next value without the prefix.
func (c *column) next(dst []byte) ([]byte, bool) {
	switch c.form {
	case formDict:
		id := c.unpack()
		if id >= uint64(len(c.words)) {
			return dst, false
		}
		return append(dst, c.words[id]...), true
	case formNumber, formAscends:
		v := c.number + c.unpack()
		if v >= most {
			return dst, false
		}
		if c.form == formAscends {
			c.number = v
		}
		start := len(dst)
		dst = strconv.AppendUint(dst, v, 10)
		if short := c.digits - (len(dst) - start); short > 0 {
			dst = append(dst, "000000000000000000"[:short]...)
			copy(dst[start+short:], dst[start:])
			for i := range short {
				dst[start+i] = '0'
			}
		}
		return append(dst, c.suffix...), true
	case formText:
		n, k := binary.Uvarint(c.packed[c.at:])
		c.at += k
		dst = append(dst, c.packed[c.at:c.at+int(n)]...)
		c.at += int(n)
	}
	return dst, true
}

// unpack returns the next packed number.
func (c *column) unpack() uint64 {
	if c.width == 0 {
		return 0
	}
	at := c.at >> 3
	shift := c.at & 7
	c.at += c.width
	if at+8 <= len(c.packed) && shift+c.width <= 64 {
		return binary.LittleEndian.Uint64(c.packed[at:]) >> shift & (1<<c.width - 1)
	}
	v := uint64(0)
	for i := 0; i*8 < shift+c.width; i++ {
		b := uint64(c.packed[at+i])
		if bits := i*8 - shift; bits >= 0 {
			v |= b << bits
		} else {
			v |= b >> -bits
		}
	}
	return v & (1<<c.width - 1)
}
