package remote

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
)

// errProtobuf refuses a message as a whole.
var errProtobuf = errors.New("proto: cannot parse invalid wire-format data")

// message is what is left of a message to read.
type message []byte

// member is one member of a message. Of num and data, the one that the member's type
// has is set: data is not nil for texts, messages, and packed numbers.
type member struct {
	field protowire.Number
	num   uint64
	data  []byte
}

// next reads the next member into m. It returns false at the end of the message. A
// group is a member with field 0, which no message has.
func (b *message) next(m *member) (bool, error) {
	if len(*b) == 0 {
		return false, nil
	}
	field, kind, n := protowire.ConsumeTag(*b)
	if n < 0 {
		return false, errProtobuf
	}
	*b = (*b)[n:]
	m.field, m.num, m.data = field, 0, nil
	switch kind {
	case protowire.BytesType:
		m.data, n = protowire.ConsumeBytes(*b)
	case protowire.VarintType:
		m.num, n = protowire.ConsumeVarint(*b)
	case protowire.Fixed64Type:
		if n = 8; len(*b) < 8 {
			return false, errProtobuf
		}
		m.num = binary.LittleEndian.Uint64(*b)
	case protowire.Fixed32Type:
		if n = 4; len(*b) < 4 {
			return false, errProtobuf
		}
		m.num = uint64(binary.LittleEndian.Uint32(*b))
	default:
		m.field = 0
		n = protowire.ConsumeFieldValue(field, kind, *b)
	}
	if n < 0 {
		return false, errProtobuf
	}
	*b = (*b)[n:]
	return true, nil
}

// text returns bytes of a message as a string, without a copy.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parseSample reads a Sample message of any version.
func parseSample(b message) (s prom.Sample, err error) {
	var m member
	for {
		more, err := b.next(&m)
		if !more {
			return s, err
		}
		switch m.field {
		case 1:
			s.Value = math.Float64frombits(m.num)
		case 2:
			s.Time = int64(m.num)
		case 3:
			s.Start = int64(m.num)
		}
	}
}

// appendLabel reads a label and appends it to tags. Its texts are parts of b.
func appendLabel(tags model.Tags, b message) (model.Tags, error) {
	var l model.Tag
	var m member
	for {
		more, err := b.next(&m)
		switch {
		case !more:
			return append(tags, l), err
		case m.field == 1:
			l.Key = text(m.data)
		case m.field == 2:
			l.Value = text(m.data)
		}
	}
}

// maxNumbers is how many numbers appendNumbers keeps.
const maxNumbers = 16

// appendNumbers appends the numbers of a repeated member, which come packed or one by
// one. It leaves out what exceeds maxNumbers.
func appendNumbers(dst []uint64, m *member) ([]uint64, error) {
	if m.data == nil {
		return append(dst, m.num)[:min(len(dst)+1, maxNumbers)], nil
	}
	for b := m.data; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return dst, errProtobuf
		}
		dst, b = append(dst, v)[:min(len(dst)+1, maxNumbers)], b[n:]
	}
	return dst, nil
}
