package csv

import (
	stdcsv "encoding/csv"
	"fmt"
	"strings"
)

// kind is what the cells of a column are.
type kind uint8

const (
	guessed kind = iota // not known yet
	skip
	measurement
	tag
	tagList // all tags in one cell, as InfluxDB 1.x writes them
	timestamp
	fieldName // of the value in another column
	float
	integer
	unsigned
	boolean
	text
)

// kinds are the names of kinds in Options.Columns.
var kinds = map[string]kind{
	"skip": skip, "measurement": measurement, "tag": tag, "time": timestamp,
	"float": float, "integer": integer, "unsigned": unsigned, "boolean": boolean, "string": text,
}

// String returns the name of a kind in Options.Columns.
func (k kind) String() string {
	for name, other := range kinds {
		if other == k {
			return name
		}
	}
	return "skip"
}

// column is a column of a table.
type column struct {
	name   string
	kind   kind
	value  bool   // its field is named by another column
	prefix []byte // what a line has before the value of the field
	empty  []byte // the value of an empty cell
	clock  Clock
}

// parseColumns reads Options.Columns.
func parseColumns(list string) ([]column, error) {
	if list == "" {
		return nil, nil
	}
	parts, err := stdcsv.NewReader(strings.NewReader(list)).ReadAll()
	if err != nil || len(parts) != 1 {
		return nil, fmt.Errorf("columns %q are not one list with commas", list)
	}
	var columns []column
	for _, part := range parts[0] {
		c := column{name: strings.TrimSpace(part)}
		if i := strings.LastIndexByte(c.name, ':'); i >= 0 {
			name, ok := c.name[i+1:], false
			if c.kind, ok = kinds[name]; !ok {
				return nil, fmt.Errorf("column %q has the type %q, which is none of float, integer, unsigned, boolean, string, tag, time, measurement, skip", c.name[:i], name)
			}
			c.name = c.name[:i]
		}
		if c.name == "" && c.kind != skip {
			return nil, fmt.Errorf("columns %q contain one without a name", list)
		}
		for _, other := range columns {
			if other.name == c.name && c.name != "" {
				return nil, fmt.Errorf("columns %q contain %q twice", list, c.name)
			}
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// ColumnTypes reads a list as in Options.Columns into types by name. A column without a type
// has the type "".
func ColumnTypes(list string) (map[string]string, error) {
	columns, err := parseColumns(list)
	types := map[string]string{}
	for _, c := range columns {
		types[c.name] = ""
		if c.kind != guessed {
			types[c.name] = c.kind.String()
		}
	}
	return types, err
}

// formatColumns writes columns for Options.Columns, without those that the dialect
// knows.
func formatColumns(columns []column) string {
	var b strings.Builder
	w := stdcsv.NewWriter(&b)
	var parts []string
	for _, c := range columns {
		switch c.kind {
		case tagList, fieldName:
		case guessed:
			parts = append(parts, c.name)
		default:
			parts = append(parts, c.name+":"+c.kind.String())
		}
	}
	_ = w.Write(parts) // into memory
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
