package csv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tsdbd/exchange/rows"
	"tsdbd/transfer/mover"
)

// Options say what the input contains. The zero value works for input that says it
// itself.
type Options struct {
	// Columns names the columns as "time,host:tag,usage:float,x:skip", with the types
	// float, integer, unsigned, boolean, string, tag, time, measurement, and skip. A
	// column without a type is guessed. If the first row has none of these names, the
	// table has no header. Annotated tables ignore Columns.
	Columns string
	// Measurement is the measurement of all rows.
	Measurement string
	// TimeFormat is rfc3339, one of ns, us, ms, s, m, h, or a layout of package time.
	// The default reads dates as in RFC 3339, and numbers in Unit.
	TimeFormat string
	// Unit is the unit of times that are numbers: one of ns, us, ms, s, m, h. The
	// default is guessed.
	Unit string
	// Timezone is the zone of dates that name none. The default is UTC.
	Timezone string
	// Separator is one byte, or "tab". The default is the most frequent one of comma,
	// semicolon, and tab in the first line.
	Separator string
	// DecimalComma says that numbers have a comma before their fraction. A point in a number
	// is refused then.
	DecimalComma bool
	// Database and Policy are where rows go unless the comments of an export say it.
	Database, Policy string
	// Report, if set, receives what was guessed about a table.
	Report func(text string)
}

// Check refuses options that contradict themselves.
func (o *Options) Check() error {
	_, err := newReader(nil, *o)
	return err
}

// reader reads tables as lines of line protocol.
type reader struct {
	opt     Options
	columns []column // of opt
	clock   *Clock   // of opt.TimeFormat
	unit    int64    // of opt.Unit, 0: not known
	zone    *time.Location

	rows     *scanner
	to       mover.Lines
	notes    annotations
	table    *table
	reported string

	named            bool // comments name the place
	database, policy string
	line             mover.Line // the latest one
	row              mover.Row  // of which it is made
}

func newReader(r io.Reader, opt Options) (*reader, error) {
	d := &reader{opt: opt, zone: time.UTC, rows: newScanner(r), database: opt.Database, policy: opt.Policy}
	var err error
	if d.columns, err = parseColumns(opt.Columns); err != nil {
		return nil, err
	}
	for _, c := range d.columns {
		if c.kind == measurement && opt.Measurement != "" {
			return nil, fmt.Errorf("the measurement is %q and in the column %q", opt.Measurement, c.name)
		}
	}
	if opt.Timezone != "" {
		if d.zone, err = loadZone(opt.Timezone); err != nil {
			return nil, err
		}
	}
	if opt.TimeFormat != "" {
		c, err := newClock(opt.TimeFormat, d.zone)
		if err != nil {
			return nil, err
		}
		d.clock = &c
	}
	for _, u := range units {
		if u.name == opt.Unit {
			d.unit = u.unit
		}
	}
	switch {
	case opt.Unit != "" && d.unit == 0:
		return nil, fmt.Errorf("unit of times %q is none of ns, us, ms, s, m, h", opt.Unit)
	case opt.Separator == "tab" || opt.Separator == `\t`:
		d.rows.separator = '\t'
	case len(opt.Separator) == 1 && !strings.Contains("\"\r\n", opt.Separator):
		d.rows.separator = opt.Separator[0]
	case opt.Separator != "":
		return nil, fmt.Errorf("separator %q is not one byte and not tab", opt.Separator)
	}
	return d, nil
}

// loadZone finds a zone by its name, or by its distance from UTC.
func loadZone(name string) (*time.Location, error) {
	for _, layout := range []string{"-0700", "-07:00"} {
		if at, err := time.Parse(layout, name); err == nil {
			_, offset := at.Zone()
			return time.FixedZone(name, offset), nil
		}
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", name, err)
	}
	return zone, nil
}

// Read passes on the rows of r as lines with times in nanoseconds. A row that does not become
// a line is refused. Any error is about the whole input.
func Read(r io.Reader, opt Options, to mover.Lines) error {
	d, err := newReader(r, opt)
	if err != nil {
		return err
	}
	d.to = to
	d.line.From = &d.row
	d.start()
	for err == nil {
		err = d.next()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// next passes on the next row. It returns io.EOF at the end of the input.
func (d *reader) next() error {
	d.rows.comments = d.table == nil || d.table.annotated
	err := d.rows.read()
	var refused *rowError
	switch {
	case errors.As(err, &refused) && d.table == nil:
		return fmt.Errorf("line %d: the header: %s", refused.line, refused.reason)
	case errors.As(err, &refused):
		return d.refuse(refused)
	case err != nil:
		return err
	}
	opened, err := d.open()
	if err != nil {
		return fmt.Errorf("line %d: %w", d.rows.line, err)
	}
	if opened || d.table.isHeader(d.rows.cells) {
		return nil
	}
	if d.table.failure {
		return fmt.Errorf("line %d: the input is the error of a query: %s", d.rows.line, bytes.Join(d.rows.cells, []byte{' '}))
	}
	d.settle()
	text, reason := d.table.appendLine(d.line.Text[:0], d.rows.cells, d.rows.quoted)
	d.line.Text = text
	if reason != "" {
		return d.refuse(&rowError{d.rows.line, d.rows.raw, reason})
	}
	if d.database == "" {
		return errors.New("no database: name one with -db")
	}
	d.line.Text = bytes.TrimSuffix(text, []byte{'\n'})
	d.line.Database, d.line.Policy = d.database, d.policy
	d.row = mover.Row{Number: d.rows.line, Head: d.table.head, Text: d.rows.raw}
	return d.to.Put(&d.line)
}

// refuse refuses a row.
func (d *reader) refuse(r *rowError) error {
	d.row = mover.Row{Number: r.line, Head: d.table.head, Text: r.row}
	return d.to.Refuse(r.reason, &d.line)
}

// start drops a byte order mark and finds the separator.
func (d *reader) start() {
	s := d.rows
	for s.end < len(s.buf) && bytes.IndexByte(s.buf[:s.end], '\n') < 0 && s.fill() {
	}
	if bytes.HasPrefix(s.buf[:s.end], []byte("\xef\xbb\xbf")) {
		s.pos = 3
	}
	if s.separator != 0 {
		return
	}
	first, _, _ := bytes.Cut(bytes.TrimLeft(s.buf[s.pos:s.end], "\r\n"), []byte{'\n'})
	count, quoted := map[byte]int{}, false
	for _, c := range first {
		if c == '"' {
			quoted = !quoted
		}
		if !quoted {
			count[c]++
		}
	}
	s.separator = ','
	for _, c := range []byte{';', '\t'} {
		if count[c] > count[s.separator] {
			s.separator = c
		}
	}
}

// open looks whether a row begins a table or belongs to its head.
func (d *reader) open() (bool, error) {
	cells := d.rows.cells
	if d.table == nil || d.table.annotated {
		if name, is := annotation(cells[0]); is {
			if name == "" {
				return true, d.comment(string(d.rows.raw))
			}
			return true, d.notes.add(name, cells, d.rows.raw)
		}
	}
	switch {
	case len(d.notes.head) > 0:
		t, err := d.notes.table(cells, d)
		if err != nil {
			return true, err
		}
		t.head = append(append(append(d.placeComments(), d.notes.head...), d.rows.raw...), '\n')
		d.notes = annotations{}
		return true, d.complete(t)
	case d.table == nil || d.table.answer && d.isAnswer(cells):
		t, header, err := d.plain(cells)
		if err != nil {
			return true, err
		}
		if header {
			t.head = append(slices.Clone(d.rows.raw), '\n')
			return true, d.complete(t)
		}
		// The sample begins with the present row, which is no header.
		d.rows.pos = d.rows.start
		d.rows.next = d.rows.line
		return true, d.complete(t)
	}
	return false, nil
}

// statementComment stands before a statement of an export.
const statementComment = "# TSDBD STATEMENT: "

// comment takes a comment of an export. Others mean nothing.
func (d *reader) comment(text string) error {
	if name, ok := strings.CutPrefix(text, rows.DatabaseHeader); ok {
		d.named, d.database, d.policy = true, name, ""
	} else if name, ok := strings.CutPrefix(text, rows.PolicyHeader); ok {
		d.policy = name
	} else if statement, ok := strings.CutPrefix(text, statementComment); ok {
		return d.to.Query(statement)
	}
	return nil
}

// placeComments returns the comments that say where rows belong.
func (d *reader) placeComments() []byte {
	if !d.named {
		return nil
	}
	header, _ := rows.Header(d.database, d.policy) // names of comments have no line break
	return header
}

// isAnswer returns whether a row is a header of InfluxDB 1.x. Its shell leaves the column tags
// out of an answer without tags. A table with a name and a time of its own looks the same:
// options that say what the name or the measurement is tell it apart.
func (d *reader) isAnswer(cells [][]byte) bool {
	if len(cells) <= 2 || string(cells[0]) != "name" {
		return false
	}
	plain := d.opt.Measurement != "" || slices.ContainsFunc(d.columns, func(c column) bool { return c.name == "name" })
	return string(cells[1]) == "tags" || string(cells[1]) == "time" && !plain
}

// plain begins a table whose columns are named by a first row, or by the options.
func (d *reader) plain(cells [][]byte) (t *table, header bool, err error) {
	t = &table{answer: d.isAnswer(cells)}
	given := map[string]kind{}
	var missing []string
	for _, c := range d.columns {
		if c.name == "" {
			continue
		}
		given[c.name] = c.kind
		if !slices.ContainsFunc(cells, func(cell []byte) bool { return string(bytes.TrimSpace(cell)) == c.name }) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == len(given) && len(missing) > 0 && !t.answer {
		if len(cells) != len(d.columns) {
			return nil, false, fmt.Errorf("the row has %d cells, and %d columns are named", len(cells), len(d.columns))
		}
		t.columns = slices.Clone(d.columns)
		return t, false, nil
	}
	if len(missing) > 0 && !t.answer {
		return nil, false, fmt.Errorf("the header %q has no column %q", short(d.rows.raw), missing[0])
	}
	for i, cell := range cells {
		c := column{name: string(bytes.TrimSpace(cell))}
		k, ok := given[c.name]
		switch {
		case ok:
			c.kind = k
		case t.answer && i == 0:
			c.kind = measurement
		case t.answer && i == 1 && c.name == "tags":
			c.kind = tagList
		}
		t.columns = append(t.columns, c)
	}
	queryColumns(t.columns, slices.ContainsFunc(t.columns, func(c column) bool { return c.name == "_time" }))
	return t, true, nil
}

// queryColumns gives the columns of a query of InfluxDB 2.x their kinds.
func queryColumns(columns []column, result bool) {
	for i := range columns {
		c := &columns[i]
		switch {
		case c.name == "" || result && (c.name == "result" || c.name == "table" || c.name == "_start" || c.name == "_stop"):
			c.kind = skip
		case c.name == "_measurement":
			c.kind = measurement
		case c.name == "_field":
			c.kind = fieldName
		case c.name == "_time":
			c.kind = timestamp
		case c.name == "_value":
			c.value = true
		}
	}
	if slices.ContainsFunc(columns, func(c column) bool { return c.kind == fieldName }) {
		for i := range columns {
			if c := &columns[i]; !c.value && (c.kind == text || c.kind == guessed) {
				c.kind = tag
			}
		}
	}
}
