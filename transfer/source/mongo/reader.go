package mongo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/source/csv"
)

// Options say what the documents contain.
type Options struct {
	Time string // the member with the time: the timeField of the collection
	// TimeFormat is the form of times that are no dates, as in csv.Options. By default they
	// are refused.
	TimeFormat string
	Timezone   string // of TimeFormat
	// Points, if set, is a member that is an array of documents. Each of them is read as a
	// document that also has the other members.
	Points      string
	Meta        string // the member with the tags: its metaField; "" if it has none
	Measurement string
	// Database and Policy are where the points go.
	Database, Policy string
	// Types are the types of fields by name: float, integer, unsigned, boolean, string, tag,
	// or skip. The default is that of the first values. skip also applies to what is below a
	// name.
	Types map[string]string
	// Report, if set, receives what was guessed about the fields.
	Report func(text string)
}

// Check refuses options that say too little or contradict themselves.
func (o *Options) Check() error {
	switch {
	case o.Time == "":
		return errors.New("documents need the name of the member with the time: -time NAME")
	case o.Points != "" && (o.Points == o.Time || o.Points == o.Meta):
		return fmt.Errorf("the member %q has the points, and cannot have the time or the tags", o.Points)
	case o.Time == o.Meta:
		return fmt.Errorf("the member %q has the time and cannot have the tags", o.Time)
	case o.Measurement == "":
		return errors.New("documents need a measurement: -measurement NAME")
	}
	for name, t := range o.Types {
		if !slices.Contains([]string{"", "float", "integer", "unsigned", "boolean", "string", "tag", "skip"}, t) {
			return fmt.Errorf("the field %q cannot have the type %s", name, t)
		}
	}
	return nil
}

// The bounds of the sample, and of the fields whose types are known.
const (
	sampleDocuments = 1000
	sampleBytes     = 1 << 20
	maxFields       = 64 << 10
)

// reader reads documents as lines of line protocol.
type reader struct {
	opt    Options
	in     *scanner
	sample []document // read and not taken
	points points
	clock  csv.Clock         // of opt.TimeFormat, if that is set
	types  map[string]string // of fields
	parts  []part            // of the present document
	tags   model.Tags
}

// part is a field of a document.
type part struct {
	name string
	v    value
}

func newReader(r io.Reader, opt Options) (*reader, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	types := map[string]string{}
	for name, t := range opt.Types {
		if t != "" {
			types[name] = t
		}
	}
	d := &reader{opt: opt, in: newScanner(r), types: types}
	if opt.TimeFormat != "" {
		var err error
		if d.clock, err = csv.NewClock(opt.TimeFormat, opt.Timezone); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Read passes on the documents of r as lines with times in nanoseconds. A document that does
// not become a line is refused. Any error is about the whole input.
func Read(r io.Reader, opt Options, to mover.Lines) error {
	d, err := newReader(r, opt)
	if err != nil {
		return err
	}
	if err := d.guess(); err != nil {
		return err
	}
	row := mover.Row{}
	line := mover.Line{Database: opt.Database, Policy: opt.Policy, From: &row}
	var text []byte
	for {
		var last document
		if len(d.sample) > 0 {
			last, d.sample = d.sample[0], d.sample[1:]
		} else if last, err = d.next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		reason := last.reason
		if reason == "" {
			text, reason = d.appendLine(text[:0], last.text)
		}
		row.Number, row.Text = last.line, last.text
		switch {
		case reason != "":
			err = to.Refuse(reason, &line)
		case opt.Database == "":
			return errors.New("no database: name one with -db")
		default:
			line.Text = bytes.TrimSuffix(text, []byte{'\n'})
			err = to.Put(&line)
		}
		if err != nil {
			return err
		}
	}
}

// guess reads the first documents and finds the types of their fields.
func (d *reader) guess() error {
	known := maps.Clone(d.types)
	size := 0
	var mixed []string
	decimals := map[string]bool{}
	for len(d.sample) < sampleDocuments && size < sampleBytes {
		next, err := d.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		size += len(next.text)
		next.text = slices.Clone(next.text)
		d.sample = append(d.sample, next)
		if next.reason != "" {
			continue
		}
		if _, reason := d.read(next.text); reason != "" {
			continue
		}
		for _, p := range d.parts {
			t := p.v.natural()
			switch have := d.types[p.name]; {
			case t == "" || known[p.name] != "":
			case have == "" && len(d.types) < maxFields:
				d.types[p.name] = t
			case have == "integer" && t == "float" || have == "float" && t == "integer":
				d.types[p.name] = "float"
				if !slices.Contains(mixed, p.name) {
					mixed = append(mixed, p.name)
				}
			}
			if p.v.decimal && known[p.name] == "" {
				decimals[p.name] = true
			}
		}
	}
	if d.opt.Report == nil || len(d.types) == 0 {
		return nil
	}
	var columns []string
	for _, name := range slices.Sorted(maps.Keys(d.types)) {
		columns = append(columns, name+":"+d.types[name])
	}
	d.opt.Report(fmt.Sprintf("types from the first %d documents: -columns '%s'", len(d.sample), strings.Join(columns, ",")))
	if len(mixed) > 0 {
		slices.Sort(mixed)
		d.opt.Report("integers and doubles are mixed, all become floats: " + strings.Join(mixed, ", "))
	}
	if len(decimals) > 0 {
		d.opt.Report("decimals become the floats next to them, with -columns NAME:string they stay texts: " + strings.Join(slices.Sorted(maps.Keys(decimals)), ", "))
	}
	return nil
}

// natural returns the type of a field that begins with a value, "" for null.
func (v *value) natural() string {
	switch v.kind {
	case integer:
		return "integer"
	case float:
		return "float"
	case boolean:
		return "boolean"
	case text:
		return "string"
	}
	return ""
}

// skipped returns whether a name, or a document that it is in, is left out.
func (d *reader) skipped(name string) bool {
	if len(d.opt.Types) == 0 {
		return false
	}
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		if d.opt.Types[name[:end]] == "skip" {
			return true
		}
	}
	return false
}

// read takes a document apart into its time, tags, and parts.
func (d *reader) read(raw []byte) (at int64, reason string) {
	d.parts, d.tags = d.parts[:0], d.tags[:0]
	if !json.Valid(raw) {
		return 0, "the document is not valid JSON"
	}
	timed := false
	for m := range members(raw) {
		switch {
		case m.name == d.opt.Time:
			if timed {
				return 0, fmt.Sprintf("the member %s is there twice", m.name)
			}
			timed = true
			if at, reason = d.time(m.raw); reason != "" {
				return 0, fmt.Sprintf("%s: %s", m.name, reason)
			}
			continue
		case m.name == "_id" && d.opt.Types["_id"] == "":
			continue
		}
		meta := m.name == d.opt.Meta && d.opt.Meta != ""
		reason = d.leaves(m.name, m.raw, 0, func(name string, v *value) {
			switch {
			case v.kind == none:
			case meta || d.opt.Types[name] == "tag":
				if inner := strings.TrimPrefix(name, d.opt.Meta+"."); meta && inner != "" {
					name = inner
				}
				if text := v.tag(); text != "" {
					d.tags = append(d.tags, model.Tag{Key: name, Value: text})
				}
			default:
				d.parts = append(d.parts, part{name, *v})
			}
		})
		if reason != "" {
			return 0, reason
		}
	}
	if !timed {
		return 0, fmt.Sprintf("the document has no member %s with the time", d.opt.Time)
	}
	return at, ""
}

// time reads the time in nanoseconds: a date, its text, or what TimeFormat says.
func (d *reader) time(raw []byte) (int64, string) {
	ms, ok, number := int64(0), false, raw
	switch raw[0] {
	case '"':
		number = []byte(unquote(raw))
		ms, ok = parseDate(string(number))
	case '{':
		v, is, reason := extended(raw)
		ms, ok, number = v.i, is && reason == "" && v.date, []byte(v.tag())
	}
	const unit = 1_000_000
	switch {
	case !ok && d.opt.TimeFormat != "":
		return d.clock.Read(number)
	case !ok && len(number) > 0 && (number[0] == '-' || number[0] >= '0' && number[0] <= '9') && raw[0] != '"':
		return 0, fmt.Sprintf("%.100s is a number: -time-format s, ms, us or ns says what it counts", raw)
	case !ok:
		return 0, fmt.Sprintf("%.100s is not a date", raw)
	case ms < model.MinTime/unit || ms > model.MaxTime/unit:
		return 0, fmt.Sprintf("%.100s is out of the range of times", raw)
	}
	return ms * unit, ""
}

// appendLine appends the line of a document, or returns the reason why it has none.
func (d *reader) appendLine(dst, raw []byte) ([]byte, string) {
	at, reason := d.read(raw)
	if reason != "" {
		return dst, reason
	}
	d.tags.Sort()
	if reason := model.Unstorable(d.opt.Measurement, d.tags); reason != "" {
		return dst, reason
	}
	line := wire.AppendSeries(dst, string(model.AppendSeriesKey(nil, d.opt.Measurement, d.tags)))
	slices.SortFunc(d.parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	separator := byte(' ')
	for i := range d.parts {
		p := &d.parts[i]
		if i > 0 && d.parts[i-1].name == p.name {
			return dst, fmt.Sprintf("the field %s is there twice", p.name)
		}
		if p.name == "time" {
			return dst, "a field cannot have the name time: -columns time:skip leaves it out"
		}
		if reason := model.UnstorableField(p.name); reason != "" {
			return dst, fmt.Sprintf("the name of the field %q %s", p.name, reason)
		}
		t := d.types[p.name]
		if t == "" {
			if t = p.v.natural(); len(d.types) < maxFields {
				d.types[p.name] = t
			}
		}
		line = append(append(line, separator), wire.FieldPrefix(p.name)...)
		separator = ','
		if line, reason = appendField(line, &p.v, t); reason != "" {
			return dst, fmt.Sprintf("%s: %s", p.name, reason)
		}
	}
	if separator == ' ' {
		return dst, "the document has no field"
	}
	return wire.AppendTime(line, at), ""
}

// appendField appends a value as one of a type. It returns the reason why it is none.
func appendField(dst []byte, v *value, t string) ([]byte, string) {
	switch {
	case t == "string":
		s := v.tag()
		if len(s) > column.MaxStringLength {
			return dst, fmt.Sprintf("the string is longer than %d bytes", column.MaxStringLength)
		}
		return wire.AppendString(dst, []byte(s)), ""
	case t == "boolean" && v.kind == boolean:
		return wire.AppendBoolean(dst, v.b), ""
	case t == "float" && v.kind == float:
		return wire.AppendFloat(dst, v.f), ""
	case t == "float" && v.kind == integer && v.i != math.MaxInt64 && int64(float64(v.i)) == v.i:
		return wire.AppendFloat(dst, float64(v.i)), ""
	case t == "integer" && v.kind == integer:
		return wire.AppendInteger(dst, v.i), ""
	case t == "integer" && v.kind == float && v.f == math.Trunc(v.f) && math.Abs(v.f) < 1<<53:
		return wire.AppendInteger(dst, int64(v.f)), ""
	case t == "unsigned" && v.kind == integer && v.i >= 0:
		return wire.AppendUnsigned(dst, uint64(v.i)), ""
	case t == "unsigned" && v.kind == float && v.f == math.Trunc(v.f) && v.f >= 0 && v.f < 1<<53:
		return wire.AppendUnsigned(dst, uint64(v.f)), ""
	}
	return dst, fmt.Sprintf("%.100q does not fit the type %s, which -columns can name", v.tag(), t)
}
