package wire

import (
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/column"
)

// AppendValue appends the value that a row of a column has. The row must have one.
func AppendValue(dst []byte, v *column.Vector, row int) []byte {
	switch v.Type {
	case model.Float:
		return AppendFloat(dst, v.Floats[row])
	case model.Integer:
		return AppendInteger(dst, v.Ints[row])
	case model.Unsigned:
		return AppendUnsigned(dst, v.Uints[row])
	case model.Boolean:
		return AppendBoolean(dst, v.Bools[row])
	}
	s := v.Strings[row]
	return AppendString(dst, unsafe.Slice(unsafe.StringData(s), len(s)))
}
