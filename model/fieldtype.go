package model

import (
	"fmt"
	"math"
)

// FieldType is the type of a field's values. The numbers are part of the file
// formats and must not change.
type FieldType uint8

// The field types of line protocol. Unknown is the zero value and never stored.
const (
	Unknown  FieldType = 0
	Float    FieldType = 1
	Integer  FieldType = 2
	Unsigned FieldType = 3
	String   FieldType = 4
	Boolean  FieldType = 5
)

// String returns the name clients see: float, integer, unsigned, string, boolean.
func (t FieldType) String() string {
	switch t {
	case Float:
		return "float"
	case Integer:
		return "integer"
	case Unsigned:
		return "unsigned"
	case String:
		return "string"
	case Boolean:
		return "boolean"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("FieldType(%d)", uint8(t))
}

// Valid reports whether t is one of the five stored types.
func (t FieldType) Valid() bool { return t >= Float && t <= Boolean }

// Numeric reports whether values of t take part in arithmetic.
func (t FieldType) Numeric() bool { return t >= Float && t <= Unsigned }

// Less compares two values of a type given as words: a number's bits, 0 or 1 of a boolean.
func (t FieldType) Less(a, b uint64) bool {
	switch t {
	case Float:
		return math.Float64frombits(a) < math.Float64frombits(b)
	case Integer:
		return int64(a) < int64(b)
	}
	return a < b
}
