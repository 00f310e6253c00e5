package influxhttp

import (
	"bytes"
	"fmt"
	"slices"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/transfer/mover"
)

// field is a field of a measurement as a SELECT asks for it.
type field struct {
	key     string
	as      model.FieldType // of numbers whose type the answer does not say
	cast    string          // "field", or the type that is asked for
	refused string          // why line protocol cannot have the key
	prefix  string          // what is before a value in a line
}

// lines passes on the rows of an answer as line protocol.
type lines struct {
	to     mover.Lines
	of     *measurement
	within model.TimeRange // other rows are left out
	places map[string]int  // of the fields, by their keys
	twice  bool            // a key is asked for more than once

	buf     []byte
	columns []column
	tags    model.Tags // of the series, without those in columns
	text    []byte     // of the series, which begins its lines; nil before its first row
	refusal string     // why line protocol cannot have the series

	copied
}

// column is what a column of an answer has.
type column struct {
	role  role
	field int    // of a field
	key   string // of a tag
	last  []byte // of a tag, the value of the latest row
}

type role byte

const (
	timeRole role = iota
	fieldRole
	tagRole
)

func newLines(to mover.Lines, m *measurement, within model.TimeRange) *lines {
	l := &lines{to: to, of: m, within: within, places: map[string]int{}, copied: copied{newest: model.AllTime.Min}}
	for i, f := range m.fields {
		if _, ok := l.places[f.key]; ok {
			l.twice = true
			continue
		}
		l.places[f.key] = i
	}
	return l
}

// series implements rowSink. InfluxDB 1.x and 2.x give the tags of a series apart.
// InfluxDB 3.x may give them as columns.
func (l *lines) series(_ string, tags model.Tags, names []string) error {
	l.columns = l.columns[:0]
	timed := false
	for i, name := range names {
		place, known := l.places[name]
		switch {
		case name == "time":
			timed = true
			l.columns = append(l.columns, column{role: timeRole})
		case l.twice: // such columns have other names
			if len(names) != len(l.of.fields)+1 || i == 0 {
				return fmt.Errorf("%w: %d columns for %d fields", errForm, len(names), len(l.of.fields))
			}
			l.columns = append(l.columns, column{role: fieldRole, field: i - 1})
		case known:
			l.columns = append(l.columns, column{role: fieldRole, field: place})
		default:
			l.columns = append(l.columns, column{role: tagRole, key: name})
		}
	}
	if !timed {
		return fmt.Errorf("%w: it has no times", errForm)
	}
	l.tags = slices.DeleteFunc(slices.Clone(tags), func(t model.Tag) bool { return t.Value == "" })
	l.text = nil
	return nil
}

// nameSeries makes the text of the series that the present row belongs to.
func (l *lines) nameSeries(row []value) {
	whole := l.text != nil
	for i := range l.columns {
		c := &l.columns[i]
		if c.role == tagRole && !(whole && string(c.last) == string(row[i].text)) {
			c.last, whole = append(c.last[:0], row[i].text...), false
		}
	}
	if whole {
		return
	}
	tags := l.tags
	for i := range l.columns {
		if c := &l.columns[i]; c.role == tagRole && len(c.last) > 0 {
			tags = append(tags[:len(tags):len(tags)], model.Tag{Key: c.key, Value: string(c.last)})
		}
	}
	tags.Sort()
	l.refusal = model.Unstorable(l.of.name, tags) // such a line could be read as another one
	l.text = wire.AppendSeries(l.text[:0], string(model.AppendSeriesKey(nil, l.of.name, tags)))
}

// row implements rowSink.
func (l *lines) row(row []value) error {
	l.nameSeries(row)
	l.buf = append(l.buf[:0], l.text...)
	separator := byte(' ')
	var at, values int64
	last := -1
	reason := l.refusal
	var lost []byte // fields that a line cannot have
	for i := range l.columns {
		v := &row[i]
		switch c := &l.columns[i]; {
		case c.role == timeRole:
			var err error
			if at, err = v.time(); err != nil {
				return fmt.Errorf("%w: %w", errForm, err)
			}
		case c.role == fieldRole && v.kind != null:
			f := &l.of.fields[c.field]
			if last >= 0 && l.of.fields[last].key == f.key {
				continue // the same value as another type
			}
			last = c.field
			if f.refused != "" {
				reason = f.refused
				lost = v.append(append(append(lost, ','), f.prefix...), f.as)
				continue
			}
			l.buf = append(append(l.buf, separator), f.prefix...)
			l.buf = v.append(l.buf, f.as)
			separator = ','
			values++
		}
	}
	if at < l.within.Min || at > l.within.Max {
		return nil
	}
	if reason != "" {
		row := lost
		if l.refusal != "" {
			row = slices.Concat(l.buf[len(l.text):], lost)
		}
		if err := l.refuse(reason, row, at); err != nil {
			return err
		}
	}
	if values == 0 || l.refusal != "" {
		return nil
	}
	l.buf = wire.AppendTime(l.buf, at)
	l.rows++
	l.values += values
	l.newest = max(l.newest, at)
	return l.to.Put(&mover.Line{Database: l.of.database, Policy: l.of.policy, Text: bytes.TrimSuffix(l.buf, []byte{'\n'})})
}

// refuse refuses fields of a row that line protocol cannot have. They are kept as a comment.
func (l *lines) refuse(reason string, fields []byte, at int64) error {
	l.refused++
	line := wire.AppendTime(append(append(bytes.Clone(l.text), ' '), bytes.TrimLeft(fields, " ,")...), at)
	return l.to.Refuse(reason, &mover.Line{Database: l.of.database, Policy: l.of.policy, Text: fmt.Appendf(nil, "# %s: %q", reason, bytes.TrimSpace(line))})
}
