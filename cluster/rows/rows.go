// Package rows is the form in which a node sends the rows and the exemplars of a write to
// the leader of its cluster: parsed, so that the leader need not parse them again. Integers are
// little-endian or varints; a text is its length and its bytes.
//
//	version     byte, 2 if the unit is point.FromNow, else 1
//	database    uvarint, its id
//	unit        uvarint, ns: rows without a time get that of the leader, rounded down to
//	            it. point.FromNow: the times of all rows count from that of the leader
//	rows        uvarint, their number
//	values      uvarint, their number
//	for each row:
//	  series    uvarint, its number in the message from 1; 0: the next one, its key follows
//	  layout    uvarint, 2*number, 1 more if the row has no time. Number 0: the next one
//	            follows: length and bytes of its signature (point.AppendLayoutField)
//	  time      varint, less that of the row before; only if the row has one
//	  values    in the order of the layout: a boolean 1 byte, a string as a text, any
//	            other 8 bytes
//	checksum    4 bytes, CRC32C of all bytes before
package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// Newest is the newest version of messages that this program reads. It sends the oldest version
// that can hold the rows.
const Newest = 2

const (
	version       = 1
	checksumBytes = 4
	minRowBytes   = 3 // series, layout, and a boolean
)

// Errors of a message that is as it was sent.
var (
	ErrVersion  = errors.New("rows are in a form that this node does not know: they were written by a newer tsdbd; use that version or newer on this node")
	ErrDatabase = errors.New("rows are of a database that was dropped")
)

// ErrDamaged is the error of a message that is not as it was sent.
var ErrDamaged = errors.New("rows are damaged")

// Encoder encodes messages, one at a time.
type Encoder struct {
	series  map[*point.Series]uint64
	layouts map[*point.Layout]uint64
	layout  []byte
}

// headBytes bounds the bytes before and behind the rows.
const headBytes = 1 + 4*binary.MaxVarintLen64 + checksumBytes

// rowBytes bounds what a row takes beside texts and values: the numbers of its series and
// of its layout, its time, and the length of its key.
const rowBytes = 2*binary.MaxVarintLen32 + binary.MaxVarintLen64 + binary.MaxVarintLen32

// Part returns how many of some rows of a batch go together in a message of about most
// bytes, and what bounds its size. A row can take more than most only once.
func Part(b *point.Batch, list []point.Row, most int) (n, bytes int) {
	var before point.Row
	for bytes = headBytes; n < len(list) && (n == 0 || bytes < most); n++ {
		r := &list[n]
		bytes += rowBytes
		if r.Series != before.Series {
			bytes += r.Series.KeyLength()
		}
		if r.Layout != before.Layout {
			bytes += binary.MaxVarintLen64 + len(r.Layout.Measurement)
			for i := range r.Layout.Fields {
				bytes += 1 + binary.MaxVarintLen32 + len(r.Layout.Fields[i].Key)
			}
		}
		bytes += 8 * len(r.Layout.Fields)
		if len(b.Strings) > 0 {
			for i := range r.Layout.Fields {
				if r.Layout.Fields[i].Type == model.String {
					bytes += len(column.StringAt(b.Values[int(r.First)+i], b.Strings))
				}
			}
		}
		before = *r
	}
	return n, bytes
}

// Append appends a message with some rows of a batch.
func (e *Encoder) Append(dst []byte, b *point.Batch, list []point.Row) []byte {
	if e.series == nil {
		e.series, e.layouts = map[*point.Series]uint64{}, map[*point.Layout]uint64{}
	}
	defer clear(e.series) // the table may drop them
	defer clear(e.layouts)
	values := 0
	for i := range list {
		values += len(list[i].Layout.Fields)
	}
	start := len(dst)
	v := byte(version)
	if b.Untimed == point.FromNow {
		v = Newest
	}
	dst = append(dst, v)
	dst = binary.AppendUvarint(dst, uint64(b.Database))
	dst = binary.AppendUvarint(dst, uint64(b.Untimed))
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	dst = binary.AppendUvarint(dst, uint64(values))
	last := int64(0)
	for i := range list {
		r := &list[i]
		if n := e.series[r.Series]; n > 0 {
			dst = binary.AppendUvarint(dst, n)
		} else {
			e.series[r.Series] = uint64(len(e.series) + 1)
			dst = binio.AppendString(append(dst, 0), r.Series.Key())
		}
		dst = e.appendLayout(dst, r)
		if r.Time != point.NoTime {
			dst = binary.AppendUvarint(dst, binio.ZigZag(r.Time-last))
			last = r.Time
		}
		dst = appendValues(dst, r.Layout.Fields, b.Values[r.First:], b.Strings)
	}
	return binary.LittleEndian.AppendUint32(dst, binio.Checksum(dst[start:]))
}

func (e *Encoder) appendLayout(dst []byte, r *point.Row) []byte {
	untimed := uint64(0)
	if r.Time == point.NoTime {
		untimed = 1
	}
	if n := e.layouts[r.Layout]; n > 0 {
		return binary.AppendUvarint(dst, n<<1|untimed)
	}
	e.layouts[r.Layout] = uint64(len(e.layouts) + 1)
	e.layout = point.AppendLayoutMeasurement(e.layout[:0], r.Layout.Measurement)
	for _, f := range r.Layout.Fields {
		e.layout = point.AppendLayoutField(e.layout, f.Type, []byte(f.Key))
	}
	dst = append(dst, byte(untimed))
	dst = binary.AppendUvarint(dst, uint64(len(e.layout)))
	return append(dst, e.layout...)
}

func appendValues(dst []byte, fields []column.Field, values []uint64, texts []byte) []byte {
	for i := range fields {
		switch fields[i].Type {
		case model.Boolean:
			dst = append(dst, byte(values[i]))
		case model.String:
			text := column.StringAt(values[i], texts)
			dst = binary.AppendUvarint(dst, uint64(len(text)))
			dst = append(dst, text...)
		default:
			dst = binary.LittleEndian.AppendUint64(dst, values[i])
		}
	}
	return dst
}

// Message is a message whose beginning is decoded.
type Message struct {
	Database uint32
	unit     int64
	rows     int
	values   int
	d        binio.Decoder
}

// open checks a message and returns a decoder of what follows its version.
func open(b []byte, newest byte) (d binio.Decoder, err error) {
	if len(b) > 0 && (b[0] < version || b[0] > newest) {
		return d, ErrVersion
	}
	end := len(b) - checksumBytes
	if end < 1 || binary.LittleEndian.Uint32(b[end:]) != binio.Checksum(b[:end]) {
		return d, fmt.Errorf("%w: the checksum is another", ErrDamaged)
	}
	d = binio.NewDecoder(b[:end])
	d.Byte()
	return d, nil
}

// Open checks a message and decodes its beginning.
func Open(b []byte) (*Message, error) {
	d, err := open(b, Newest)
	if err != nil {
		return nil, err
	}
	m := &Message{d: d}
	database, unit := m.d.Uvarint(), m.d.Uvarint()
	m.rows, m.values = m.d.Count(minRowBytes), m.d.Count(1)
	m.Database, m.unit = uint32(database), int64(unit)
	if uint64(m.Database) != database || m.unit < 0 {
		m.d.Fail("a number is too large")
	}
	return m, damage(&m.d)
}

// damage returns why a message cannot be decoded, nil if it can.
func damage(d *binio.Decoder) error {
	if err := d.Err(); err != nil {
		return fmt.Errorf("%w at byte %d: %v", ErrDamaged, d.Offset(), err)
	}
	return nil
}

// Bytes returns the memory that the batch of the message takes.
func (m *Message) Bytes() int {
	return m.rows*int(unsafe.Sizeof(point.Row{})) + m.values*8 + m.d.Len()
}

// Decode makes the rows the batch b, of a table of their database. After an error b has a
// part of them.
func (m *Message) Decode(table *point.Table, b *point.Batch) error {
	if table.Database() != m.Database {
		return ErrDatabase
	}
	b.Reset()
	b.Database, b.Untimed = m.Database, m.unit
	b.Rows, b.Values = slices.Grow(b.Rows, m.rows), slices.Grow(b.Values, m.values)
	var series []*point.Series
	var layouts []layout
	last := int64(0)
	for range m.rows {
		r := point.Row{Time: point.NoTime, First: uint32(len(b.Values))}
		n := m.d.Uvarint()
		if n == 0 {
			series = append(series, m.newSeries(table))
			n = uint64(len(series))
		}
		if n > uint64(len(series)) {
			m.d.Fail("number of a series")
			break
		}
		r.Series = series[n-1]
		n = m.d.Uvarint()
		untimed := n&1 > 0
		if n >>= 1; n == 0 {
			layouts = append(layouts, newLayout(m.layout(table)))
			n = uint64(len(layouts))
		}
		if n > uint64(len(layouts)) {
			m.d.Fail("number of a layout")
			break
		}
		l := layouts[n-1]
		r.Layout = l.Layout
		if !untimed {
			last += m.d.Varint()
			r.Time = last
		}
		if m.d.Err() != nil || len(b.Values)+len(r.Layout.Fields) > m.values {
			m.d.Fail("number of values")
			break
		}
		if l.words {
			m.appendWords(b, len(r.Layout.Fields))
		} else {
			m.appendValues(b, r.Layout.Fields)
		}
		b.Rows = append(b.Rows, r)
	}
	if m.d.Err() == nil && (m.d.Len() > 0 || len(b.Values) < m.values) {
		m.d.Fail("bytes behind the last row")
	}
	return damage(&m.d)
}

func (m *Message) newSeries(table *point.Table) *point.Series {
	key := m.d.Bytes(m.d.Count(1))
	if len(key) == 0 || len(key) > model.MaxKeyLength {
		m.d.Fail("length of a key")
		return nil
	}
	return table.Series(unsafe.String(unsafe.SliceData(key), len(key)))
}

// layout is a layout of a message.
type layout struct {
	*point.Layout
	words bool // all values are 8 bytes
}

func newLayout(l *point.Layout) layout {
	return layout{l, l != nil && !slices.ContainsFunc(l.Fields, func(f column.Field) bool { return f.Type == model.Boolean || f.Type == model.String })}
}

// layout returns the layout of a signature.
func (m *Message) layout(table *point.Table) *point.Layout {
	signature := m.d.Bytes(m.d.Count(1))
	if m.d.Err() != nil {
		return nil
	}
	if l := table.FindLayout(signature); l != nil {
		return l
	}
	d := binio.NewDecoder(signature)
	measurement := d.String()
	var fields []column.Field
	has := map[string]bool{}
	for d.Err() == nil && d.Len() > 0 {
		f := column.Field{Type: model.FieldType(d.Byte()), Key: d.String()}
		if has[f.Key] || !f.Type.Valid() {
			d.Fail("field")
		}
		has[f.Key] = true
		fields = append(fields, f)
	}
	if d.Err() != nil || len(fields) == 0 {
		m.d.Fail("layout")
		return nil
	}
	return table.Layout(measurement, fields)
}

// appendWords appends n values of 8 bytes.
func (m *Message) appendWords(b *point.Batch, n int) {
	from := m.d.Bytes(8 * n)
	for len(from) >= 8 {
		b.Values = append(b.Values, binary.LittleEndian.Uint64(from))
		from = from[8:]
	}
}

func (m *Message) appendValues(b *point.Batch, fields []column.Field) {
	for i := range fields {
		var word uint64
		switch fields[i].Type {
		case model.Boolean:
			if word = uint64(m.d.Byte()); word > 1 {
				m.d.Fail("boolean")
			}
		case model.String:
			text := m.d.Bytes(m.d.Count(1))
			if len(text) > column.MaxStringLength {
				m.d.Fail("length of a string")
				text = nil
			}
			word = column.StringWord(len(b.Strings), len(text))
			b.Strings = append(b.Strings, text...)
		default:
			word = m.d.Uint64()
		}
		b.Values = append(b.Values, word)
	}
}
