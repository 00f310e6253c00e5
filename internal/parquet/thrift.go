package parquet

import "encoding/binary"

// The types of Thrift's compact protocol that Parquet's metadata needs.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI32    = 5
	thriftI64    = 6
	thriftBinary = 8
	thriftList   = 9
	thriftStruct = 12
)

// thrift builds metadata in Thrift's compact protocol.
type thrift struct {
	b    []byte
	last []int16 // the latest field of each open struct
}

// begin opens a struct, as the value of a field or an element of a list.
func (t *thrift) begin() { t.last = append(t.last, 0) }

// end closes a struct.
func (t *thrift) end() {
	t.b = append(t.b, 0)
	t.last = t.last[:len(t.last)-1]
}

// field begins a field of the open struct.
func (t *thrift) field(id int16, kind byte) {
	last := &t.last[len(t.last)-1]
	if delta := id - *last; delta > 0 && delta <= 15 {
		t.b = append(t.b, byte(delta)<<4|kind)
	} else {
		t.b = binary.AppendVarint(append(t.b, kind), int64(id))
	}
	*last = id
}

func (t *thrift) i32(id int16, v int32) {
	t.field(id, thriftI32)
	t.b = binary.AppendVarint(t.b, int64(v))
}

func (t *thrift) i64(id int16, v int64) {
	t.field(id, thriftI64)
	t.b = binary.AppendVarint(t.b, v)
}

func (t *thrift) bool(id int16, v bool) {
	if v {
		t.field(id, thriftTrue)
	} else {
		t.field(id, thriftFalse)
	}
}

func (t *thrift) text(id int16, v string) {
	t.field(id, thriftBinary)
	t.element(v)
}

// element appends a text as an element of a list.
func (t *thrift) element(v string) {
	t.b = binary.AppendUvarint(t.b, uint64(len(v)))
	t.b = append(t.b, v...)
}

// list begins a list of n elements.
func (t *thrift) list(id int16, kind byte, n int) {
	t.field(id, thriftList)
	if n < 15 {
		t.b = append(t.b, byte(n)<<4|kind)
	} else {
		t.b = binary.AppendUvarint(append(t.b, 0xf0|kind), uint64(n))
	}
}

// structure begins a field that is a struct.
func (t *thrift) structure(id int16) {
	t.field(id, thriftStruct)
	t.begin()
}

// empty adds a field that is a struct without fields.
func (t *thrift) empty(id int16) {
	t.structure(id)
	t.end()
}
