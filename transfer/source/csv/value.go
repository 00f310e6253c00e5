package csv

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tsdbd/lineproto/wire"
	stored "tsdbd/model/column"
)

// appendValue appends a cell as the value of a field, or returns the reason why it is
// none.
func appendValue(dst []byte, k kind, cell []byte) ([]byte, string) {
	if k == text {
		if len(cell) > stored.MaxStringLength {
			return dst, fmt.Sprintf("the string is longer than %d bytes", stored.MaxStringLength)
		}
		return wire.AppendString(dst, cell), ""
	}
	cell = bytes.TrimSpace(cell)
	switch k {
	case float:
		if isDecimal(cell) {
			return append(dst, cell...), ""
		}
		if f, ok := parseFloat(cell); ok {
			return wire.AppendFloat(dst, f), ""
		}
		return dst, notA(cell, "a number")
	case integer:
		if isWhole(cell) {
			return append(append(dst, cell...), 'i'), ""
		}
		n, err := strconv.ParseInt(string(cell), 10, 64)
		if err != nil {
			return dst, notA(cell, "an integer")
		}
		return wire.AppendInteger(dst, n), ""
	case unsigned:
		n, err := strconv.ParseUint(string(cell), 10, 64)
		if err != nil {
			return dst, notA(cell, "an unsigned integer")
		}
		return wire.AppendUnsigned(dst, n), ""
	default: // boolean
		v, err := strconv.ParseBool(string(cell))
		if err != nil {
			return dst, notA(cell, "true or false")
		}
		return wire.AppendBoolean(dst, v), ""
	}
}

// pointed returns a number with a decimal comma as one with a point. It returns false for a
// text that has a point or several commas.
func pointed(b []byte) ([]byte, bool) {
	i := bytes.IndexByte(b, ',')
	if bytes.IndexByte(b, '.') >= 0 || i >= 0 && bytes.IndexByte(b[i+1:], ',') >= 0 {
		return nil, false
	}
	if i < 0 {
		return b, true
	}
	b = bytes.Clone(b)
	b[i] = '.'
	return b, true
}

// decimal is pointed for a cell, with the reason why it is no number.
func decimal(cell []byte) ([]byte, string) {
	if b, ok := pointed(cell); ok {
		return b, ""
	}
	return nil, notA(cell, "a number with a decimal comma")
}

func notA(cell []byte, what string) string { return fmt.Sprintf("%q is not %s", short(cell), what) }

// isWhole returns whether a text is an integer of 64 bits as line protocol writes it.
// It may return false for one that is long.
func isWhole(b []byte) bool {
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 18
}

// isDecimal returns whether a text is a float as line protocol writes it, without an
// exponent. It may return false for one that is long.
func isDecimal(b []byte) bool {
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == 0 || len(b) > 40 {
		return false
	}
	if i == len(b) {
		return true
	}
	if b[i] != '.' || i+1 == len(b) {
		return false
	}
	for _, c := range b[i+1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func parseFloat(b []byte) (float64, bool) {
	if bytes.ContainsAny(b, "xX_") {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// canonicalNaN is the NaN that the text NaN stands for.
const canonicalNaN = 0x7ff8000000000001

// readFloat reads the texts of floats that are not finite: NaN, Inf, and 0x with the bits.
func readFloat(cell []byte) (f float64, ok bool) {
	if digits, ok := bytes.CutPrefix(cell, []byte("0x")); ok && len(digits) == 16 {
		bits, err := strconv.ParseUint(string(digits), 16, 64)
		return math.Float64frombits(bits), err == nil
	}
	switch strings.ToLower(string(cell)) {
	case "nan":
		return math.Float64frombits(canonicalNaN), true
	case "inf", "+inf", "-inf":
		f, err := strconv.ParseFloat(string(cell), 64)
		return f, err == nil
	}
	return 0, false
}
