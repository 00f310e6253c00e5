package csv

import (
	"bytes"
	"errors"
	"fmt"
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
	booleans                         int
	long                             bool
	values                           map[string]bool
	time                             int64 // the first whole number that is not 0
}

func (s *sample) add(cell []byte) {
	if len(s.values) <= tagValues {
		s.values[string(cell)] = true
	}
	s.long = s.long || len(cell) > tagLength || bytes.ContainsAny(cell, "\r\n")
	cell = bytes.TrimSpace(cell)
	if len(cell) == 0 {
		return
	}
	s.cells++
	if n, err := strconv.ParseInt(string(cell), 10, 64); err == nil {
		s.wholes++
		if s.time == 0 {
			s.time = n
		}
	}
	if _, err := strconv.ParseUint(string(cell), 10, 64); err == nil {
		s.naturals++
	}
	if _, ok := parseFloat(cell); ok {
		s.numbers++
	}
	switch strings.ToLower(string(cell)) {
	case "true", "false":
		s.booleans++
	}
	if isDate(cell) {
		s.dates++
	}
}

// kind returns what a column with the sample is. A column without any value is a float,
// which refuses texts.
func (s *sample) kind(value bool) kind {
	switch s.cells {
	case s.wholes:
		if s.cells == 0 {
			return float
		}
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

// unit returns the unit of times by the size of one of them.
func (s *sample) unit() int64 {
	switch n := max(s.time, -s.time); {
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
func (d *Reader) guess(t *table) error {
	kinds, times := false, false
	for i := range t.columns {
		c := &t.columns[i]
		if c.kind == timestamp && c.clock == (clock{}) && d.clock != nil {
			c.clock = *d.clock
		}
		kinds = kinds || c.kind == guessed
		times = times || c.kind == timestamp && c.clock == (clock{})
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
	for i := range t.columns {
		c, s := &t.columns[i], &samples[i]
		if c.kind == guessed {
			c.kind = s.kind(c.value)
		}
		if c.kind != timestamp || c.clock != (clock{}) {
			continue
		}
		switch {
		case d.clock != nil:
			c.clock = *d.clock
		case s.dates > 0:
			c.clock = clock{texts: true, zone: d.zone}
		case d.unit > 0:
			c.clock = clock{unit: d.unit}
		default:
			c.clock = clock{unit: s.unit()}
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
	}
	return nil
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
func (d *Reader) sample(t *table) (samples []sample, n int, err error) {
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
		var refused *RowError
		switch {
		case errors.As(err, &refused):
			continue
		case err != nil:
			return samples, n, nil // reading the rows themselves reports it
		}
		if _, is := annotation(s.cells[0]); is && t.annotated || t.answer && isAnswer(s.cells) {
			return samples, n, nil
		}
		if len(s.cells) != len(t.columns) || t.isHeader(s.cells) {
			continue
		}
		n++
		for i, cell := range s.cells {
			samples[i].add(cell)
		}
	}
	return samples, n, nil
}
