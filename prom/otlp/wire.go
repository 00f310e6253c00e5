package otlp

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// WireError reports bytes that are not a message of protobuf.
type WireError struct {
	Message string // the type of the message
	Field   int32  // 0: the number of the field itself cannot be read
}

func (e *WireError) Error() string {
	if e.Field == 0 {
		return fmt.Sprintf("protobuf: %s: cannot read the number of a field", e.Message)
	}
	return fmt.Sprintf("protobuf: %s: field %d is truncated or has a wrong type", e.Message, e.Field)
}

// fields iterates over the fields of a message. A method that returns the value of a
// field ends the iteration if the field has another type on the wire.
type fields struct {
	of     string // the type of the message, for errors
	rest   []byte
	number protowire.Number
	kind   protowire.Type
	word   uint64
	data   []byte
	err    error
}

// next moves to the next field.
func (f *fields) next() bool {
	if f.err != nil || len(f.rest) == 0 {
		return false
	}
	var n int
	f.number, f.kind, n = protowire.ConsumeTag(f.rest)
	if n < 0 {
		f.number = 0
		f.fail()
		return false
	}
	f.rest = f.rest[n:]
	switch f.kind {
	case protowire.VarintType:
		f.word, n = protowire.ConsumeVarint(f.rest)
	case protowire.Fixed64Type:
		f.word, n = protowire.ConsumeFixed64(f.rest)
	case protowire.BytesType:
		f.data, n = protowire.ConsumeBytes(f.rest)
	default:
		n = protowire.ConsumeFieldValue(f.number, f.kind, f.rest)
	}
	if n < 0 {
		f.fail()
		return false
	}
	f.rest = f.rest[n:]
	return true
}

func (f *fields) fail() {
	f.err = &WireError{Message: f.of, Field: int32(f.number)}
}

func (f *fields) is(kind protowire.Type) bool {
	if f.kind != kind {
		f.fail()
	}
	return f.kind == kind
}

// message returns the bytes of a message or of a field of type bytes.
func (f *fields) message() []byte {
	if !f.is(protowire.BytesType) {
		return nil
	}
	return f.data
}

// text returns a string. It shares the memory of the message.
func (f *fields) text() string {
	b := f.message()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// varint returns an integer or boolean.
func (f *fields) varint() uint64 {
	if !f.is(protowire.VarintType) {
		return 0
	}
	return f.word
}

// fixed returns an integer of eight bytes.
func (f *fields) fixed() uint64 {
	if !f.is(protowire.Fixed64Type) {
		return 0
	}
	return f.word
}

func (f *fields) double() float64 { return math.Float64frombits(f.fixed()) }

// sint returns an integer in zigzag encoding, cut to 32 bits as protobuf does.
func (f *fields) sint() int32 { return int32(protowire.DecodeZigZag(f.varint() & math.MaxUint32)) }

// maxElements bounds what appendFixed and appendVarints keep: one more than a
// histogram may have, so that the caller sees that there are too many.
const maxElements = maxBuckets + 1

// appendFixed appends the elements of a repeated field of eight bytes each.
func (f *fields) appendFixed(dst []uint64) []uint64 {
	if f.kind == protowire.Fixed64Type {
		return appendBounded(dst, f.word)
	}
	b := f.message()
	if len(b)%8 != 0 {
		f.fail()
	}
	for ; len(b) >= 8 && len(dst) < maxElements; b = b[8:] {
		dst = append(dst, binary.LittleEndian.Uint64(b))
	}
	return dst
}

// appendVarints appends the elements of a repeated field of integers.
func (f *fields) appendVarints(dst []uint64) []uint64 {
	if f.kind == protowire.VarintType {
		return appendBounded(dst, f.word)
	}
	for b := f.message(); len(b) > 0 && len(dst) < maxElements; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			f.fail()
			return dst
		}
		dst, b = append(dst, v), b[n:]
	}
	return dst
}

func appendBounded(dst []uint64, v uint64) []uint64 {
	if len(dst) < maxElements {
		dst = append(dst, v)
	}
	return dst
}
