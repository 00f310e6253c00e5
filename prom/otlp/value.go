package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// The fields of an AnyValue.
const (
	stringValue = iota + 1
	boolValue
	intValue
	doubleValue
	arrayValue
	listValue
	bytesValue
)

// maxDepth bounds how deep values may contain values, and maxTree the bytes of a
// value that contains others.
const (
	maxDepth = 64
	maxTree  = 1 << 20
)

var (
	errDepth = errors.New("is nested too deep")
	errLong  = errors.New("is too long")
)

// text returns the value of an attribute as the value of a label: the text of a
// scalar, base64 of bytes, or JSON of an array or of a list of keys and values.
func text(value []byte) (string, error) {
	f := read(value, "AnyValue")
	var s string
	for f.Next() { // the last one is in force
		switch f.Field {
		case stringValue:
			s = f.text()
		case boolValue:
			s = strconv.FormatBool(f.varint() != 0)
		case intValue:
			s = strconv.FormatInt(int64(f.varint()), 10)
		case doubleValue:
			s = double(f.double())
		case bytesValue:
			s = base64.StdEncoding.EncodeToString(f.message())
		case arrayValue, listValue:
			if len(value) > maxTree {
				return "", errLong
			}
			v, err := tree(value, 0)
			if err != nil {
				return "", err
			}
			return document(v)
		}
	}
	return s, f.Err
}

// double returns a number as JSON has it, and a name for others.
func double(v float64) string {
	if name := unnumber(v); name != "" {
		return name
	}
	b, _ := json.Marshal(v) // a finite number
	return string(b)
}

// unnumber returns the name of a float that JSON has no number for.
func unnumber(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return ""
}

// document returns a tree as JSON. Keys are in order.
func document(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// tree returns an AnyValue as a value of package json.
func tree(value []byte, depth int) (v any, err error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	f := read(value, "AnyValue")
	for f.Next() {
		switch f.Field {
		case stringValue:
			v = f.text()
		case boolValue:
			v = f.varint() != 0
		case intValue:
			v = int64(f.varint())
		case doubleValue:
			v = f.double()
			if name := unnumber(f.double()); name != "" {
				v = name
			}
		case bytesValue:
			v = nil // of no bytes, as Prometheus has it
			if b := f.message(); len(b) > 0 {
				v = b
			}
		case arrayValue:
			v, err = array(f.message(), depth)
		case listValue:
			v, err = list(f.message(), depth)
		}
		if err != nil {
			return nil, err
		}
	}
	return v, f.Err
}

// array returns an ArrayValue.
func array(b []byte, depth int) ([]any, error) {
	all := []any{}
	err := each(b, "ArrayValue", 1, func(b []byte) error {
		v, err := tree(b, depth+1)
		all = append(all, v)
		return err
	})
	return all, err
}

// list returns a KeyValueList. The last value of a key is in force.
func list(b []byte, depth int) (map[string]any, error) {
	all := map[string]any{}
	err := each(b, "KeyValueList", 1, func(b []byte) error {
		key, value, err := pair(b)
		if err != nil {
			return err
		}
		all[key], err = tree(value, depth+1)
		return err
	})
	return all, err
}

// pair returns the key and the AnyValue of a KeyValue.
func pair(b []byte) (key string, value []byte, err error) {
	f := read(b, "KeyValue")
	for f.Next() {
		switch f.Field {
		case 1:
			key = f.text()
		case 2:
			value = f.message()
		}
	}
	return key, value, f.Err
}
