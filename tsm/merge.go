package tsm

import (
	"context"
	"errors"
	"fmt"

	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm/stats"
)

// mergeState is the memory of AppendEncoded.
type mergeState struct {
	chunk    Chunk
	from, to []column.Field // lists that places belongs to
	places   []int          // of from's fields in to
	valid    column.Bitmap
}

// AppendEncoded adds chunk k of a loaded series of r to the current series
// without decoding values. Its checksums are verified. The current series must
// have all fields of s, with the same types, and may have more; the chunk must
// be later than the chunk before. The context bounds reads of a body that is elsewhere.
func (w *Writer) AppendEncoded(ctx context.Context, r *Reader, s *Series, k int) error {
	if w.err != nil {
		return w.err
	}
	if !w.series.open {
		return w.fail(errors.New("chunk without a series"))
	}
	m := &w.merge
	c := &m.chunk
	c.Ctx = ctx
	if err := r.Chunk(s, k, c); err != nil {
		return w.fail(err)
	}
	if err := w.mapFields(s.Fields); err != nil {
		return w.fail(fmt.Errorf("series %.100q: %w", w.series.key, err))
	}
	if n := len(w.series.chunks); n > 0 && c.e.Min <= w.series.chunks[n-1].max {
		return w.fail(fmt.Errorf("series %.100q: chunk from %d does not follow the last, to %d", w.series.key, c.e.Min, w.series.chunks[n-1].max))
	}
	at := c.timeColumns()
	n := at + len(w.series.fields)
	cols := grow(w.scratch.cols, n)
	clear(cols)
	w.scratch.cols = cols
	if at == 1 {
		b, _, err := c.timeBlock()
		if err != nil {
			return w.fail(err)
		}
		cols[0] = rawColumn{bytes: b, values: c.e.Rows}
	}
	rows := c.e.Rows
	for i := range s.Fields {
		b, err := c.raw(at + i)
		if err != nil {
			return w.fail(err)
		}
		col := &cols[at+m.places[i]]
		col.bytes, col.sparse = b, c.places[at+i].sparse
		count, off, err := c.presence(at+i, b, &m.valid)
		if err != nil {
			return w.fail(err)
		}
		col.block, col.values, col.kind = off, count, kindOf(s.Fields[i].Type)
		w.info.Values += int64(count)
	}
	if rows >= StatsRows {
		if err := w.copyStats(s, k, c); err != nil {
			return err
		}
	}
	return w.addChunk(c.e.Min, c.e.Max, c.e.Step, rows, cols)
}

// copyStats appends the records of chunk k to those of the current series.
func (w *Writer) copyStats(s *Series, k int, c *Chunk) error {
	from := 0 // the next field of s
	for i, f := range w.series.fields {
		st := &w.series.stats[i]
		if from == len(s.Fields) || w.merge.places[from] != i {
			*st = stats.Append(*st, f.Type, &scan.Stats{}, c.e.Rows)
			continue
		}
		rec, ok := s.statRecord(k, from)
		if !ok {
			return w.fail(c.corrupt(0, "bad statistics"))
		}
		*st = append(append(*st, byte(len(rec))), rec...)
		from++
	}
	return nil
}

// mapFields sets merge.places for a list of fields. Field lists are shared, so
// that it is computed once per pair of lists.
func (w *Writer) mapFields(from []column.Field) error {
	m := &w.merge
	to := w.series.fields
	if sameList(m.from, from) && sameList(m.to, to) {
		return nil
	}
	m.from, m.to = nil, nil
	m.places = m.places[:0]
	j := 0
	for i := range from {
		for j < len(to) && to[j].Key < from[i].Key {
			j++
		}
		if j == len(to) || to[j] != from[i] {
			return fmt.Errorf("field %.100q (%s) of the source is not a field of the series", from[i].Key, from[i].Type)
		}
		m.places = append(m.places, j)
		j++
	}
	m.from, m.to = from, to
	return nil
}

func sameList(a, b []column.Field) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}
