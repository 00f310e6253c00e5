package subscriber

import (
	"math"
	"strconv"
	"strings"

	"tsdbd/column"
	"tsdbd/model"
)

// appendRow appends a row as a line of line protocol, time in nanoseconds.
func appendRow(dst []byte, b *column.Batch, r *column.Row) []byte {
	dst = append(dst, r.Series.Key()...)
	for i, f := range r.Layout.Fields {
		if i == 0 {
			dst = append(dst, ' ')
		} else {
			dst = append(dst, ',')
		}
		dst = append(appendFieldKey(dst, f.Key), '=')
		word := b.Values[int(r.First)+i]
		switch f.Type {
		case model.Float:
			dst = strconv.AppendFloat(dst, math.Float64frombits(word), 'g', -1, 64)
		case model.Integer:
			dst = append(strconv.AppendInt(dst, int64(word), 10), 'i')
		case model.Unsigned:
			dst = append(strconv.AppendUint(dst, word, 10), 'u')
		case model.Boolean:
			dst = strconv.AppendBool(dst, word != 0)
		case model.String:
			dst = append(dst, '"')
			for _, c := range column.StringAt(word, b.Strings) {
				if c == '"' || c == '\\' {
					dst = append(dst, '\\')
				}
				dst = append(dst, c)
			}
			dst = append(dst, '"')
		}
	}
	dst = append(dst, ' ')
	return append(strconv.AppendInt(dst, r.Time, 10), '\n')
}

func appendFieldKey(dst []byte, key string) []byte {
	if !strings.ContainsAny(key, ", =") {
		return append(dst, key...)
	}
	for i := range len(key) {
		if c := key[i]; c == ',' || c == ' ' || c == '=' {
			dst = append(dst, '\\')
		}
		dst = append(dst, key[i])
	}
	return dst
}
