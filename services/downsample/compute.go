package downsample

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

const (
	writeRows  = 10_000 // rows that are written at once
	deleteMost = 256    // series that one delete names
	rounds     = 3      // of align
	chargeRows = 1024   // rows that are charged at once
	rowBytes   = 96     // of a row of batch.have, while the map grows as well
)

// errChanging says that the rows of the target are not those that align leaves there.
var errChanging = errors.New("rows of the target change while it is computed")

// align brings the rows of the target in [from, to) in line with the source. A row that
// has lost a field is deleted and written again: a delete takes whole rows. It returns
// the sequence up to which the target is known to be right: what others have written
// into it since may be wrong.
func (v *visitor) align(measurement string, from, to int64) (target uint64, err error) {
	memory := v.opt.Memory.Open(nil, nil)
	defer memory.Close()
	b := &batch{visitor: v, memory: memory, measurement: measurement, from: from, to: to, seed: maphash.MakeSeed()}
	b.definition = v.d.At(from)
	b.functions = b.definition.Columns()
	for range rounds {
		begin := v.opt.Applied()
		if err := b.read(); err != nil {
			return 0, err
		}
		if err := b.aggregate(); err != nil {
			return 0, err
		}
		if err := b.removeStale(); err != nil {
			return 0, err
		}
		if !b.changed {
			return begin, nil
		}
		target = v.opt.Applied()
		right, err := b.right()
		if right || err != nil {
			return target, err
		}
		if b.refused != nil {
			return 0, b.refused
		}
	}
	return 0, errChanging
}

// batch is some windows of a measurement.
type batch struct {
	*visitor
	memory      *admission.Account
	measurement string
	from, to    int64
	definition  *meta.Definition // of the windows in [from, to)
	functions   []string         // that rows of the target have values of
	seed        maphash.Seed
	have        map[uint64]row // rows of the target, by their series and time
	charged     int            // rows of have that memory is charged for
	left        int            // rows of have that are not seen, or lack a field
	want        sum            // of the rows that the target should have
	changed     bool           // rows of the target were written or deleted
	refused     error          // why the target cannot have some rows

	pending []*result.IntoBatch
	rows    int // of pending
}

// row is what the target has at a time of a series: sums of hashes, so that they do not
// depend on the order of columns.
type row struct {
	values, fields uint64
	fresh          bool // the source has it, with the same fields
}

// sum is a hash of rows in any order.
type sum struct{ rows, hash uint64 }

func (s *sum) add(key uint64, r row) {
	s.rows++
	s.hash += mix(mix(key, r.fields), r.values)
}

// read reads what the target has.
func (b *batch) read() error {
	b.have, b.want, b.changed = map[uint64]row{}, sum{}, false
	return b.target(func(c *cells, i int, r row) error {
		if r.fields == 0 {
			return nil
		}
		if len(b.have) == b.charged {
			if err := b.memory.Hold(b.ctx, chargeRows*rowBytes); err != nil {
				return err
			}
			b.charged += chargeRows
		}
		b.have[c.key(i)] = r
		return nil
	})
}

// right reports whether the target has the rows that it should have.
func (b *batch) right() (bool, error) {
	b.have = nil
	var got sum
	err := b.target(func(c *cells, i int, r row) error {
		if r.fields != 0 {
			got.add(c.key(i), r)
		}
		return nil
	})
	return got == b.want, err
}

// target calls f with each row of the target. Rows without a field of the downsample are
// not the server's.
func (b *batch) target(f func(c *cells, i int, r row) error) error {
	text := fmt.Sprintf("SELECT * FROM %s WHERE time >= %d AND time < %d GROUP BY *", b.source(b.d.Into), b.from, b.to)
	return b.run(b.d.Into, text, func(s *result.Series) error {
		c := b.cells(s)
		for i := range s.Rows {
			if err := f(c, i, c.row(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// source is a measurement of a policy as a statement names it.
func (b *batch) source(policy string) string {
	return influxql.QuoteIdent(b.db.Name, policy, b.measurement)
}

// run runs a statement unless the policy does not have the measurement in the range.
func (b *batch) run(policy, text string, rows func(*result.Series) error) error {
	has := false
	err := b.view(policy, model.TimeRange{Min: b.from, Max: b.to - 1}, func(sh scan.Shard) error {
		has = has || sh.Fields(b.measurement) != nil
		return nil
	})
	if err != nil || !has {
		return err
	}
	q, err := syntax.Parse(text, nil)
	if err != nil {
		return err
	}
	return b.opt.Execute(b.ctx, b.db.Name, q, rows)
}

// aggregate runs the aggregates over the source and writes the rows that differ.
func (b *batch) aggregate() error {
	b.left = len(b.have)
	calls, err := b.calls()
	if err != nil || len(calls) == 0 {
		return err
	}
	where := ""
	if b.definition.Where != "" {
		where = "(" + b.definition.Where + ") AND "
	}
	tags, err := b.tags()
	if err != nil {
		return err
	}
	length, zone, zoned := strings.Cut(b.definition.Period.String(), " ")
	if zoned {
		zone = " " + zone
	}
	text := fmt.Sprintf("SELECT %s FROM %s WHERE %stime >= %d AND time < %d GROUP BY time(%s)%s fill(none)%s",
		strings.Join(calls, ", "), b.source(b.d.From), where, b.from, b.to, length, tags, zone)
	err = b.run(b.d.From, text, func(s *result.Series) error {
		columns := *s
		columns.Columns = b.wanted(s.Columns)
		c := b.cells(&columns)
		begin := -1 // of rows that are to be written
		for i := range s.Rows {
			if b.differs(c, i) {
				if begin < 0 {
					begin = i
				}
				continue
			}
			if err := b.write(c, begin, i); err != nil {
				return err
			}
			begin = -1
		}
		return b.write(c, begin, s.Rows)
	})
	if err == nil {
		err = b.flush()
	}
	return err
}

// calls returns the calls of the SELECT that computes the windows.
func (b *batch) calls() (out []string, err error) {
	for _, f := range b.functions {
		switch {
		case meta.Call(f) != f: // wildcards leave text out, and would name the column by the call
			fields, err := b.fields(b.d.Folds || meta.TakesText(f))
			if err != nil {
				return nil, err
			}
			for _, field := range fields {
				call, of := meta.Call(f), field
				if b.d.Folds {
					call, of = meta.Fold(f), strings.TrimPrefix(field, f+"_")
				}
				if slices.Contains(b.definition.ColumnsOf(of), f) && (!b.d.Folds || of != field) {
					out = append(out, fmt.Sprintf("%s(%s) AS %s", call, influxql.QuoteIdent(field), influxql.QuoteIdent(f+"_"+of)))
				}
			}
		case b.d.Folds:
			out = append(out, fmt.Sprintf("%s(/^%s_/)", meta.Fold(f), f))
		case slices.Contains(b.definition.ColumnsOf(""), f):
			out = append(out, f+"(*)")
		default:
			out = append(out, f+"(/^"+oneOfFields(b.definition.Fields())+"$/)")
		}
	}
	return out, nil
}

// fields returns the fields that the source has: all, or those of numbers.
func (b *batch) fields(all bool) ([]string, error) {
	keys := map[string]bool{}
	err := b.view(b.d.From, model.TimeRange{Min: b.from, Max: b.to - 1}, func(sh scan.Shard) error {
		for _, field := range sh.Fields(b.measurement) {
			if all || field.Type.Numeric() {
				keys[field.Key] = true
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(keys)), err
}

// wanted returns the columns of the target that columns of the answer are for, "" for those that
// the target does not have.
func (b *batch) wanted(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		for _, f := range b.functions {
			prefix := f + "_"
			if b.d.Folds && meta.Call(f) == f {
				prefix = meta.Fold(f) + "_" + prefix
			}
			if field, ok := strings.CutPrefix(name, prefix); ok && slices.Contains(b.definition.ColumnsOf(field), f) {
				out[i] = f + "_" + field
			}
		}
	}
	return out
}

// oneOfFields returns a regular expression for the names of fields.
func oneOfFields(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strings.ReplaceAll(regexp.QuoteMeta(name), "/", `\/`)
	}
	return "(" + strings.Join(quoted, "|") + ")"
}

// tags returns the tags that rows keep, as GROUP BY names them behind the windows.
func (b *batch) tags() (string, error) {
	keep := b.definition.By
	switch {
	case b.definition.Grouped:
	case len(b.definition.Without) == 0:
		return ", *", nil
	default:
		keys := map[string]bool{}
		err := b.view(b.d.From, model.TimeRange{Min: b.from, Max: b.to - 1}, func(sh scan.Shard) error {
			list, err := sh.TagKeys(b.measurement)
			for _, key := range list {
				if b.definition.Keeps(key) {
					keys[key] = true
				}
			}
			return err
		})
		if err != nil {
			return "", err
		}
		keep = slices.Sorted(maps.Keys(keys))
	}
	text := ""
	for _, key := range keep {
		text += ", " + influxql.QuoteIdent(key) + "::tag"
	}
	return text, nil
}

// differs reports whether a row of the source is to be written.
func (b *batch) differs(c *cells, i int) bool {
	key, want := c.key(i), c.row(i)
	if want.fields == 0 {
		return false
	}
	b.want.add(key, want)
	have, ok := b.have[key]
	switch {
	case !ok:
		return true
	case have.fields != want.fields:
		return false // it is stale: deleted, and written in the next round
	}
	have.fresh = true
	b.have[key] = have
	b.left--
	return have.values != want.values
}

// write keeps the rows [lo, hi) for the next flush.
func (b *batch) write(c *cells, lo, hi int) error {
	if lo < 0 || lo == hi {
		return nil
	}
	into := &result.IntoBatch{
		Database: b.db.Name, RetentionPolicy: b.d.Into, Measurement: b.measurement, Tags: c.tags, Times: c.times[lo:hi],
		Frees: b.from < b.expired,
	}
	for i := range c.columns {
		into.Fields = append(into.Fields, c.columns[i].name)
		into.Columns = append(into.Columns, c.columns[i].Slice(lo, hi))
	}
	b.pending = append(b.pending, into)
	if b.rows += hi - lo; b.rows >= writeRows {
		return b.flush()
	}
	return nil
}

// flush writes what is pending. Of rows that cannot be stored the others are.
func (b *batch) flush() error {
	if len(b.pending) == 0 {
		return nil
	}
	err := b.opt.Write(b.ctx, b.pending)
	if _, _, partial := point.Partial(err); partial {
		b.refused, err = err, nil
	}
	b.written.Add(uint64(b.rows))
	b.pending, b.rows, b.changed = nil, 0, true
	return err
}

// removeStale deletes the rows of the target that the source does not have, or has with
// other fields.
func (b *batch) removeStale() error {
	if b.left == 0 {
		return nil
	}
	ranges := map[model.TimeRange][]model.Tags{}
	var tags model.Tags
	var r model.TimeRange
	n := 0
	end := func() error {
		if n == 0 {
			return nil
		}
		b.deleted.Add(uint64(n))
		n = 0
		ranges[r] = append(ranges[r], tags)
		size := int64(rowBytes)
		for _, t := range tags {
			size += int64(len(t.Key) + len(t.Value) + 32)
		}
		return b.memory.Hold(b.ctx, size)
	}
	err := b.target(func(c *cells, i int, got row) error {
		if have, ok := b.have[c.key(i)]; !ok || have.fresh || got.fields == 0 { // it is new, or right, or another's
			return end()
		}
		if n == 0 || !slices.Equal(tags, c.all) {
			if err := end(); err != nil {
				return err
			}
			tags, r.Min = c.all, c.times[i]
		}
		r.Max = c.times[i]
		n++
		return nil
	})
	if err := errors.Join(err, end()); err != nil {
		return err
	}
	for r, series := range ranges {
		for some := range slices.Chunk(series, deleteMost) {
			err := b.opt.Delete(b.ctx, scan.DeleteRequest{
				Database: b.db.Name, RetentionPolicy: b.d.Into, Range: r,
				Measurement: func(name string) bool { return name == b.measurement },
				Where:       func(string, []column.Field) (*model.TagExpr, error) { return oneOf(some), nil },
			})
			if err != nil {
				return err
			}
			b.changed = true
		}
	}
	return nil
}

// oneOf selects the series that have exactly these tags, of all tags that the measurement
// has.
func oneOf(series []model.Tags) *model.TagExpr {
	var any *model.TagExpr
	for _, tags := range series {
		one := &model.TagExpr{Op: model.TagAll}
		for _, t := range tags {
			one = &model.TagExpr{Op: model.TagAnd, Left: one, Right: &model.TagExpr{Op: model.TagEqual, Key: t.Key, Value: t.Value}}
		}
		if any == nil {
			any = one
		} else {
			any = &model.TagExpr{Op: model.TagOr, Left: any, Right: one}
		}
	}
	return any
}

// cells are the fields of the downsample in some rows of a series.
type cells struct {
	seed    maphash.Seed
	all     model.Tags // with those that are empty
	tags    model.Tags
	series  uint64
	times   []int64
	columns []cell
}

type cell struct {
	column.Vector
	name string
	hash uint64 // of the name
}

// cells takes the fields of the downsample from rows.
func (b *batch) cells(s *result.Series) *cells {
	c := &cells{seed: b.seed, all: s.Tags}
	for _, t := range s.Tags {
		if t.Value == "" {
			continue
		}
		c.tags = append(c.tags, t)
		c.series = mix(c.series^maphash.String(c.seed, t.Key), maphash.String(c.seed, t.Value))
	}
	for i, name := range s.Columns {
		switch {
		case i == s.Time:
			c.times = s.Values[i].Ints
		case s.Values[i].Type != model.Unknown && b.ours(name):
			c.columns = append(c.columns, cell{expr.Finite(s.Values[i]), name, maphash.String(c.seed, name)})
		}
	}
	return c
}

// ours reports whether a field has the name of one of the downsample.
func (b *batch) ours(name string) bool {
	return slices.ContainsFunc(b.functions, func(f string) bool { return strings.HasPrefix(name, f+"_") })
}

// key returns the hash of the series and the time of a row.
func (c *cells) key(i int) uint64 { return mix(c.series, uint64(c.times[i])) }

// exact bounds the integers that a float holds. A field that has other types in other
// shards is read with the widest of them: equal numbers have equal hashes.
const exact = 1 << 53

// row returns the hashes of the fields of a row.
func (c *cells) row(i int) row {
	var r row
	for k := range c.columns {
		col := &c.columns[k]
		if !col.IsValid(i) {
			continue
		}
		var word uint64
		kind := col.Type
		switch col.Type {
		case model.Float:
			word = math.Float64bits(col.Floats[i])
		case model.Integer:
			if word = uint64(col.Ints[i]); col.Ints[i] > -exact && col.Ints[i] < exact {
				word, kind = math.Float64bits(float64(col.Ints[i])), model.Float
			}
		case model.Unsigned:
			if word = col.Uints[i]; word < exact {
				word, kind = math.Float64bits(float64(word)), model.Float
			}
		case model.Boolean:
			word = 2
			if col.Bools[i] {
				word = 3
			}
		case model.String:
			word = maphash.String(c.seed, col.Strings[i])
		}
		r.fields += mix(col.hash, 1) | 1
		r.values += mix(col.hash^uint64(kind), word)
	}
	return r
}

// mix returns a hash of two words.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xe7037ed1a0b428db)
	return hi ^ lo
}
