package lineproto

import (
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"tsdbd/model"
)

// valueEnd returns the end of an unquoted value.
func valueEnd(b []byte, i int) int {
	for i < len(b) && b[i] != ',' && b[i] != ' ' {
		i++
	}
	return i
}

func isNumberStart(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == 'n' || c == 'N'
}

// number reads a whole integer, unsigned or float value.
func number(b []byte) (model.FieldType, uint64, string) {
	const invalid = "invalid number"
	if bits, ok := notFinite(b); ok {
		return model.Float, bits, ""
	}
	digits := b
	if digits[0] == '-' {
		digits = digits[1:]
	}
	points, exponent, suffix, count := 0, false, byte(0), 0
	for i, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			count++
		case c == '.':
			if points++; points > 1 {
				return 0, 0, invalid
			}
		case (c == 'i' || c == 'u') && suffix == 0 && (i > 0 || len(digits) < len(b)):
			suffix = c
		case (c == 'e' || c == 'E') && (i > 0 || len(digits) < len(b)):
			exponent = true
		case (c == '+' || c == '-') && i > 0 && (digits[i-1] == 'e' || digits[i-1] == 'E'):
		default:
			return 0, 0, invalid
		}
	}
	text := unsafe.String(unsafe.SliceData(b), len(b)) // strconv's errors copy it
	switch {
	case suffix == 0:
		if count == 0 && !exponent {
			return 0, 0, invalid
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, 0, "invalid float"
		}
		return model.Float, math.Float64bits(f), ""
	case points > 0 || exponent || count == 0 || b[len(b)-1] != suffix:
		return 0, 0, invalid
	case suffix == 'i':
		v, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
		if err != nil {
			return 0, 0, fmt.Sprintf("unable to parse integer %s: %s", text[:len(text)-1], err)
		}
		return model.Integer, uint64(v), ""
	case len(digits) < len(b):
		return 0, 0, invalid
	}
	v, err := strconv.ParseUint(text[:len(text)-1], 10, 64)
	if err != nil {
		return 0, 0, fmt.Sprintf("unable to parse unsigned %s: %s", text[:len(text)-1], err)
	}
	return model.Unsigned, v, ""
}

// notFinite reads the bits of a float that is NaN or infinite: 0x and 16 hexadecimal
// digits. InfluxDB has no spelling of these values.
func notFinite(b []byte) (bits uint64, ok bool) {
	if len(b) != len("0x7ff0000000000002") || b[0] != '0' || b[1] != 'x' {
		return 0, false
	}
	bits, err := strconv.ParseUint(string(b[2:]), 16, 64)
	f := math.Float64frombits(bits)
	return bits, err == nil && f-f != 0
}

// booleanText reads a whole boolean value.
func booleanText(b []byte) (value uint64, ok bool) {
	value, size := boolean(load(b, 0))
	return value, size > 0 && size == len(b)
}
