package wire

import (
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/column"
)

// AppendRow appends the line of a row of a series, or nothing if the row has no value.
// series is what AppendSeries writes, and prefixes are those of the fields of cols.
func AppendRow(dst, series []byte, prefixes []string, cols []column.Vector, row int, at int64) []byte {
	start := len(dst)
	dst = append(dst, series...)
	separator := byte(' ')
	for i := range cols {
		if v := &cols[i]; v.IsValid(row) {
			dst = append(append(dst, separator), prefixes[i]...)
			dst = AppendValue(dst, v, row)
			separator = ','
		}
	}
	if separator == ' ' {
		return dst[:start]
	}
	return AppendTime(dst, at)
}

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
