package compare

import (
	"fmt"
	"strconv"
)

// Float is a float64 that JSON can hold whatever its value: as text.
type Float float64

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatFloat(float64(f), 'g', -1, 64)), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Float) UnmarshalJSON(b []byte) error {
	text, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("read %s: %w", b, err)
	}
	v, err := strconv.ParseFloat(text, 64)
	*f = Float(v)
	return err
}
