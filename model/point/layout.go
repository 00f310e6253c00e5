package point

import (
	"encoding/binary"
	"strings"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Layout is an ordered list of the fields on a line of one measurement. Layouts are interned by the parser's table: the same
// measurement, fields and order give the same pointer, so a layout is checked
// once per batch and shard, not once per row. No field key occurs twice.
type Layout struct {
	Measurement string
	Fields      []column.Field

	number    uint32 // in its table; 0 when not interned
	signature string
	wire      []WireField
}

// WireField is how a field of a layout begins on a line: its key and "=". The
// words are parts of Prefix, little-endian, so that a parser can compare them
// without a call: First its first 8 bytes (under Mask, if it is shorter), Last
// the last 8 and Middle the 8 before those, where it is as long.
type WireField struct {
	Prefix                    string
	First, Mask, Middle, Last uint64
	Type                      model.FieldType
}

// Wire returns what a line of this layout looks like, with spaces, commas and
// equals signs of keys escaped, or nil when a key cannot be recognised by
// comparing bytes (it holds backslashes, quotes or control characters, which
// have more than one spelling or a meaning on a line).
func (l *Layout) Wire() []WireField { return l.wire }

func newLayout(signature, measurement string, fields []column.Field) *Layout {
	l := &Layout{Measurement: strings.Clone(measurement), Fields: make([]column.Field, len(fields)), signature: signature}
	wire := make([]WireField, len(fields))
	recognised := true
	for i, f := range fields {
		w := &wire[i]
		w.Prefix, w.Type = escapedKey.Replace(f.Key)+"=", f.Type
		l.Fields[i] = column.Field{Key: w.Prefix[:len(w.Prefix)-1], Type: f.Type}
		if l.Fields[i].Key != f.Key {
			l.Fields[i].Key = strings.Clone(f.Key)
		}
		recognised = recognised && recognisable(f.Key)
		w.First, w.Mask = word(w.Prefix), ^uint64(0)
		n := len(w.Prefix)
		if n < 8 {
			w.Mask = 1<<(8*n) - 1
		} else {
			w.Last = word(w.Prefix[n-8:])
		}
		if n >= 16 {
			w.Middle = word(w.Prefix[n-16:])
		}
	}
	if recognised {
		l.wire = wire
	}
	return l
}

// word returns the first 8 bytes of s, zeros behind its end.
func word(s string) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.LittleEndian.Uint64(b[:])
}

var escapedKey = strings.NewReplacer(" ", `\ `, ",", `\,`, "=", `\=`)

func recognisable(key string) bool {
	for i := 0; i < len(key); i++ {
		if c := key[i]; c < ' ' || c == '\\' || c == '"' {
			return false
		}
	}
	return key != ""
}

// Interned reports whether the layout is its table's, so that equal ones are the
// same pointer and what remembers it by pointer is bounded.
func (l *Layout) Interned() bool { return l.number != 0 }

// Signature returns a text that equal layouts, and no others, have: the
// measurement and the fields with their types in their order.
func (l *Layout) Signature() string {
	if l.signature != "" {
		return l.signature
	}
	return string(appendSignature(nil, l.Measurement, l.Fields))
}

// Bytes estimates the layout's memory.
func (l *Layout) Bytes() int64 {
	n := int64(unsafe.Sizeof(*l)) + int64(len(l.Measurement)+len(l.signature))
	for i := range l.Fields {
		n += int64(unsafe.Sizeof(column.Field{})+unsafe.Sizeof(WireField{})) + int64(len(l.Fields[i].Key)+1)
	}
	return n
}
