package engine

import (
	"errors"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// intoRows is how many rows SELECT INTO gathers before it writes them.
const intoRows = 10000

// runInto executes SELECT INTO: the rows go to Options.Into, the answer
// is how many there were.
func (r *levelRun) runInto(emit func(*result.Result) error) error {
	x, l := r.x, r.l
	if x.opt.Into == nil {
		return errors.New("SELECT INTO is not supported here")
	}
	names := l.Statement.ColumnNames()[1:]
	var written int64
	var pending []*result.IntoBatch
	rows, held, text := 0, int64(0), int64(0)
	// A write that fails in part does not keep the rest of its round from
	// being written, but ends the statement.
	flush := func() error {
		var first error
		for _, b := range pending {
			err := x.Turn.Outside(x.Ctx, func() error { return x.opt.Into(x.Ctx, b) })
			if err != nil && first == nil {
				first = err
			}
		}
		clear(pending)
		pending, rows = pending[:0], 0
		x.Kept.Add(-held)
		held, text = 0, 0
		return first
	}
	var cur *frame // rows of one series, gathered
	closeSeries := func() error {
		if cur == nil {
			return nil
		}
		b := intoBatch(l, cur, names)
		cur = nil
		n := writtenRows(b)
		if n == 0 {
			return nil
		}
		written += int64(n)
		pending = append(pending, b)
		if rows += len(b.Times); rows >= intoRows || text >= chunkText {
			return flush()
		}
		return nil
	}
	add := func(f *frame, lo, hi int) error {
		bytes, texts := rowset.Bytes(f.cols, lo, hi)
		text += texts
		held += bytes + texts
		if err := x.Keep(bytes + texts); err != nil {
			return err
		}
		if cur == nil {
			cur = &frame{name: f.name, tuple: f.tuple, cols: make([]column.Vector, len(f.cols))}
		}
		for i := range cur.cols {
			expr.Extend(&cur.cols[i], len(cur.times), &f.cols[i], lo, hi)
		}
		cur.times = append(cur.times, f.times[lo:hi]...)
		return nil
	}
	err := r.run(func(f *frame) error {
		for lo := 0; lo < len(f.times); {
			if cur != nil && (cur.name != f.name || !slices.Equal(cur.tuple, f.tuple) || len(cur.times) >= intoRows || text >= chunkText) {
				if err := closeSeries(); err != nil {
					return err
				}
			}
			hi, _ := f.texts(lo, len(f.times), text)
			if err := add(f, lo, hi); err != nil {
				return err
			}
			lo = hi
		}
		return nil
	})
	if err == nil {
		err = closeSeries()
	}
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	return emit(&result.Result{Series: []*result.Series{result.WrittenTable([]string{"written"}, written)}})
}

// intoBatch turns rows of a series into what is to be written.
func intoBatch(l *plan.Level, f *frame, names []string) *result.IntoBatch {
	target := l.Statement.Target.Measurement
	b := &result.IntoBatch{Database: target.Database, RetentionPolicy: target.RetentionPolicy, Measurement: target.Name, Times: f.times}
	if target.Name == "" {
		b.Measurement = f.name
	}
	for i, k := range l.Dims {
		if v := f.tuple[i]; v != "" {
			b.Tags = append(b.Tags, model.Tag{Key: k, Value: v})
		}
	}
	splitInto(l, b, names, f)
	return b
}

// splitInto sorts the columns of a frame into fields and tags. The tags and fields that
// top and bottom name in addition to their field become tags.
func splitInto(l *plan.Level, b *result.IntoBatch, names []string, f *frame) {
	col := 0
	for i, field := range l.Statement.Fields {
		b.Fields = append(b.Fields, names[i])
		b.Columns = append(b.Columns, expr.Finite(f.cols[col]))
		col++
		for _, arg := range function.TopArgs(field.Expr) {
			if b.TagColumns == nil {
				b.TagColumns = map[string]column.Vector{}
			}
			b.TagColumns[arg.(*influxql.VarRef).Val] = f.cols[col]
			col++
		}
	}
}

// writtenRows counts the rows that hold a value.
func writtenRows(b *result.IntoBatch) int {
	n := 0
	for i := range b.Times {
		for j := range b.Columns {
			if b.Columns[j].Type != model.Unknown && b.Columns[j].IsValid(i) {
				n++
				break
			}
		}
	}
	return n
}
