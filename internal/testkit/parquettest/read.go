// Package parquettest reads the Parquet files that package parquet writes, for tests. It
// knows only what that package uses of the format, and panics at anything else.
package parquettest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/golang/snappy"
)

// Column is a column of a file with its values: nil, float64, int64, uint64, bool, or
// string.
type Column struct {
	Name     string
	Type     string // such as "DOUBLE", "INT64 TIMESTAMP"
	Required bool
	Values   []any
	// Groups has the bounds and the nulls of each row group.
	Groups []Bounds
}

// Bounds are the statistics of a column in a row group.
type Bounds struct {
	Rows, Nulls     int
	Least, Greatest any // nil if there are none
	Encodings       []int
}

// Read returns the columns of a file.
func Read(file []byte) (columns []Column, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("not a sound Parquet file: %v", p)
		}
	}()
	n := len(file)
	if n < 12 || string(file[:4]) != "PAR1" || string(file[n-4:]) != "PAR1" {
		panic("no magic bytes")
	}
	footer := file[n-8-int(binary.LittleEndian.Uint32(file[n-8:])) : n-8]
	r := reader{b: footer}
	meta := r.structure()
	if len(r.b) > 0 {
		panic("bytes behind the footer")
	}
	schema := meta[2].([]any)
	kinds := make([]int, len(schema)-1)
	for i, s := range schema[1:] {
		e := s.(map[int]any)
		c := Column{Name: e[4].(string), Required: e[3].(int) == 0}
		kinds[i] = e[1].(int)
		c.Type = map[int]string{0: "BOOLEAN", 2: "INT64", 5: "DOUBLE", 6: "BYTE_ARRAY"}[kinds[i]]
		if l, ok := e[10].(map[int]any); ok {
			switch {
			case l[1] != nil:
				c.Type += " STRING"
			case l[8] != nil:
				stamp := l[8].(map[int]any)
				if stamp[1] != true || stamp[2].(map[int]any)[3] == nil {
					panic("a timestamp that is not of nanoseconds in UTC")
				}
				c.Type += " TIMESTAMP"
			case l[10] != nil:
				if w := l[10].(map[int]any); w[1] != 64 || w[2] != false {
					panic("an integer that is not unsigned of 64 bits")
				}
				c.Type += " UNSIGNED"
			}
		}
		columns = append(columns, c)
	}
	rows := 0
	for _, g := range meta[4].([]any) {
		group := g.(map[int]any)
		rows += group[3].(int)
		for i, ch := range group[1].([]any) {
			columns[i].read(file, kinds[i], ch.(map[int]any)[3].(map[int]any), group[3].(int))
		}
	}
	if rows != meta[3].(int) {
		panic("the number of rows")
	}
	return columns, nil
}

// read reads the pages of a column in a group.
func (c *Column) read(file []byte, kind int, meta map[int]any, rows int) {
	stats := meta[12].(map[int]any)
	g := Bounds{Rows: rows, Nulls: stats[3].(int)}
	for _, e := range meta[2].([]any) {
		g.Encodings = append(g.Encodings, e.(int))
	}
	if stats[6] != nil {
		g.Least, g.Greatest = c.bound(kind, stats[6].(string)), c.bound(kind, stats[5].(string))
	}
	c.Groups = append(c.Groups, g)
	at := meta[9].(int)
	size := meta[7].(int)
	if meta[11] != nil {
		at = meta[11].(int)
	}
	var dictionary []any
	raw, before := 0, len(c.Values)
	for r := (reader{b: file[at : at+size]}); len(r.b) > 0; {
		begin := len(r.b)
		head := r.structure()
		raw += begin - len(r.b) + head[2].(int)
		packed := r.take(head[3].(int))
		if int32(crc32.ChecksumIEEE(packed)) != int32(head[4].(int)) {
			panic("the checksum of a page")
		}
		body, err := snappy.Decode(nil, packed)
		if err != nil || len(body) != head[2].(int) {
			panic("a page of another size")
		}
		if head[1].(int) == 2 {
			dictionary = c.plain(kind, body, head[7].(map[int]any)[1].(int))
			continue
		}
		page := head[5].(map[int]any)
		n := page[1].(int)
		levels := make([]uint64, n)
		if c.Required {
			for i := range levels {
				levels[i] = 1
			}
		} else {
			size := binary.LittleEndian.Uint32(body)
			levels = hybrid(body[4:4+size], 1, n)
			body = body[4+size:]
		}
		values := 0
		for _, l := range levels {
			values += int(l)
		}
		var list []any
		switch encoding := page[2].(int); encoding {
		case 0:
			list = c.plain(kind, body, values)
		case 5:
			for _, v := range delta(body) {
				list = append(list, c.integer(v))
			}
		case 8:
			for _, i := range hybrid(body[1:], int(body[0]), values) {
				list = append(list, dictionary[i])
			}
		default:
			panic("an encoding")
		}
		if len(list) != values {
			panic("the number of values of a page")
		}
		for _, l := range levels {
			if l == 0 {
				c.Values = append(c.Values, nil)
				continue
			}
			c.Values = append(c.Values, list[0])
			list = list[1:]
		}
	}
	if len(c.Values)-before != rows || meta[5].(int) != rows || raw != meta[6].(int) {
		panic("the sizes of a column")
	}
}

func (c *Column) integer(v int64) any {
	if c.Type == "INT64 UNSIGNED" {
		return uint64(v)
	}
	return v
}

// bound reads a bound of statistics.
func (c *Column) bound(kind int, s string) any {
	if kind == 6 {
		return s
	}
	return c.plain(kind, []byte(s), 1)[0]
}

// plain reads n values as they are.
func (c *Column) plain(kind int, b []byte, n int) (out []any) {
	for i := range n {
		switch kind {
		case 0:
			out = append(out, b[i/8]>>(i%8)&1 != 0)
		case 2:
			out, b = append(out, c.integer(int64(binary.LittleEndian.Uint64(b)))), b[8:]
		case 5:
			out, b = append(out, math.Float64frombits(binary.LittleEndian.Uint64(b))), b[8:]
		case 6:
			size := binary.LittleEndian.Uint32(b)
			out, b = append(out, string(b[4:4+size])), b[4+size:]
		}
	}
	return out
}

// bit returns width bits behind bit at.
func bit(b []byte, at, width int) (v uint64) {
	for i := range width {
		v |= uint64(b[(at+i)/8]>>((at+i)%8)&1) << i
	}
	return v
}

// hybrid reads n numbers of width bits in runs and groups.
func hybrid(b []byte, width, n int) (out []uint64) {
	for len(out) < n {
		head, size := binary.Uvarint(b)
		b = b[size:]
		if head&1 == 0 {
			v := uint64(0)
			for i := range (width + 7) / 8 {
				v |= uint64(b[i]) << (8 * i)
			}
			b = b[(width+7)/8:]
			for range head >> 1 {
				out = append(out, v)
			}
			continue
		}
		for i := range int(head>>1) * 8 {
			out = append(out, bit(b, i*width, width))
		}
		b = b[int(head>>1)*width:]
	}
	if len(b) > 0 {
		panic("bytes behind runs")
	}
	return out[:n]
}

// delta reads DELTA_BINARY_PACKED.
func delta(b []byte) (out []int64) {
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	signed := func() int64 { u := next(); return int64(u>>1) ^ -int64(u&1) }
	block, parts, n := int(next()), int(next()), int(next())
	out = append(out, signed())
	for len(out) < n {
		least := signed()
		widths := b[:parts]
		b = b[parts:]
		for _, w := range widths {
			if len(out) == n {
				break
			}
			size := block / parts
			for i := range size {
				if len(out) < n {
					out = append(out, out[len(out)-1]+least+int64(bit(b, i*int(w), int(w))))
				}
			}
			b = b[size*int(w)/8:]
		}
	}
	if len(b) > 0 {
		panic("bytes behind deltas")
	}
	return out
}

// reader reads Thrift's compact protocol.
type reader struct{ b []byte }

func (r *reader) take(n int) []byte {
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) varint() int {
	v, n := binary.Varint(r.b)
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) structure() map[int]any {
	out := map[int]any{}
	for id := 0; ; {
		head := r.take(1)[0]
		if head == 0 {
			return out
		}
		if head>>4 == 0 {
			id = r.varint()
		} else {
			id += int(head >> 4)
		}
		out[id] = r.value(head & 15)
	}
}

func (r *reader) value(kind byte) any {
	switch kind {
	case 1, 2:
		return kind == 1
	case 3:
		return int(r.take(1)[0])
	case 5, 6:
		return r.varint()
	case 8:
		return string(r.take(r.uvarint()))
	case 9:
		head := r.take(1)[0]
		n := int(head >> 4)
		if n == 15 {
			n = r.uvarint()
		}
		list := []any{}
		for range n {
			list = append(list, r.value(head&15))
		}
		return list
	case 12:
		return r.structure()
	}
	panic("a type of Thrift")
}
