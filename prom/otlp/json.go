package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	jsoniter "github.com/json-iterator/go"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// JSONError reports JSON that is not a request.
type JSONError struct{ Reason string }

func (e *JSONError) Error() string { return "JSON" + e.Reason }

// FromJSON appends a request in JSON to dst as protobuf. Unknown fields are left out.
// An error is a *JSONError, or an error of charge, which takes memory for what dst
// gets.
//
// The form differs from the JSON of package protojson: the ids of exemplars are
// hexadecimal. A message in memory, as protojson makes it, would take many times the
// bytes of the text.
func FromJSON(dst, text []byte, charge func(bytes int) error) ([]byte, error) {
	if !json.Valid(text) {
		return dst, invalid(text)
	}
	r := reader{in: jsoniter.ParseBytes(jsoniter.ConfigDefault, text), dst: dst, charge: charge}
	// MetricsData has the fields of an ExportMetricsServiceRequest.
	r.object((*metrics.MetricsData)(nil).ProtoReflect().Descriptor())
	return r.dst, r.err
}

// invalid returns the error of a text that is not JSON.
func invalid(text []byte) error {
	err := json.Unmarshal(text, new(struct{}))
	at := int64(len(text))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = syntax.Offset
	}
	return &JSONError{fmt.Sprintf(" at byte %d: %v", at, err)}
}

// reader turns valid JSON into protobuf. The generated code of OTLP says which fields
// there are.
type reader struct {
	in     *jsoniter.Iterator
	dst    []byte
	charge func(bytes int) error
	paid   int
	field  string // the name of the latest field, for errors
	err    error  // the first one
}

func (r *reader) fail(format string, args ...any) {
	if r.err != nil {
		return
	}
	reason := ": " + fmt.Sprintf(format, args...)
	if r.field != "" {
		reason = ": " + r.field + reason
	}
	r.err = &JSONError{reason}
}

// object appends the fields of an object as those of a message. A null is an absent
// field.
func (r *reader) object(message protoreflect.MessageDescriptor) {
	if r.in.WhatIsNext() != jsoniter.ObjectValue {
		r.fail("%s must be an object", message.Name())
		return
	}
	known := message.Fields()
	r.in.ReadObjectCB(func(_ *jsoniter.Iterator, name string) bool {
		f := known.ByJSONName(name)
		if f == nil {
			r.in.Skip()
			return true
		}
		r.field = name
		switch {
		case r.in.ReadNil():
		case !f.IsList():
			r.value(f)
		case r.in.WhatIsNext() != jsoniter.ArrayValue:
			r.fail("must be an array")
		default:
			r.in.ReadArrayCB(func(*jsoniter.Iterator) bool {
				r.field = name
				r.value(f)
				return r.err == nil
			})
		}
		return r.err == nil
	})
	if err := r.in.Error; err != nil {
		r.fail("%v", err)
	}
}

// chargeBytes is the least that reader charges at a time.
const chargeBytes = 64 << 10

// reserved is how many bytes the length of a message takes.
const reserved = 5

// value appends a field with one value.
func (r *reader) value(f protoreflect.FieldDescriptor) {
	if n := len(r.dst) - r.paid; n > 0 {
		n = max(n, chargeBytes)
		if r.err = r.charge(n); r.err != nil {
			return
		}
		r.paid += n
	}
	switch f.Kind() {
	case protoreflect.MessageKind:
		r.dst = protowire.AppendTag(r.dst, f.Number(), protowire.BytesType)
		at := len(r.dst)
		r.dst = append(r.dst, make([]byte, reserved)...)
		r.object(f.Message())
		for i, n := 0, len(r.dst)-at-reserved; i < reserved; i, n = i+1, n>>7 {
			r.dst[at+i] = byte(n&0x7f) | 0x80
		}
		r.dst[at+reserved-1] &= 0x7f
	case protoreflect.StringKind:
		r.dst = protowire.AppendString(protowire.AppendTag(r.dst, f.Number(), protowire.BytesType), r.text())
	case protoreflect.BytesKind:
		r.dst = protowire.AppendBytes(protowire.AppendTag(r.dst, f.Number(), protowire.BytesType), r.bytes(f))
	case protoreflect.DoubleKind:
		r.dst = protowire.AppendFixed64(protowire.AppendTag(r.dst, f.Number(), protowire.Fixed64Type), math.Float64bits(r.double()))
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		r.dst = protowire.AppendFixed64(protowire.AppendTag(r.dst, f.Number(), protowire.Fixed64Type), r.integer())
	default:
		r.dst = protowire.AppendVarint(protowire.AppendTag(r.dst, f.Number(), protowire.VarintType), r.varint(f))
	}
}

// varint reads a value that is a varint in protobuf.
func (r *reader) varint(f protoreflect.FieldDescriptor) uint64 {
	switch f.Kind() {
	case protoreflect.BoolKind:
		if r.in.WhatIsNext() != jsoniter.BoolValue {
			r.fail("must be true or false")
			return 0
		}
		return protowire.EncodeBool(r.in.ReadBool())
	case protoreflect.EnumKind:
		text := r.number()
		if v := f.Enum().Values().ByName(protoreflect.Name(text)); v != nil {
			return uint64(v.Number())
		}
		return r.parseInteger(text)
	case protoreflect.Sint32Kind:
		n := int64(r.integer())
		if n != int64(int32(n)) {
			r.fail("%d does not fit in 32 bits", n)
		}
		return protowire.EncodeZigZag(n)
	}
	return r.integer()
}

// number returns the text of a number, which may be in a string.
func (r *reader) number() string {
	switch r.in.WhatIsNext() {
	case jsoniter.StringValue:
		return r.in.ReadString()
	case jsoniter.NumberValue:
		return string(r.in.ReadNumber())
	}
	r.fail("must be a number")
	return ""
}

// integer reads an integer of 64 bits with or without a sign.
func (r *reader) integer() uint64 { return r.parseInteger(r.number()) }

func (r *reader) parseInteger(text string) uint64 {
	if v, err := strconv.ParseUint(text, 10, 64); err == nil {
		return v
	}
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return uint64(v)
	}
	// 1e3 and 1.0 are integers too.
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || v != math.Trunc(v) || v < -1<<63 || v >= 1<<64:
		r.fail("%.40q is not an integer of 64 bits", text)
	case v < 0:
		return uint64(int64(v))
	}
	return uint64(v)
}

func (r *reader) double() float64 {
	text := r.number()
	v, err := strconv.ParseFloat(text, 64) // it knows NaN and Infinity
	if err != nil {
		r.fail("%.40q is not a number", text)
	}
	return v
}

// text reads a string. Bytes that are not UTF-8 are replaced.
func (r *reader) text() string {
	if r.in.WhatIsNext() != jsoniter.StringValue {
		r.fail("must be a string")
		return ""
	}
	return strings.ToValidUTF8(r.in.ReadString(), "\uFFFD")
}

// bytes reads an id in hexadecimal or other bytes in base64, of either alphabet and with
// or without padding. A malformed id counts as none.
func (r *reader) bytes(f protoreflect.FieldDescriptor) []byte {
	text := r.text()
	if f.Name() == "trace_id" || f.Name() == "span_id" {
		if b, err := hex.DecodeString(text); err == nil {
			return b
		}
		return nil
	}
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		r.fail("is not base64")
	}
	return b
}
