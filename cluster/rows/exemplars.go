package rows

import (
	"encoding/binary"
	"math"
	"unsafe"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// minExemplarBytes is the least that an exemplar takes in a message.
const minExemplarBytes = 1 + 1 + 8 + 1

// ExemplarsPart returns how many exemplars go together in a message of about most bytes,
// and what bounds its size.
func ExemplarsPart(list []model.Exemplar, most int) (n, bytes int) {
	bytes = headBytes
	for n < len(list) && (n == 0 || bytes < most) {
		bytes += 3*binary.MaxVarintLen64 + 8 + len(list[n].Series) + len(list[n].Labels)
		n++
	}
	return n, bytes
}

// AppendExemplars appends a message with exemplars:
//
//	version     byte, 1
//	exemplars   uvarint, their number
//	for each: series as a text, time varint, value 8 bytes, labels as a text
//	checksum    4 bytes, as that of rows
func AppendExemplars(dst []byte, list []model.Exemplar) []byte {
	start := len(dst)
	dst = binary.AppendUvarint(append(dst, version), uint64(len(list)))
	for i := range list {
		x := &list[i]
		dst = binio.AppendString(dst, x.Series)
		dst = binary.AppendUvarint(dst, binio.ZigZag(x.Time))
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x.Value))
		dst = binio.AppendString(dst, x.Labels)
	}
	return binary.LittleEndian.AppendUint32(dst, binio.Checksum(dst[start:]))
}

// ExemplarMessage is a message with exemplars whose beginning is decoded.
type ExemplarMessage struct {
	number int
	d      binio.Decoder
}

// OpenExemplars checks a message with exemplars and decodes its beginning.
func OpenExemplars(b []byte) (*ExemplarMessage, error) {
	d, err := open(b, version)
	if err != nil {
		return nil, err
	}
	m := &ExemplarMessage{d: d}
	m.number = m.d.Count(minExemplarBytes)
	return m, damage(&m.d)
}

// Bytes returns the memory that the exemplars of the message take.
func (m *ExemplarMessage) Bytes() int {
	return m.number*int(unsafe.Sizeof(model.Exemplar{})) + m.d.Len()
}

// Exemplars returns the exemplars of the message.
func (m *ExemplarMessage) Exemplars() ([]model.Exemplar, error) {
	list := make([]model.Exemplar, m.number)
	for i := range list {
		list[i] = model.Exemplar{Series: m.d.String(), Time: m.d.Varint(), Value: math.Float64frombits(m.d.Uint64()), Labels: m.d.String()}
	}
	if m.d.Err() == nil && m.d.Len() > 0 {
		m.d.Fail("bytes behind the last exemplar")
	}
	return list, damage(&m.d)
}
