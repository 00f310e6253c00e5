package parquet

import (
	"encoding/binary"

	"tsdbd/model"
)

// createdBy names the program. Readers look for known errors by it.
const createdBy = "tsdbd version 1.0.0"

// The physical types of the format, and the names of older readers for logical types.
const (
	typeBoolean   = 0
	typeInt64     = 2
	typeDouble    = 5
	typeByteArray = 6

	convertedUTF8   = 0
	convertedUint64 = 14
)

func (c *chunk) physical() int32 {
	switch c.Type {
	case model.Integer, model.Unsigned:
		return typeInt64
	case model.Boolean:
		return typeBoolean
	case model.String:
		return typeByteArray
	}
	return typeDouble
}

// footer returns the metadata of the file.
func (w *Writer) footer() []byte {
	var t thrift
	t.begin()
	t.i32(1, 1) // version
	t.list(2, thriftStruct, 1+len(w.columns))
	t.begin()
	t.text(4, "schema")
	t.i32(5, int32(len(w.columns)))
	t.end()
	for _, c := range w.columns {
		c.schema(&t)
	}
	rows := int64(0)
	for _, g := range w.groups {
		rows += int64(g.rows)
	}
	t.i64(3, rows)
	t.list(4, thriftStruct, len(w.groups))
	for i := range w.groups {
		w.rowGroup(&t, &w.groups[i])
	}
	t.text(6, createdBy)
	t.list(7, thriftStruct, len(w.columns)) // bounds are in the order of their types
	for range w.columns {
		t.begin()
		t.empty(1)
		t.end()
	}
	t.end()
	return t.b
}

// schema adds the column to the schema.
func (c *chunk) schema(t *thrift) {
	t.begin()
	t.i32(1, c.physical())
	if c.Required {
		t.i32(3, 0)
	} else {
		t.i32(3, 1)
	}
	t.text(4, c.Name)
	switch {
	case c.Type == model.String && !c.bytes:
		t.i32(6, convertedUTF8)
		t.structure(10)
		t.empty(1) // STRING
		t.end()
	case c.Type == model.Unsigned:
		t.i32(6, convertedUint64)
		t.structure(10)
		t.structure(10) // INTEGER
		t.field(1, thriftByte)
		t.b = append(t.b, 64)
		t.bool(2, false)
		t.end()
		t.end()
	case c.Time:
		t.structure(10)
		t.structure(8) // TIMESTAMP
		t.bool(1, true)
		t.structure(2)
		t.empty(3) // NANOS
		t.end()
		t.end()
		t.end()
	}
	t.end()
}

// rowGroup adds a group.
func (w *Writer) rowGroup(t *thrift, g *group) {
	raw, size := int64(0), int64(0)
	t.begin()
	t.list(1, thriftStruct, len(g.columns))
	for i := range g.columns {
		raw += g.columns[i].raw
		size += g.columns[i].size
		w.columns[i].metadata(t, &g.columns[i], int64(g.rows))
	}
	t.i64(2, raw)
	t.i64(3, int64(g.rows))
	t.i64(6, size)
	t.end()
}

// metadata adds what a group has of the column.
func (c *chunk) metadata(t *thrift, in *written, rows int64) {
	t.begin()
	t.i64(2, 0)
	t.structure(3)
	t.i32(1, c.physical())
	var encodings []int32
	for code := int32(0); code <= rleDictionary; code++ {
		if in.encodings&(1<<code) != 0 {
			encodings = append(encodings, code)
		}
	}
	t.list(2, thriftI32, len(encodings))
	for _, code := range encodings {
		t.b = binary.AppendVarint(t.b, int64(code))
	}
	t.list(3, thriftBinary, 1)
	t.element(c.Name)
	t.i32(4, snappyCodec)
	t.i64(5, rows)
	t.i64(6, in.raw)
	t.i64(7, in.size)
	t.i64(9, in.data)
	if in.dictionary > 0 {
		t.i64(11, in.dictionary)
	}
	t.structure(12)
	t.i64(3, in.nulls)
	if in.least != nil {
		t.text(5, string(in.greatest))
		t.text(6, string(in.least))
	}
	t.end()
	t.end()
	t.end()
}
