package otlp

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/prom/proto"
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
// field ends the iteration if the field has another type on the wire. Err is a *WireError.
type fields struct {
	proto.Reader
	of string // the type of the message
}

// read returns the fields of a message of a type.
func read(message []byte, of string) fields { return fields{proto.Read(message), of} }

// Next moves to the next field.
func (f *fields) Next() bool {
	if f.Err != nil {
		return false
	}
	more := f.Reader.Next()
	if f.Err != nil {
		f.fail()
	}
	return more
}

func (f *fields) fail() {
	f.Err = &WireError{Message: f.of, Field: int32(f.Field)}
}

// each calls do with each of the messages that a message of a type has in a field.
func each(message []byte, of string, field protowire.Number, do func([]byte) error) error {
	f := read(message, of)
	for f.Next() {
		if f.Field != field {
			continue
		}
		if err := do(f.message()); err != nil {
			return err
		}
	}
	return f.Err
}

func (f *fields) is(kind protowire.Type) bool {
	if f.Kind != kind {
		f.fail()
	}
	return f.Kind == kind
}

// message returns the bytes of a message or of a field of type bytes.
func (f *fields) message() []byte {
	if !f.is(protowire.BytesType) {
		return nil
	}
	return f.Data
}

// text returns a string. It shares the memory of the message.
func (f *fields) text() string {
	return proto.Text(f.message())
}

// varint returns an integer or boolean.
func (f *fields) varint() uint64 {
	if !f.is(protowire.VarintType) {
		return 0
	}
	return f.Num
}

// fixed returns an integer of eight bytes.
func (f *fields) fixed() uint64 {
	if !f.is(protowire.Fixed64Type) {
		return 0
	}
	return f.Num
}

func (f *fields) double() float64 { return math.Float64frombits(f.fixed()) }

// sint returns an integer in zigzag encoding, cut to 32 bits as protobuf does.
func (f *fields) sint() int32 { return int32(protowire.DecodeZigZag(f.varint() & math.MaxUint32)) }

// maxElements bounds what appendFixed and appendVarints keep: one more than a
// histogram may have, so that the caller sees that there are too many.
const maxElements = maxBuckets + 1

// appendFixed appends the elements of a repeated field of eight bytes each.
func (f *fields) appendFixed(dst []uint64) []uint64 {
	return f.list(protowire.Fixed64Type, dst, proto.AppendFixed[uint64])
}

// appendVarints appends the elements of a repeated field of integers.
func (f *fields) appendVarints(dst []uint64) []uint64 {
	return f.list(protowire.VarintType, dst, proto.AppendVarints[uint64])
}

// list appends the elements of a repeated field, which are of a kind or packed.
func (f *fields) list(kind protowire.Type, dst []uint64, appendAll func([]uint64, *proto.Member, int, func(uint64) uint64) ([]uint64, error)) []uint64 {
	if f.Kind != kind && !f.is(protowire.BytesType) {
		return dst
	}
	dst, err := appendAll(dst, &f.Member, maxElements, func(v uint64) uint64 { return v })
	if err != nil {
		f.fail()
	}
	return dst
}
