package csv

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tsdbd/model"
)

// annotations are the rows before a header that begin with #.
type annotations struct {
	head      []byte
	types     []string
	groups    []string
	defaults  []string
	constants [][]string
	zone      *time.Location
}

// annotation returns the name of the annotation that a first cell begins, "" for a
// comment.
func annotation(cell []byte) (name string, is bool) {
	if len(cell) == 0 || cell[0] != '#' {
		return "", false
	}
	end := bytes.IndexAny(cell, " \t")
	if end < 0 {
		end = len(cell)
	}
	switch name = string(cell[1:end]); name {
	case "datatype", "group", "default", "constant", "timezone", "concat":
		return name, true
	case "":
		return "", true
	}
	return "", false
}

// add takes a row with an annotation.
func (a *annotations) add(name string, cells [][]byte, raw []byte) error {
	a.head = append(append(a.head, raw...), '\n')
	var values []string
	for _, c := range cells {
		values = append(values, string(c))
	}
	values[0] = strings.TrimSpace(values[0][1+len(name):])
	switch name {
	case "datatype":
		a.types = values
	case "group":
		a.groups = values
	case "default":
		a.defaults = values
	case "constant":
		a.constants = append(a.constants, slices.DeleteFunc(values, func(s string) bool { return s == "" }))
	case "timezone":
		zone, err := loadZone(strings.Join(values, ""))
		a.zone = zone
		return err
	case "concat":
		return errors.New("the annotation #concat is not supported")
	}
	return nil
}

// typeOf reads a type of an annotation: its kind, its clock, and the value of an empty
// cell.
func (d *reader) typeOf(name string, zone *time.Location) (c column, err error) {
	name, empty, _ := strings.Cut(name, "|")
	c.empty = []byte(empty)
	base, format, _ := strings.Cut(name, ":")
	switch base {
	case "measurement":
		c.kind = measurement
	case "tag":
		c.kind = tag
	case "ignore", "ignored":
		c.kind = skip
	case "double":
		c.kind = float
	case "long":
		c.kind = integer
	case "unsignedLong":
		c.kind = unsigned
	case "boolean":
		c.kind = boolean
	case "string":
		c.kind = text
	case "", "field":
		return c, nil
	case "dateTime", "time":
		c.kind = timestamp
		switch format {
		case "":
			c.clock = Clock{unit: max(d.unit, 1), texts: true, zone: zone}
		case "number":
			c.clock = Clock{unit: 1}
		default:
			c.clock, err = newClock(format, zone)
		}
		return c, err
	default:
		return c, fmt.Errorf("the type %q is not supported", name)
	}
	if format != "" {
		return c, fmt.Errorf("the type %q is not supported", name)
	}
	return c, nil
}

// table begins a table below its annotations.
func (a *annotations) table(header [][]byte, d *reader) (*table, error) {
	t := &table{annotated: true}
	zone := d.zone
	if a.zone != nil {
		zone = a.zone
	}
	for _, row := range []struct {
		name   string
		values []string
	}{{"datatype", a.types}, {"group", a.groups}, {"default", a.defaults}} {
		if row.values != nil && len(row.values) != len(header) {
			return nil, fmt.Errorf("the header has %d cells, and #%s has %d", len(header), row.name, len(row.values))
		}
	}
	result := len(header[0]) == 0
	for i, cell := range header {
		var c column
		if a.types != nil {
			var err error
			if c, err = d.typeOf(a.types[i], zone); err != nil {
				return nil, fmt.Errorf("column %q: %w", cell, err)
			}
		}
		c.name = string(bytes.TrimSpace(cell))
		if i < len(d.rows.quoted) && d.rows.quoted[i] {
			c.name = string(cell)
		}
		if a.defaults != nil && a.defaults[i] != "" {
			c.empty = []byte(a.defaults[i])
		}
		if a.groups != nil && a.groups[i] == "true" && (c.kind == text || c.kind == guessed) {
			c.kind = tag
		}
		t.columns = append(t.columns, c)
	}
	if t.typed = slices.ContainsFunc(t.columns, func(c column) bool { return c.kind == measurement }); !t.typed {
		queryColumns(t.columns, result)
	}
	for i := range t.columns {
		if t.columns[i].name == "" {
			t.columns[i].kind = skip
		}
	}
	t.failure = result && slices.ContainsFunc(t.columns, func(c column) bool { return c.name == "error" }) &&
		slices.ContainsFunc(t.columns, func(c column) bool { return c.name == "reference" })
	for _, c := range a.constants {
		if err := t.addConstant(c, d, zone); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// addConstant adds a value that all rows have: a type, a name, and the value. Measurements
// and times need no name.
func (t *table) addConstant(parts []string, d *reader, zone *time.Location) error {
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("the constant %q is not a type, a name, and a value", strings.Join(parts, ","))
	}
	c, err := d.typeOf(parts[0], zone)
	if err != nil {
		return fmt.Errorf("constant: %w", err)
	}
	c.name = parts[1]
	value := parts[len(parts)-1]
	if len(parts) == 2 && c.kind != measurement && c.kind != timestamp {
		return fmt.Errorf("the constant %q has no value", c.name)
	}
	reason := ""
	switch c.kind {
	case skip:
	case measurement:
		t.measurement = value
	case tag:
		t.tags = append(t.tags, model.Tag{Key: c.name, Value: value})
	case timestamp:
		var at int64
		at, reason = c.clock.Read([]byte(value))
		t.time = &at
	case guessed:
		return fmt.Errorf("the constant %q has no type", c.name)
	default:
		var prefix []byte
		if prefix, reason = fieldPrefix(c.name); reason == "" {
			t.fields = append(t.fields, ',')
			t.fields, reason = appendValue(append(t.fields, prefix...), c.kind, []byte(value))
		}
	}
	if reason != "" {
		return fmt.Errorf("constant %q: %s", c.name, reason)
	}
	return nil
}
