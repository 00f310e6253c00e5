package rows

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
)

// StreamType is the media type of the stream of an Encoder. It changes with its form.
const StreamType = "application/vnd.tsdbd.rows.v1"

// The items of a stream. Blocks of whole items are compressed, and begin with their
// length.
const (
	definitions = iota + 1
	tableItem
	runItem
	endItem
)

// The size at which an Encoder writes a block, the size of texts at which it splits a run,
// and the largest block that Decode reads.
const (
	streamBlock = 256 << 10
	streamTexts = 1 << 20
	maxBlock    = 1 << 30
)

// Encoder is a Writer that writes the tables and runs as a stream, which Decode reads.
type Encoder struct {
	w      io.Writer
	b      []byte
	packed []byte
	key    string
	fields int
}

// NewEncoder returns an Encoder to w.
func NewEncoder(w io.Writer) *Encoder { return &Encoder{w: w} }

// Define implements Writer.
func (e *Encoder) Define(statements []string) error {
	e.b = appendStrings(append(e.b, definitions), statements)
	return e.spill(streamBlock)
}

// Table implements Writer.
func (e *Encoder) Table(t *Table) error {
	e.b = append(e.b, tableItem)
	for _, s := range []string{t.Database, t.Policy, t.Measurement} {
		e.b = binio.AppendString(e.b, s)
	}
	e.b = binary.AppendVarint(e.b, t.Start)
	e.b = appendStrings(e.b, t.TagKeys)
	e.b = appendFields(e.b, t.Fields)
	e.b = appendStrings(e.b, t.AllTagKeys)
	e.b = appendFields(e.b, t.AllFields)
	e.key, e.fields = "", len(t.Fields)
	return e.spill(streamBlock)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = binio.AppendString(b, s)
	}
	return b
}

func appendFields(b []byte, fields []column.Field) []byte {
	b = binary.AppendUvarint(b, uint64(len(fields)))
	for _, f := range fields {
		b = append(binio.AppendString(b, f.Key), byte(f.Type))
	}
	return b
}

// Run implements Writer.
func (e *Encoder) Run(r *Run) error {
	if n := r.Len(); n > 1 && textBytes(&r.Rows) > streamTexts {
		for _, half := range [][2]int{{0, n / 2}, {n / 2, n}} {
			part := Run{Key: r.Key, Fields: r.Fields, Rows: r.Slice(half[0], half[1], nil)}
			if err := e.Run(&part); err != nil {
				return err
			}
		}
		return nil
	}
	e.b = append(e.b, runItem)
	if r.Key == e.key {
		e.b = binio.AppendString(e.b, "") // the same series
	} else {
		e.b = binio.AppendString(e.b, r.Key)
		e.key = r.Key
	}
	e.b = binary.AppendUvarint(e.b, uint64(len(r.Times)))
	last := int64(0)
	for _, t := range r.Times {
		e.b = binary.AppendVarint(e.b, t-last)
		last = t
	}
	for i := range r.Cols {
		e.b = appendColumn(e.b, &r.Cols[i], len(r.Times))
	}
	return e.spill(streamBlock)
}

func textBytes(r *column.Rows) (n int) {
	for i := range r.Cols {
		for _, s := range r.Cols[i].Strings {
			n += len(s)
		}
	}
	return n
}

// The forms of a column in a run.
const (
	noValue = iota
	allValues
	someValues // behind a bitmap
)

func appendColumn(b []byte, v *column.Vector, n int) []byte {
	switch {
	case v.Type == model.Unknown || v.Valid != nil && v.Valid.Count(n) == 0:
		return append(b, noValue)
	case v.Valid == nil:
		b = append(b, allValues)
	default:
		b = append(b, someValues)
		for _, word := range v.Valid[:(n+63)/64] {
			b = binary.LittleEndian.AppendUint64(b, word)
		}
	}
	for i := range n {
		if !v.IsValid(i) {
			continue
		}
		switch v.Type {
		case model.Float:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Floats[i]))
		case model.Integer:
			b = binary.AppendVarint(b, v.Ints[i])
		case model.Unsigned:
			b = binary.AppendUvarint(b, v.Uints[i])
		case model.Boolean:
			if v.Bools[i] {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		case model.String:
			b = binio.AppendString(b, v.Strings[i])
		}
	}
	return b
}

// spill writes a block of at least size bytes.
func (e *Encoder) spill(size int) error {
	if len(e.b) < size {
		return nil
	}
	e.packed = snappy.Encode(e.packed[:cap(e.packed)], e.b)
	_, err := e.w.Write(binary.AppendUvarint(nil, uint64(len(e.packed))))
	if err == nil {
		_, err = e.w.Write(e.packed)
	}
	e.b = e.b[:0]
	return err
}

// Close implements Writer.
func (e *Encoder) Close() error {
	e.b = append(e.b, endItem)
	return e.spill(1)
}

// Abort implements Writer. The stream has no end then, which Decode reports.
func (e *Encoder) Abort() {}

// Decode passes what an Encoder has written on to w, and returns the number of rows. A
// stream without its end is an error. The caller closes w.
func Decode(r io.Reader, w Writer) (rows int64, err error) {
	d := decoder{w: w}
	in := bufio.NewReaderSize(r, streamBlock)
	var packed, block []byte
	for !d.ended {
		size, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err == nil && size > maxBlock {
			err = fmt.Errorf("a block of %d bytes", size)
		}
		if err == nil {
			packed, err = readBlock(in, packed, int(size))
		}
		if err == nil {
			var n int
			if n, err = snappy.DecodedLen(packed); err == nil && n > maxBlock {
				err = fmt.Errorf("a block of %d bytes", n)
			}
		}
		if err == nil {
			block, err = snappy.Decode(block[:cap(block)], packed)
		}
		if err != nil {
			return d.rows, fmt.Errorf("read rows: %w", err)
		}
		if err := d.block(block); err != nil {
			return d.rows, err
		}
	}
	return d.rows, nil
}

// readBlock reads size bytes into b. It takes memory as they come.
func readBlock(r io.Reader, b []byte, size int) ([]byte, error) {
	b = b[:0]
	for len(b) < size {
		n := min(size-len(b), max(len(b), 1<<20))
		at := len(b)
		b = append(b, make([]byte, n)...)
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return b, err
		}
	}
	return b, nil
}

type decoder struct {
	w     Writer
	table *Table
	run   Run
	rows  int64
	ended bool
}

// block passes the items of a block on.
func (d *decoder) block(b []byte) error {
	in := binio.NewDecoder(b)
	for in.Len() > 0 && !d.ended {
		kind := in.Byte()
		var err error
		switch kind {
		case definitions:
			list := readStrings(&in)
			if in.Err() == nil {
				err = d.w.Define(list)
			}
		case tableItem:
			t := &Table{Database: in.String(), Policy: in.String(), Measurement: in.String(), Start: in.Varint()}
			t.TagKeys, t.Fields = readStrings(&in), readFields(&in)
			t.AllTagKeys, t.AllFields = readStrings(&in), readFields(&in)
			if d.table, d.run.Key = t, ""; in.Err() == nil {
				err = d.w.Table(t)
			}
		case runItem:
			if d.read(&in); in.Err() == nil {
				d.rows += int64(d.run.Len())
				err = d.w.Run(&d.run)
			}
		case endItem:
			d.ended = true
		default:
			in.Fail("unknown item")
		}
		if err != nil {
			return err
		}
		if err := in.Err(); err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
	}
	return nil
}

func readStrings(in *binio.Decoder) []string {
	list := make([]string, in.Count(1))
	for i := range list {
		list[i] = in.String()
	}
	return list
}

func readFields(in *binio.Decoder) []column.Field {
	list := make([]column.Field, in.Count(2))
	for i := range list {
		list[i] = column.Field{Key: in.String(), Type: model.FieldType(in.Byte())}
		if t := list[i].Type; t != model.Float && t != model.Integer && t != model.Unsigned && t != model.Boolean && t != model.String {
			in.Fail("unknown type of a field")
		}
	}
	return list
}

// read reads a run.
func (d *decoder) read(in *binio.Decoder) {
	r := &d.run
	if key := in.String(); key != "" {
		r.Key = key
	}
	n := in.Count(1)
	if d.table == nil || r.Key == "" || n == 0 || n > MaxRows {
		in.Fail("a run without a table, a series, or rows")
		return
	}
	r.Fields = d.table.Fields
	types := make([]model.FieldType, len(r.Fields))
	for i, f := range r.Fields {
		types[i] = f.Type
	}
	r.Reset(types)
	last := int64(0)
	for range n {
		last += in.Varint()
		r.Times = append(r.Times, last)
	}
	for i := range r.Cols {
		readColumn(in, &r.Cols[i], n)
	}
}

func readColumn(in *binio.Decoder, v *column.Vector, n int) {
	switch in.Byte() {
	case noValue:
		v.Nulls(v.Type, n)
		return
	case allValues:
	case someValues:
		v.Valid = column.NewBitmap(n)
		for i := range v.Valid {
			v.Valid[i] = in.Uint64()
		}
	default:
		in.Fail("unknown form of a column")
	}
	for i := range n {
		there := v.IsValid(i) && in.Err() == nil
		switch v.Type {
		case model.Float:
			f := 0.0
			if there {
				f = math.Float64frombits(in.Uint64())
			}
			v.Floats = append(v.Floats, f)
		case model.Integer:
			k := int64(0)
			if there {
				k = in.Varint()
			}
			v.Ints = append(v.Ints, k)
		case model.Unsigned:
			k := uint64(0)
			if there {
				k = in.Uvarint()
			}
			v.Uints = append(v.Uints, k)
		case model.Boolean:
			v.Bools = append(v.Bools, there && in.Byte() != 0)
		case model.String:
			s := ""
			if there {
				s = in.String()
			}
			v.Strings = append(v.Strings, s)
		}
	}
}
