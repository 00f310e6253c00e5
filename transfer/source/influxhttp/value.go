package influxhttp

import (
	"fmt"
	"math"
	"strconv"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
)

// kind is what an answer says about a value.
type kind byte

const (
	null     kind = iota
	boolean       // bits is 0 or 1
	integer       // bits is an int64
	unsigned      // bits is a uint64
	float         // bits is a float64
	number        // text is a number of JSON, whose type the answer does not say
	text          // text is a string
)

// value is one value of a row. Its text is valid until the next row.
type value struct {
	kind kind
	bits uint64
	text []byte
}

// time returns the value as a time in nanoseconds.
func (v *value) time() (int64, error) {
	switch v.kind {
	case integer:
		return int64(v.bits), nil
	case unsigned:
		if v.bits <= math.MaxInt64 {
			return int64(v.bits), nil
		}
	case number:
		if t, err := strconv.ParseInt(string(v.text), 10, 64); err == nil {
			return t, nil
		}
	}
	return 0, fmt.Errorf("the time %q of a row is no number of nanoseconds", v.text)
}

// append appends the value as line protocol has it. as is the type of numbers that do
// not say their own.
func (v *value) append(dst []byte, as model.FieldType) []byte {
	switch v.kind {
	case boolean:
		return wire.AppendBoolean(dst, v.bits != 0)
	case integer:
		if as == model.Unsigned {
			return wire.AppendUnsigned(dst, v.bits)
		}
		return wire.AppendInteger(dst, int64(v.bits))
	case unsigned:
		return wire.AppendUnsigned(dst, v.bits)
	case float:
		return wire.AppendFloat(dst, math.Float64frombits(v.bits))
	case number:
		// The text stays: a detour through a float would round large integers.
		dst = append(dst, v.text...)
		switch as {
		case model.Integer:
			dst = append(dst, 'i')
		case model.Unsigned:
			dst = append(dst, 'u')
		}
		return dst
	}
	return wire.AppendString(dst, v.text)
}
