package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"tsdbd/exchange/rows"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
)

// Bounds of a row group, and of the dictionary of a column in it.
const (
	groupRows       = 1 << 20
	groupBytes      = 64 << 20
	dictionaryBytes = 1 << 20
)

// file is a file in the making.
type file struct {
	dir, name string
	f         vfs.File
	out       output
	w         *parquet.GenericWriter[any]
	tags      []string // keys; their columns are behind the time, and those of fields behind them
	places    []int    // of the fields' columns in the runs, -1: none
	key       string   // of the latest series
	values    model.Tags
	raw       []bool // by column: some text is not UTF-8
	rows      int    // of the row group
	start     int64  // of the row group in the file
	scratch   []parquet.Value
}

// output is where a file is written, which changes before its end.
type output struct{ io.Writer }

// open begins the file f of a table.
func open(f vfs.File, t *rows.Table) (*file, error) {
	o := &file{f: f, out: output{f}, tags: slices.Clone(t.AllTagKeys)}
	fields, places := t.Columns()
	o.places = places
	root := newSchema(o.tags, fields)
	if len(root.order) > parquet.MaxColumnIndex {
		return nil, fmt.Errorf("measurement %q has %d columns, a Parquet file has %d at most", t.Measurement, len(root.order), parquet.MaxColumnIndex)
	}
	o.raw = make([]bool, len(root.order))
	o.w = parquet.NewGenericWriter[any](&o.out, parquet.NewSchema("tsdbd", root), parquet.Compression(&parquet.Snappy),
		parquet.DataPageVersion(1), parquet.DictionaryMaxBytes(dictionaryBytes))
	o.start = o.w.Size()
	return o, nil
}

// run adds the rows of r.
func (f *file) run(r *rows.Run) error {
	if r.Key != f.key {
		f.key = r.Key
		_, f.values = model.ParseSeriesKey(r.Key, nil)
	}
	n := r.Len()
	f.scratch = f.scratch[:0]
	for _, at := range r.Times {
		f.scratch = append(f.scratch, parquet.Int64Value(at))
	}
	err := f.put(0)
	tags := f.values
	for i, key := range f.tags {
		for len(tags) > 0 && tags[0].Key < key {
			tags = tags[1:]
		}
		value := parquet.NullValue()
		if len(tags) > 0 && tags[0].Key == key {
			value = f.text(1+i, tags[0].Value)
		}
		if err == nil {
			err = f.repeat(1+i, value, n)
		}
	}
	for i, place := range f.places {
		to := 1 + len(f.tags) + i
		switch {
		case err != nil:
		case place < 0:
			err = f.repeat(to, parquet.NullValue(), n)
		default:
			err = f.vector(to, &r.Cols[place], n)
		}
	}
	if f.rows += n; err == nil && (f.rows >= groupRows || f.w.Size()-f.start >= groupBytes) {
		err = f.w.Flush()
		f.rows, f.start = 0, f.w.Size()
	}
	return err
}

// put adds the values of scratch to a column.
func (f *file) put(to int) error {
	_, err := f.w.ColumnWriters()[to].WriteRowValues(f.scratch)
	return err
}

// repeat adds n times a value.
func (f *file) repeat(to int, value parquet.Value, n int) error {
	f.scratch = f.scratch[:0]
	for range n {
		f.scratch = append(f.scratch, value)
	}
	return f.put(to)
}

// text returns a text of a column, which shares the memory of s.
func (f *file) text(to int, s string) parquet.Value {
	f.raw[to] = f.raw[to] || !utf8.ValidString(s)
	return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(s), len(s))).Level(0, 1, to)
}

// vector adds the n rows of v.
func (f *file) vector(to int, v *column.Vector, n int) error {
	f.scratch = f.scratch[:0]
	for i := range n {
		value := parquet.NullValue()
		switch {
		case v.Type == model.Unknown || !v.IsValid(i):
		case v.Type == model.Float:
			value = parquet.DoubleValue(v.Floats[i]).Level(0, 1, to)
		case v.Type == model.Integer:
			value = parquet.Int64Value(v.Ints[i]).Level(0, 1, to)
		case v.Type == model.Unsigned:
			value = parquet.Int64Value(int64(v.Uints[i])).Level(0, 1, to)
		case v.Type == model.Boolean:
			value = parquet.BooleanValue(v.Bools[i]).Level(0, 1, to)
		case v.Type == model.String:
			value = f.text(to, v.Strings[i])
		}
		f.scratch = append(f.scratch, value)
	}
	return f.put(to)
}

// close writes what is left, and the footer. The file must still be synced.
func (f *file) close() error {
	if err := f.w.Flush(); err != nil {
		return err
	}
	var end bytes.Buffer // indexes of pages, and the footer
	f.out.Writer = &end
	if err := f.w.Close(); err != nil {
		return err
	}
	if slices.Contains(f.raw, true) {
		if err := f.dropString(&end); err != nil {
			return err
		}
	}
	_, err := f.f.Write(end.Bytes())
	return err
}

// dropString makes columns plain bytes in the footer if some of their texts are not UTF-8.
func (f *file) dropString(end *bytes.Buffer) error {
	const tail = 8 // the length of the footer and the magic bytes
	b := end.Bytes()
	begin := len(b) - tail - int(binary.LittleEndian.Uint32(b[len(b)-tail:]))
	var meta format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[begin:len(b)-tail], &meta); err != nil {
		return err
	}
	for i, raw := range f.raw {
		if raw {
			c := &meta.Schema[1+i] // behind the root
			c.LogicalType, c.ConvertedType = format.LogicalType{}, thrift.Null[deprecated.ConvertedType]{}
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	if err != nil {
		return err
	}
	end.Truncate(begin)
	end.Write(footer)
	end.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	end.WriteString("PAR1")
	return nil
}
