package exposition

import (
	"bytes"
	"errors"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/metadata"
)

// maxEntries bounds the metadata that is read of a request.
const maxEntries = 1 << 16

// Read adds the samples of a text to rows, and returns the metadata in its comments. The
// error is one of rows.Charge.
func Read(text []byte, opt *Options, rows *prom.Rows) (entries []metadata.Entry, left prom.BadLines, err error) {
	rows.Credit = len(text)
	d := descriptions{places: map[string]int{}}
	l := line{opt: opt}
	left, err = prom.ReadLines(text, func(text []byte) (bad, err error) {
		l.rest = text
		if text[0] == '#' {
			if l.describe(&d) {
				err = rows.Pay(len(text))
			}
			return nil, err
		}
		s, bad := l.sample()
		if bad == nil {
			err = rows.Add(l.labels, []prom.Sample{s}, nil)
		}
		return bad, err
	})
	return d.entries, left, err
}

// descriptions are what comments say about metrics.
type descriptions struct {
	entries []metadata.Entry
	places  map[string]int // of metrics in entries
}

// describe reads a comment of the form "# TYPE NAME TEXT". It returns false for others.
func (l *line) describe(d *descriptions) bool {
	l.rest = bytes.TrimSpace(l.rest[1:])
	kind := string(l.word())
	if kind != "HELP" && kind != "TYPE" && kind != "UNIT" {
		return false
	}
	name, err := l.metric()
	text := string(l.rest)
	if err != nil || name == "" || text == "" {
		return false
	}
	at, ok := d.places[name]
	if !ok {
		if len(d.entries) == maxEntries {
			return false
		}
		at = len(d.entries)
		d.places[name] = at
		d.entries = append(d.entries, metadata.Entry{Metric: name, Type: metadata.Unknown})
	}
	e := &d.entries[at]
	switch kind {
	case "HELP":
		e.Help = unescape(text)
	case "TYPE":
		e.Type = metadata.TypeNamed(text)
	default:
		e.Unit = text
	}
	return true
}

var (
	errName    = errors.New("the line does not begin with the name of a metric")
	errBrace   = errors.New("the labels do not end in }")
	errQuote   = errors.New("a text does not end in a quote")
	errLabel   = errors.New("a label is not of the form name=\"value\"")
	errComma   = errors.New("there is no comma between two labels")
	errValue   = errors.New("there is no value")
	errTwice   = errors.New("the metric has two names")
	errTrailer = errors.New("something follows the time")
)

// sample reads the line into l.labels and a sample.
func (l *line) sample() (s prom.Sample, err error) {
	l.labels = l.labels[:0]
	name := ""
	if l.rest[0] != '{' {
		if name, err = l.metric(); err != nil {
			return s, err
		}
	}
	if name, err = l.braces(name); err != nil {
		return s, err
	}
	if name == "" {
		return s, errName
	}
	if s.Value, err = number(l.word()); err != nil {
		return s, err
	}
	if s.Time, err = l.opt.time(l.timestamp()); err != nil {
		return s, err
	}
	if len(l.rest) > 0 && l.rest[0] != '#' { // an exemplar
		return s, errTrailer
	}
	l.labels = append(l.labels, model.Tag{Key: prom.NameLabel, Value: name})
	for _, e := range l.opt.Extra {
		l.set(e)
	}
	return s, nil
}

// set sets a label in place of one with the same name.
func (l *line) set(e model.Tag) {
	for i := range l.labels {
		if l.labels[i].Key == e.Key {
			l.labels[i].Value = e.Value
			return
		}
	}
	l.labels = append(l.labels, e)
}
