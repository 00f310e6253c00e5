package csv

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The bounds of the sample of a table, and of texts that are taken for tags.
const (
	sampleRows  = 1000
	sampleBytes = 1 << 20
	tagLength   = 64
	tagValues   = 100
)

// sample is what the first rows have in a column.
type sample struct {
	cells                            int // that are not empty
	dates, wholes, naturals, numbers int
	booleans, commas                 int // commas: numbers if a comma begins their fraction
	long                             bool
	values                           map[string]bool
	largest                          float64 // number, without its sign
}

func (s *sample) add(cell []byte, comma bool) {
	if len(s.values) <= tagValues {
		s.values[string(cell)] = true
	}
	s.long = s.long || len(cell) > tagLength || bytes.ContainsAny(cell, "\r\n")
	cell = bytes.TrimSpace(cell)
	if len(cell) == 0 {
		return
	}
	s.cells++
	if _, err := strconv.ParseInt(string(cell), 10, 64); err == nil {
		s.wholes++
	}
	if _, err := strconv.ParseUint(string(cell), 10, 64); err == nil {
		s.naturals++
	}
	number := cell
	if other, ok := pointed(cell); comma {
		number = other // nil is none
	} else if _, is := parseFloat(other); ok && is && bytes.IndexByte(cell, ',') >= 0 {
		s.commas++
	}
	if f, ok := parseFloat(number); ok {
		s.numbers++
		s.largest = max(s.largest, math.Abs(f))
	}
	switch strings.ToLower(string(cell)) {
	case "true", "false":
		s.booleans++
	}
	if isDate(cell) {
		s.dates++
	}
}

// kind returns what a column with the sample is, guessed for a column without any value.
func (s *sample) kind(value bool) kind {
	switch s.cells {
	case 0:
		return guessed
	case s.wholes:
		return integer
	case s.naturals:
		return unsigned
	case s.numbers:
		return float
	case s.booleans:
		return boolean
	}
	if value || s.long || len(s.values) > tagValues {
		return text
	}
	return tag
}

// unit returns the unit of times by the size of the largest. A column without any time
// other than 0 has nanoseconds.
func (s *sample) unit() int64 {
	switch n := s.largest; {
	case n < 1e11 && n > 0:
		return 1e9
	case n < 1e14 && n > 0:
		return 1e6
	case n < 1e17 && n > 0:
		return 1e3
	}
	return 1
}

// guess finds the kinds of columns, and the form of times, that nobody has named, in the
// first rows of a table.
func (d *reader) guess(t *table) error {
	kinds, times := false, false
	for i := range t.columns {
		c := &t.columns[i]
		if c.kind == timestamp && c.clock == (Clock{}) && d.clock != nil {
			c.clock = *d.clock
		}
		kinds = kinds || c.kind == guessed
		times = times || c.kind == timestamp && c.clock == (Clock{})
	}
	if !kinds && !times {
		return nil
	}
	samples, n, err := d.sample(t)
	if err != nil {
		return err
	}
	if kinds && t.time == nil {
		nameTime(t.columns, samples)
	}
	unit := ""
	var commas []string
	for i := range t.columns {
		c, s := &t.columns[i], &samples[i]
		if c.kind == guessed {
			c.kind = s.kind(c.value)
			if s.commas > 0 && s.commas+s.numbers == s.cells {
				commas = append(commas, c.name)
			}
		}
		if c.kind != timestamp || c.clock != (Clock{}) {
			continue
		}
		switch {
		case d.clock != nil:
			c.clock = *d.clock
		case s.dates > 0:
			c.clock = Clock{texts: true, zone: d.zone}
		case d.unit > 0:
			c.clock = Clock{unit: d.unit}
		default:
			c.clock = Clock{unit: s.unit()}
			unit = " -time-format " + c.clock.String()
		}
	}
	report := "-columns '" + formatColumns(t.columns) + "'" + unit
	if !kinds {
		report = strings.TrimSpace(unit)
	}
	if d.opt.Report != nil && report != "" && report != d.reported {
		d.reported = report
		d.opt.Report(fmt.Sprintf("guessed from the first %d rows: %s", n, report))
		if len(commas) > 0 {
			d.opt.Report("numbers may have a decimal comma, which -decimal-comma reads: " + strings.Join(commas, ", "))
		}
	}
	return nil
}

// settle gives the columns a type that had no value in the first rows, at their first value. A
// number makes a float, because later ones may have a fraction.
func (d *reader) settle() {
	t := d.table
	if !t.open || len(d.rows.cells) != len(t.columns) {
		return
	}
	t.open = false
	for i := range t.columns {
		c := &t.columns[i]
		if c.kind != guessed {
			continue
		}
		s := sample{values: map[string]bool{}}
		if s.add(d.rows.cells[i], d.opt.DecimalComma); s.cells == 0 {
			t.open = true
			continue
		}
		switch k := s.kind(true); k {
		case integer, unsigned:
			c.kind = float
		default:
			c.kind = k
		}
		if d.opt.Report != nil {
			d.opt.Report(fmt.Sprintf("guessed from line %d: column %s has the type %s", d.rows.line, c.name, c.kind))
		}
	}
}

// nameTime makes the column that has the time one: by its name, or else by its dates.
func nameTime(columns []column, samples []sample) {
	if slices.ContainsFunc(columns, func(c column) bool { return c.kind == timestamp }) {
		return
	}
	for _, name := range []string{"time", "timestamp"} {
		for i := range columns {
			if c := &columns[i]; c.kind == guessed && strings.EqualFold(c.name, name) {
				c.kind = timestamp
				return
			}
		}
	}
	for i := range columns {
		if c, s := &columns[i], &samples[i]; c.kind == guessed && s.cells > 0 && s.dates == s.cells {
			c.kind = timestamp
			return
		}
	}
}

// sample looks at the first rows of a table and returns to them.
func (d *reader) sample(t *table) (samples []sample, n int, err error) {
	samples = make([]sample, len(t.columns))
	for i := range samples {
		samples[i].values = map[string]bool{}
	}
	s := d.rows
	s.setMark()
	line := s.line
	defer func() { s.rewind(); s.line = line }()
	for n < sampleRows && s.pos-s.mark < sampleBytes {
		err := s.read()
		var refused *rowError
		switch {
		case errors.As(err, &refused):
			continue
		case err != nil:
			return samples, n, nil // reading the rows themselves reports it
		}
		if _, is := annotation(s.cells[0]); is && t.annotated || t.answer && d.isAnswer(s.cells) {
			return samples, n, nil
		}
		if len(s.cells) != len(t.columns) || t.isHeader(s.cells) {
			continue
		}
		n++
		for i, cell := range s.cells {
			samples[i].add(cell, d.opt.DecimalComma)
		}
	}
	return samples, n, nil
}
