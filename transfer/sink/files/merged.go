package files

import (
	"context"
	"errors"
	"io"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
)

// merged gives the rows of several readers as one: series by series, and of two rows
// with the same time the values of the later reader. It holds the rows of one series.
type merged struct {
	readers []rows.Reader
	heads   []*rows.Run // the next run of each reader; nil at its end
	begun   bool
	clash   func(run *rows.Run, have model.FieldType) // for values of a field that has another type

	all  column.Rows // of the present series
	at   int         // rows of it that were given
	run  rows.Run
	cols []column.Vector
}

// Next returns the next run.
func (m *merged) Next(ctx context.Context) (*rows.Run, error) {
	if !m.begun {
		m.begun = true
		m.heads = make([]*rows.Run, len(m.readers))
		for i := range m.readers {
			if err := m.advance(ctx, i); err != nil {
				return nil, err
			}
		}
	}
	if m.at == m.all.Len() {
		if err := m.series(ctx); err != nil {
			return nil, err
		}
	}
	end := min(m.at+rows.MaxRows, m.all.Len())
	part := m.all.Slice(m.at, end, m.cols)
	m.cols, m.at = part.Cols, end
	m.run.Rows = part
	return &m.run, nil
}

func (m *merged) advance(ctx context.Context, i int) (err error) {
	m.heads[i], err = m.readers[i].Next(ctx)
	if errors.Is(err, io.EOF) {
		m.heads[i], err = nil, nil
	}
	return err
}

// series merges the next series.
func (m *merged) series(ctx context.Context) error {
	found := false
	key := ""
	for _, h := range m.heads {
		if h != nil && (!found || h.Key < key) {
			key, found = h.Key, true
		}
	}
	if !found {
		return io.EOF
	}
	var fields []column.Field
	for _, h := range m.heads {
		if h != nil && h.Key == key {
			fields = append(fields, h.Fields...) // of two types the first one counts
		}
	}
	m.run.Key, m.run.Fields = key, column.UnionFields(fields)
	types := make([]model.FieldType, len(m.run.Fields))
	for i, f := range m.run.Fields {
		types[i] = f.Type
	}
	var sources []*column.Rows
	for i := range m.heads {
		all := &column.Rows{}
		all.Reset(types)
		for h := m.heads[i]; h != nil && h.Key == key; h = m.heads[i] {
			m.take(all, h)
			if err := m.advance(ctx, i); err != nil {
				return err
			}
		}
		if all.Keep(func(int) bool { return true }, true); all.Len() > 0 {
			sources = append(sources, all)
		}
	}
	m.at = 0
	m.all.Reset(types)
	column.Merge(&m.all, sources)
	if m.all.Len() == 0 {
		return m.series(ctx)
	}
	return nil
}

// take appends a run to the rows of the present series of its reader. Texts are copied:
// they are the reader's.
func (m *merged) take(dst *column.Rows, run *rows.Run) {
	n := run.Len()
	dst.Times = append(dst.Times, run.Times...)
	for c, f := range m.run.Fields {
		i, ok := column.FindField(run.Fields, f.Key)
		if !ok {
			dst.Cols[c].AppendNulls(n)
			continue
		}
		if run.Fields[i].Type != f.Type {
			dst.Cols[c].AppendNulls(n)
			m.clash(columnOf(run, i), f.Type)
			continue
		}
		at := len(dst.Cols[c].Strings)
		dst.Cols[c].AppendVector(&run.Cols[i], 0, n)
		dst.Cols[c].OwnStrings(at)
	}
}

// columnOf returns one column of a run.
func columnOf(run *rows.Run, i int) *rows.Run {
	return &rows.Run{Key: run.Key, Fields: run.Fields[i : i+1], Rows: column.Rows{Times: run.Times, Cols: run.Cols[i : i+1]}}
}

// Close closes the readers.
func (m *merged) Close() error {
	var errs []error
	for _, r := range m.readers {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
