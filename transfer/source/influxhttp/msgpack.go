package influxhttp

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// newMsgpack returns the form of an answer in MessagePack.
func newMsgpack(r io.Reader) *msgpackForm { return &msgpackForm{r: msgp.NewReaderSize(r, 64<<10)} }

// msgpackForm reads MessagePack. Integers and floats differ in it, and strings are the
// bytes that the server has.
type msgpackForm struct{ r *msgp.Reader }

// more passes over the line breaks between documents.
func (m *msgpackForm) more() (bool, error) {
	for {
		b, err := m.r.R.Peek(1)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil || b[0] != '\n' {
			return err == nil, err
		}
		if _, err := m.r.R.Skip(1); err != nil {
			return false, err
		}
	}
}

func (m *msgpackForm) object(member func(key string) error) error {
	n, err := m.r.ReadMapHeader()
	for ; err == nil && n > 0; n-- {
		var key []byte
		if key, err = m.string(nil); err == nil {
			err = member(string(key))
		}
	}
	return err
}

func (m *msgpackForm) array(element func(i int) error) error {
	n, err := m.r.ReadArrayHeader()
	for i := 0; err == nil && i < int(n); i++ {
		err = element(i)
	}
	return err
}

func (m *msgpackForm) skip() error { return m.r.Skip() }

func (m *msgpackForm) string(dst []byte) ([]byte, error) {
	n, err := m.r.ReadStringHeader()
	if err != nil {
		return dst, err
	}
	if n > maxText {
		return dst, fmt.Errorf("%w: a string of %d bytes", errForm, n)
	}
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	_, err = m.r.ReadFull(dst[at:])
	return dst, err
}

func (m *msgpackForm) value(v *value) error {
	kindOf, err := m.r.NextType()
	if err != nil {
		return err
	}
	switch kindOf {
	case msgp.NilType:
		v.kind = null
		return m.r.ReadNil()
	case msgp.BoolType:
		v.kind = boolean
		b, err := m.r.ReadBool()
		if b {
			v.bits = 1
		}
		return err
	case msgp.IntType:
		v.kind = integer
		n, err := m.r.ReadInt64()
		v.bits = uint64(n)
		return err
	case msgp.UintType:
		v.kind = unsigned
		v.bits, err = m.r.ReadUint64()
		return err
	case msgp.Float64Type:
		v.kind = float
		f, err := m.r.ReadFloat64()
		v.bits = math.Float64bits(f)
		return err
	case msgp.Float32Type:
		v.kind = float
		f, err := m.r.ReadFloat32()
		v.bits = math.Float64bits(float64(f))
		return err
	case msgp.StrType:
		v.kind = text
		v.text, err = m.string(v.text)
		return err
	}
	return fmt.Errorf("%w: a row has a value of the type %s", errForm, kindOf)
}
