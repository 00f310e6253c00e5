package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// JSONError reports JSON that is not a request.
type JSONError struct {
	Offset int // in the text
	Reason string
}

func (e *JSONError) Error() string { return fmt.Sprintf("JSON at byte %d: %s", e.Offset, e.Reason) }

// FromJSON appends a request in JSON to dst as protobuf. Fields that are not known are
// left out. An error is a *JSONError, or an error of charge, which takes memory for
// what dst gets.
func FromJSON(dst, text []byte, charge func(bytes int) error) ([]byte, error) {
	if !json.Valid(text) {
		return dst, invalid(text)
	}
	r := reader{text: text, dst: dst, charge: charge}
	r.space()
	if err := r.object(rootMessage); err != nil {
		return dst, err
	}
	return r.dst, nil
}

// invalid returns the error of a text that is not JSON.
func invalid(text []byte) error {
	err := json.Unmarshal(text, new(struct{}))
	e := &JSONError{Offset: len(text), Reason: fmt.Sprint(err)}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		e.Offset = int(syntax.Offset)
	}
	return e
}

// reader turns JSON that is valid into protobuf.
type reader struct {
	text   []byte
	at     int
	dst    []byte
	charge func(bytes int) error
	paid   int
	field  string // the name of the latest field, for errors
}

func (r *reader) fail(format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	if r.field != "" {
		reason = r.field + ": " + reason
	}
	return &JSONError{Offset: r.at, Reason: reason}
}

func (r *reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			r.at++
		default:
			return
		}
	}
}

// null skips a null, which is a field that is absent.
func (r *reader) null() bool {
	if r.text[r.at] != 'n' {
		return false
	}
	r.at += len("null")
	return true
}

// object appends the fields of an object as those of a message.
func (r *reader) object(message string) error {
	if r.text[r.at] != '{' {
		return r.fail("%s must be an object", message)
	}
	known := schema[message]
	for r.at++; ; {
		if r.space(); r.text[r.at] == '}' {
			r.at++
			return nil
		}
		name, err := r.string()
		if err != nil {
			return err
		}
		r.space()
		m, ok := known[string(name)]
		if !ok {
			r.skip()
			continue
		}
		r.field = string(name)
		if r.null() {
			continue
		}
		if !m.list {
			err = r.value(m)
		} else {
			err = r.array(m)
		}
		if err != nil {
			return err
		}
	}
}

// array appends the elements of an array as a repeated field.
func (r *reader) array(m member) error {
	if r.text[r.at] != '[' {
		return r.fail("must be an array")
	}
	name := r.field
	for r.at++; ; {
		if r.space(); r.text[r.at] == ']' {
			r.at++
			return nil
		}
		r.field = name
		if err := r.value(m); err != nil {
			return err
		}
	}
}

// chargeBytes is the least that reader charges at a time.
const chargeBytes = 64 << 10

// reserved is how many bytes the length of a message takes.
const reserved = 5

// value appends a field with one value.
func (r *reader) value(m member) error {
	if n := len(r.dst) - r.paid; n > 0 {
		n = max(n, chargeBytes)
		if err := r.charge(n); err != nil {
			return err
		}
		r.paid += n
	}
	switch m.kind {
	case kindMessage:
		r.dst = protowire.AppendTag(r.dst, m.number, protowire.BytesType)
		at := len(r.dst)
		r.dst = append(r.dst, make([]byte, reserved)...)
		if err := r.object(m.message); err != nil {
			return err
		}
		for i, n := 0, len(r.dst)-at-reserved; i < reserved; i, n = i+1, n>>7 {
			r.dst[at+i] = byte(n&0x7f) | 0x80
		}
		r.dst[at+reserved-1] &= 0x7f
	case kindText, kindBytes, kindHex:
		s, err := r.string()
		if err == nil && m.kind == kindBytes {
			s, err = r.base64(s)
		}
		if m.kind == kindHex {
			s = decodeHex(s)
		}
		if err != nil {
			return err
		}
		r.dst = protowire.AppendBytes(protowire.AppendTag(r.dst, m.number, protowire.BytesType), s)
	case kindDouble:
		v, err := r.double()
		if err != nil {
			return err
		}
		r.dst = protowire.AppendFixed64(protowire.AppendTag(r.dst, m.number, protowire.Fixed64Type), math.Float64bits(v))
	case kindFixed:
		v, err := r.integer()
		if err != nil {
			return err
		}
		r.dst = protowire.AppendFixed64(protowire.AppendTag(r.dst, m.number, protowire.Fixed64Type), v)
	default:
		v, err := r.varint(m.kind)
		if err != nil {
			return err
		}
		r.dst = protowire.AppendVarint(protowire.AppendTag(r.dst, m.number, protowire.VarintType), v)
	}
	return nil
}

// varint reads a value that is a varint in protobuf.
func (r *reader) varint(k kind) (uint64, error) {
	switch r.text[r.at] {
	case 't':
		if k == kindBool {
			r.at += len("true")
			return 1, nil
		}
	case 'f':
		if k == kindBool {
			r.at += len("false")
			return 0, nil
		}
	}
	if k == kindBool {
		return 0, r.fail("must be true or false")
	}
	if k == kindTemporal && r.text[r.at] == '"' {
		begin := r.at
		if name, err := r.string(); err != nil {
			return 0, err
		} else if number, ok := temporalities[string(name)]; ok {
			return number, nil
		}
		r.at = begin
	}
	v, err := r.integer()
	if k == kindZigzag && err == nil {
		if n := int64(v); n < math.MinInt32 || n > math.MaxInt32 {
			return 0, r.fail("%d does not fit in 32 bits", n)
		}
		v = protowire.EncodeZigZag(int64(v))
	}
	return v, err
}

var temporalities = map[string]uint64{
	"AGGREGATION_TEMPORALITY_UNSPECIFIED": 0,
	"AGGREGATION_TEMPORALITY_DELTA":       delta,
	"AGGREGATION_TEMPORALITY_CUMULATIVE":  cumulative,
}

// number returns the text of a number, which may be in a string.
func (r *reader) number() ([]byte, error) {
	if r.text[r.at] == '"' {
		return r.string()
	}
	begin := r.at
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			r.at++
			continue
		}
		break
	}
	if begin == r.at {
		return nil, r.fail("must be a number")
	}
	return r.text[begin:r.at], nil
}

// integer reads an integer of 64 bits with or without a sign.
func (r *reader) integer() (uint64, error) {
	begin := r.at
	text, err := r.number()
	if err != nil {
		return 0, err
	}
	if v, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		return v, nil
	}
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return uint64(v), nil
	}
	// 1e3 and 1.0 are integers too.
	if v, err := strconv.ParseFloat(string(text), 64); err == nil && v == math.Trunc(v) && v >= -1<<63 && v < 1<<64 {
		if v < 0 {
			return uint64(int64(v)), nil
		}
		return uint64(v), nil
	}
	r.at = begin
	return 0, r.fail("%.40q is not an integer of 64 bits", text)
}

func (r *reader) double() (float64, error) {
	begin := r.at
	text, err := r.number()
	if err != nil {
		return 0, err
	}
	switch string(text) {
	case "NaN":
		return math.NaN(), nil
	case "Infinity":
		return math.Inf(1), nil
	case "-Infinity":
		return math.Inf(-1), nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, nil
	}
	r.at = begin
	return 0, r.fail("%.40q is not a number", text)
}

// string reads a string. It shares the memory of the text if it can.
func (r *reader) string() ([]byte, error) {
	if r.text[r.at] != '"' {
		return nil, r.fail("must be a string")
	}
	begin, plain := r.at, true
	for r.at++; r.text[r.at] != '"'; r.at++ {
		switch c := r.text[r.at]; {
		case c == '\\':
			plain = false
			r.at++
		case c >= utf8.RuneSelf:
			plain = false // may be invalid, which becomes valid
		}
	}
	r.at++
	s := r.text[begin+1 : r.at-1]
	if plain || utf8.Valid(s) && !escaped(s) {
		return s, nil
	}
	var text string
	if err := json.Unmarshal(r.text[begin:r.at], &text); err != nil {
		return nil, r.fail("%v", err)
	}
	return []byte(text), nil
}

func escaped(s []byte) bool {
	for _, c := range s {
		if c == '\\' {
			return true
		}
	}
	return false
}

// base64 decodes bytes. Both alphabets are known, with and without padding.
func (r *reader) base64(s []byte) ([]byte, error) {
	for len(s) > 0 && s[len(s)-1] == '=' {
		s = s[:len(s)-1]
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := e.AppendDecode(nil, s); err == nil {
			return b, nil
		}
	}
	return nil, r.fail("is not base64")
}

// decodeHex decodes an id. What is not hexadecimal is none.
func decodeHex(s []byte) []byte {
	b, err := hex.AppendDecode(nil, s)
	if err != nil {
		return nil
	}
	return b
}

// skip moves behind a value.
func (r *reader) skip() {
	for depth := 0; ; {
		switch r.text[r.at] {
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case '"':
			for r.at++; r.text[r.at] != '"'; r.at++ {
				if r.text[r.at] == '\\' {
					r.at++
				}
			}
			r.at++
		default: // a number or a word
			for r.at < len(r.text) && !delimits(r.text[r.at]) {
				r.at++
			}
		}
		if depth == 0 {
			return
		}
		r.space()
	}
}

func delimits(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return false
}
