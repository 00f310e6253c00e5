package query

import (
	"errors"

	"tsdbd/column"
	"tsdbd/model"
)

// runInto executes SELECT INTO: the rows go to SelectOptions.Into, the answer
// is how many there were.
func (x *exec) runInto(l *level, emit func(*Result) error) error {
	if x.opt.Into == nil {
		return errors.New("SELECT INTO is not supported here")
	}
	target := l.stmt.Target.Measurement
	db, rp := target.Database, target.RetentionPolicy
	if db == "" {
		db = x.opt.Database
	}
	if db == "" {
		return errors.New("no database in target")
	}
	names := l.stmt.ColumnNames()[1:]
	var written int64
	err := x.run(l, func(f *frame) error {
		b := &IntoBatch{Database: db, RetentionPolicy: rp, Measurement: target.Name, Times: f.times}
		if target.Name == "" {
			b.Measurement = f.name
		}
		for i, k := range l.dims {
			if v := f.tuple[i]; v != "" {
				b.Tags = append(b.Tags, model.Tag{Key: k, Value: v})
			}
		}
		l.splitInto(b, names, f)
		n := writtenRows(b)
		if n == 0 {
			return nil
		}
		written += int64(n)
		return x.opt.Into(x.ctx, b)
	})
	if err != nil {
		return err
	}
	return emit(&Result{Series: []*Series{{
		Name: "result", Columns: []string{"time", "written"}, Rows: 1,
		Values: []column.Vector{{Type: model.Integer, Ints: []int64{0}}, {Type: model.Integer, Ints: []int64{written}}},
	}}})
}

// splitInto sorts the columns of a frame into fields and tags: what top and
// bottom name beside their field becomes a tag.
func (l *level) splitInto(b *IntoBatch, names []string, f *frame) {
	col := 0
	for i, field := range l.stmt.Fields {
		b.Fields = append(b.Fields, names[i])
		b.Columns = append(b.Columns, f.cols[col])
		col++
		for _, name := range topTags(field.Expr) {
			if b.TagColumns == nil {
				b.TagColumns = map[string]column.Vector{}
			}
			b.TagColumns[name] = f.cols[col]
			col++
		}
	}
}

// writtenRows counts the rows that hold a value.
func writtenRows(b *IntoBatch) int {
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
