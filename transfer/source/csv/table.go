package csv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
)

// table is what rows of the same columns have in common.
type table struct {
	head      []byte
	columns   []column
	annotated bool
	typed     bool // annotations name the measurement, so that no name of a column has a meaning
	answer    bool // of InfluxDB 1.x
	failure   bool // of a query, in place of its rows
	open      bool // a column had no value yet
	comma     bool // numbers have a decimal comma

	// What all rows have.
	measurement string
	tags        model.Tags
	fields      []byte // each with a comma before it
	time        *int64

	// Texts of lines by what the cells say. A series is known by all its cells, each
	// with its length.
	series   map[string][]byte
	prefixes map[string][]byte // of fields that a column names
	key      []byte            // of the present row
	latest   []byte            // key of the latest series
	line     []byte            // its text
}

// maxKnown bounds the series, and the fields, that a table remembers.
const maxKnown = 64 << 10

// isHeader returns whether a row repeats the header.
func (t *table) isHeader(cells [][]byte) bool {
	if len(t.head) == 0 || len(cells) != len(t.columns) {
		return false
	}
	for i, c := range cells {
		if string(bytes.TrimSpace(c)) != t.columns[i].name {
			return false
		}
	}
	return true
}

// complete guesses what is not known about a table and begins it.
func (d *reader) complete(t *table) error {
	d.table = t
	t.comma = d.opt.DecimalComma
	if t.failure {
		return nil
	}
	for i := range t.columns {
		if c := &t.columns[i]; c.kind == measurement && d.opt.Measurement != "" {
			c.kind = skip
		}
	}
	if d.opt.Measurement != "" {
		t.measurement = d.opt.Measurement
	}
	if err := d.guess(t); err != nil {
		return err
	}
	count := map[kind]int{}
	values, fields := 0, 0
	type identity struct {
		name string
		tag  bool
	}
	names := map[identity]bool{}
	for i := range t.columns {
		c := &t.columns[i]
		count[c.kind]++
		t.open = t.open || c.kind == guessed
		if c.kind >= float || c.kind == guessed {
			fields++
			if c.value {
				values++
				continue
			}
			var reason string
			if c.prefix, reason = fieldPrefix(c.name); reason != "" {
				return fmt.Errorf("column %q: %s", c.name, reason)
			}
		}
		id := identity{c.name, t.typed && c.kind == tag}
		if c.kind == skip || t.typed && c.kind == measurement {
			continue
		}
		if names[id] {
			return fmt.Errorf("two columns have the name %q", c.name)
		}
		names[id] = true
	}
	switch {
	case t.measurement == "" && count[measurement] == 0:
		return errors.New("no column has the measurement: name it with -measurement NAME or -columns COLUMN:measurement")
	case count[measurement] > 1:
		return errors.New("two columns have the measurement")
	case t.time == nil && count[timestamp] == 0:
		return errors.New("no column has the time: name it with -columns COLUMN:time")
	case count[timestamp] > 1:
		return errors.New("two columns have the time")
	case values > 1 || count[fieldName] > 1:
		return errors.New("two columns have the name or the value of the field")
	case (count[fieldName] == 0) != (values == 0):
		return errors.New("the columns _field and _value belong together")
	case fields == 0 && len(t.fields) == 0:
		return errors.New("no column is a field: name one with -columns, for example COLUMN:float or COLUMN:string")
	}
	t.series, t.prefixes = map[string][]byte{}, map[string][]byte{}
	return nil
}

// fieldPrefix returns what stands before the value of a field, or the reason why there
// cannot be such a field.
func fieldPrefix(name string) ([]byte, string) {
	if name == "time" {
		return nil, "a field cannot have the name time"
	}
	if reason := model.UnstorableField(name); reason != "" {
		return nil, fmt.Sprintf("the name of the field %s", reason)
	}
	return []byte(wire.FieldPrefix(name)), ""
}

// appendLine appends the line of a row, or returns the reason why it has none.
// quoted says which cells were in quotes, nil for none.
func (t *table) appendLine(dst []byte, cells [][]byte, quoted []bool) (line []byte, reason string) {
	if len(cells) != len(t.columns) {
		return dst, fmt.Sprintf("the row has %d cells, and the table has %d columns", len(cells), len(t.columns))
	}
	t.key = t.key[:0]
	var name []byte
	for i := range t.columns {
		c := &t.columns[i]
		if len(cells[i]) == 0 && !t.emptyText(i, quoted) {
			cells[i] = c.empty
		}
		switch c.kind {
		case measurement, tag, tagList:
			t.key = append(binary.AppendUvarint(t.key, uint64(len(cells[i]))), cells[i]...)
		case fieldName:
			name = cells[i]
		}
	}
	if t.line == nil || !bytes.Equal(t.key, t.latest) {
		if reason = t.find(cells); reason != "" {
			return dst, reason
		}
	}
	dst = append(dst, t.line...)
	begin := len(dst)
	dst = append(dst, t.fields...)
	at := t.time
	var now int64
	for i := range t.columns {
		c := &t.columns[i]
		cell := cells[i]
		switch {
		case c.kind == timestamp:
			if len(cell) == 0 && at != nil {
				continue
			}
			if t.comma && c.clock.unit > 0 && !isDate(cell) {
				if cell, reason = decimal(cell); reason != "" {
					return dst, fmt.Sprintf("column %s: %s", c.name, reason)
				}
			}
			if now, reason = c.clock.Read(cell); reason != "" {
				return dst, fmt.Sprintf("column %s: %s", c.name, reason)
			}
			at = &now
			continue
		case c.kind < float || len(cell) == 0 && !t.emptyText(i, quoted):
			continue
		}
		prefix := c.prefix
		if c.value {
			if prefix, reason = t.prefix(name); reason != "" {
				return dst, reason
			}
		}
		dst = append(append(dst, ','), prefix...)
		if c.kind == float && t.comma {
			if cell, reason = decimal(cell); reason != "" {
				return dst, fmt.Sprintf("column %s: %s", c.name, reason)
			}
		}
		if c.kind == float && t.annotated {
			if f, ok := readFloat(cell); ok {
				dst = wire.AppendFloat(dst, f)
				continue
			}
		}
		if dst, reason = appendValue(dst, c.kind, cell); reason != "" {
			return dst, fmt.Sprintf("column %s: %s", c.name, reason)
		}
	}
	if len(dst) == begin {
		return dst, "the row has no value"
	}
	dst[begin] = ' '
	return wire.AppendTime(dst, *at), ""
}

// emptyText returns whether an empty cell is a text: it is in quotes, and the annotations
// say that the column has texts. Without them quotes say nothing, because many programs
// write all cells in quotes.
func (t *table) emptyText(i int, quoted []bool) bool {
	return t.annotated && i < len(quoted) && quoted[i] && t.columns[i].kind == text
}

// prefix returns what stands before the value of a field that a cell names.
func (t *table) prefix(name []byte) ([]byte, string) {
	if p := t.prefixes[string(name)]; p != nil {
		return p, ""
	}
	p, reason := fieldPrefix(string(name))
	if reason != "" {
		return nil, "column _field: " + reason
	}
	if len(t.prefixes) >= maxKnown {
		clear(t.prefixes)
	}
	t.prefixes[string(name)] = p
	return p, ""
}

// find sets t.line to the text of the series of a row.
func (t *table) find(cells [][]byte) (reason string) {
	line := t.series[string(t.key)]
	if line == nil {
		if line, reason = t.makeSeries(cells); reason != "" {
			return reason
		}
		if len(t.series) >= maxKnown {
			clear(t.series)
		}
		t.series[string(t.key)] = line
	}
	t.line, t.latest = line, append(t.latest[:0], t.key...)
	return ""
}

func (t *table) makeSeries(cells [][]byte) ([]byte, string) {
	name, tags := t.measurement, append(model.Tags{}, t.tags...)
	for i, c := range t.columns {
		cell := string(cells[i])
		switch {
		case c.kind == measurement && (cell != "" || name == ""):
			name = cell
		case c.kind == tag && cell != "":
			tags = append(tags, model.Tag{Key: c.name, Value: cell})
		case c.kind == tagList && cell != "":
			more, reason := splitTags(cell)
			if reason != "" {
				return nil, reason
			}
			tags = append(tags, more...)
		}
	}
	tags.Sort()
	if reason := model.Unstorable(name, tags); reason != "" {
		return nil, reason
	}
	return wire.AppendSeries(nil, string(model.AppendSeriesKey(nil, name, tags))), ""
}

// splitTags takes the tags column of InfluxDB 1.x apart, in which nothing is escaped: a
// part without = belongs to the value before it.
func splitTags(list string) (tags model.Tags, reason string) {
	for part := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(part, "=")
		switch {
		case ok:
			tags = append(tags, model.Tag{Key: key, Value: value})
		case len(tags) == 0:
			return nil, fmt.Sprintf("column tags: %.100q does not begin with KEY=VALUE", list)
		default:
			tags[len(tags)-1].Value += "," + part
		}
	}
	return tags, ""
}
