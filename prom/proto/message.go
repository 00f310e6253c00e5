package proto

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrInvalid says that bytes are no message.
var ErrInvalid = errors.New("proto: cannot parse invalid wire-format data")

// Message is what is left of a message to read.
type Message []byte

// Member is one member of a message. Of Num and Data, the one that the member's Kind
// has is set: Data is not nil for texts, messages, and packed numbers.
type Member struct {
	Field protowire.Number
	Kind  protowire.Type
	Num   uint64
	Data  []byte
}

// Next reads the next member into m. It returns false at the end of the message, and
// with ErrInvalid. A group is a member with field 0, which no message has. After an error
// m has the field that cannot be read, 0 if the number of the field cannot.
func (b *Message) Next(m *Member) (bool, error) {
	if len(*b) == 0 {
		return false, nil
	}
	field, kind, n := consumeTag(*b)
	m.Field, m.Kind, m.Num, m.Data = field, kind, 0, nil
	if n < 0 {
		m.Field = 0
		return false, ErrInvalid
	}
	*b = (*b)[n:]
	switch kind {
	case protowire.BytesType:
		m.Data, n = protowire.ConsumeBytes(*b)
	case protowire.VarintType:
		m.Num, n = protowire.ConsumeVarint(*b)
	case protowire.Fixed64Type:
		if n = 8; len(*b) < 8 {
			return false, ErrInvalid
		}
		m.Num = binary.LittleEndian.Uint64(*b)
	case protowire.Fixed32Type:
		if n = 4; len(*b) < 4 {
			return false, ErrInvalid
		}
		m.Num = uint64(binary.LittleEndian.Uint32(*b))
	default:
		n = protowire.ConsumeFieldValue(field, kind, *b)
		if n >= 0 {
			m.Field = 0
		}
	}
	if n < 0 {
		return false, ErrInvalid
	}
	*b = (*b)[n:]
	return true, nil
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
