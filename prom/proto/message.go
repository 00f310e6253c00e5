package proto

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrInvalid says that bytes are no message.
var ErrInvalid = errors.New("proto: cannot parse invalid wire-format data")

// Reader gives the members of a message one after the other.
type Reader struct {
	Member
	Rest []byte // what follows the member
	Err  error  // ErrInvalid, if Next has returned false because of it
}

// Member is one member of a message. Of Num and Data, the one that the member's Kind
// has is set: Data is not nil for texts, messages, and packed numbers.
type Member struct {
	Field protowire.Number
	Kind  protowire.Type
	Num   uint64
	Data  []byte
}

// Read returns a Reader of a message.
func Read(message []byte) Reader { return Reader{Rest: message} }

// Next reads the next member. It returns false at the end of the message, and if it
// cannot be read. A group is a member with field 0, which no message has. After an error
// Field is the one that cannot be read, 0 if the number of the field cannot.
func (r *Reader) Next() bool {
	if len(r.Rest) == 0 {
		return false
	}
	field, kind, n := consumeTag(r.Rest)
	if n < 0 {
		r.Field, r.Err = 0, ErrInvalid
		return false
	}
	r.Field, r.Kind, r.Num, r.Data = field, kind, 0, nil
	b := r.Rest[n:]
	switch kind {
	case protowire.BytesType:
		r.Data, n = protowire.ConsumeBytes(b)
	case protowire.VarintType:
		r.Num, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		if n = -1; len(b) >= 8 {
			r.Num, n = binary.LittleEndian.Uint64(b), 8
		}
	case protowire.Fixed32Type:
		if n = -1; len(b) >= 4 {
			r.Num, n = uint64(binary.LittleEndian.Uint32(b)), 4
		}
	default:
		if n = protowire.ConsumeFieldValue(field, kind, b); n >= 0 {
			r.Field = 0
		}
	}
	if n < 0 {
		r.Err = ErrInvalid
		return false
	}
	r.Rest = b[n:]
	return true
}

// consumeTag is protowire.ConsumeTag, faster for fields below 16.
func consumeTag(b []byte) (field protowire.Number, kind protowire.Type, n int) {
	if c := b[0]; c >= 1<<3 && c < 1<<7 {
		return protowire.Number(c >> 3), protowire.Type(c & 7), 1
	}
	return protowire.ConsumeTag(b)
}

// Text returns bytes of a message as a string, without a copy.
func Text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// AppendVarints appends the numbers of a repeated member, which come packed or one by
// one, as the type that of returns. It leaves out what exceeds most elements in dst.
func AppendVarints[T any](dst []T, m *Member, most int, of func(uint64) T) ([]T, error) {
	if m.Data == nil {
		return appendBounded(dst, most, of(m.Num)), nil
	}
	for b := m.Data; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return dst, ErrInvalid
		}
		dst, b = appendBounded(dst, most, of(v)), b[n:]
	}
	return dst, nil
}

// AppendFixed is AppendVarints for numbers of eight bytes.
func AppendFixed[T any](dst []T, m *Member, most int, of func(uint64) T) ([]T, error) {
	if m.Data == nil {
		return appendBounded(dst, most, of(m.Num)), nil
	}
	if len(m.Data)%8 != 0 {
		return dst, ErrInvalid
	}
	for b := m.Data; len(b) > 0; b = b[8:] {
		dst = appendBounded(dst, most, of(binary.LittleEndian.Uint64(b)))
	}
	return dst, nil
}

func appendBounded[T any](dst []T, most int, v T) []T {
	if len(dst) < most {
		dst = append(dst, v)
	}
	return dst
}
