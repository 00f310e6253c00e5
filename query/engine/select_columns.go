package engine

import (
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
)

// columnSet is what a scan of one shard has to decode: the fields to hand on
// and those the row predicate names.
type columnSet struct {
	fields []string // Request.Fields
	out    []boundColumn
	cond   map[*influxql.VarRef]boundColumn // of the predicate's references
	rest   influxql.Expr
	exact  bool // every field read counts for the existence of a row
	first  bool // the first of out alone does
	texts  bool // some field is of strings
}

// boundColumn ties a reference to a column of the request.
type boundColumn struct {
	ref   influxql.VarRef
	typ   model.FieldType // as it is handed on
	index int             // of Request.Fields; -1: not in this shard
	tag   bool
	cast  bool
}

// bind resolves refs and the predicate's fields against a shard. It reports
// false if none of refs can have a value there.
func (u *unit) bind(refs []influxql.VarRef) (*columnSet, bool) {
	cs := &columnSet{rest: u.rest, exact: true}
	stored := u.shard.Fields(u.src.name)
	place := map[string]int{}
	one := func(ref influxql.VarRef) boundColumn {
		b := boundColumn{ref: ref, typ: fieldType(ref.Type), index: -1}
		if ref.Type == influxql.Tag {
			b.tag = true
			return b
		}
		for _, f := range stored {
			if f.Key != ref.Val || b.typ == model.Unknown || !expr.Castable(f.Type, b.typ) {
				continue
			}
			i, ok := place[f.Key]
			if !ok {
				i = len(cs.fields)
				place[f.Key] = i
				cs.fields = append(cs.fields, f.Key)
				cs.texts = cs.texts || f.Type == model.String
			}
			b.index, b.cast = i, f.Type != b.typ
		}
		return b
	}
	any := false
	for _, ref := range refs {
		b := one(ref)
		any = any || b.index >= 0
		cs.out = append(cs.out, b)
	}
	if !any {
		return nil, false
	}
	n := len(cs.fields)
	if cs.rest != nil {
		cs.cond = map[*influxql.VarRef]boundColumn{}
		influxql.WalkFunc(cs.rest, func(node influxql.Node) {
			if ref, ok := node.(*influxql.VarRef); ok {
				b := one(*ref)
				b.tag = !expr.IsFieldRef(ref)
				cs.cond[ref] = b
			}
		})
	}
	cs.exact = len(cs.fields) == n
	return cs, true
}

// needFirst has only the rows with a value of the first column exist.
func (cs *columnSet) needFirst() {
	cs.first = true
	cs.exact = len(cs.fields) == 1 && cs.out[0].index == 0
}

// request returns the scan of cs over a set of series.
func (cs *columnSet) request(u *unit, r model.TimeRange, asc bool) scan.Request {
	return scan.Request{Measurement: u.src.name, Series: u.set, Fields: cs.fields, Range: r, Descending: !asc}
}

// scan opens a cursor over a set of series, whose texts the reader counts and
// charges the statement for. The caller must close it.
func (r *chunkReader) scan(x *budget, u *unit, set *roaring.Bitmap, rng model.TimeRange, asc bool, did *scanCounts) (scan.Cursor, error) {
	req := r.cs.request(u, rng, asc)
	req.Series = set
	if r.cs.texts {
		req.Charge = func(n int64) error {
			r.text += n
			return x.decode(n)
		}
	}
	return x.scan(u.shard, req, did)
}

// chunkReader decodes the columns of one chunk at a time and picks its rows.
type chunkReader struct {
	cs   *columnSet
	ev   expr.Evaluator
	tags model.Tags // of the current series; set when the predicate or the output names tags
	c    scan.Chunk
	cols []*column.Vector // decoded, by place in the request
	cast []column.Vector  // converted, by place in cs.out
	done []bool
	rows []int32
	edge edgeScratch // of rowScan.edge
	err  error

	text   int64 // bytes of texts that the cursor holds for the chunk
	merged bool  // it held some before a column was asked for

	decider *decider // nil: the predicate must be evaluated
}

func newChunkReader(cs *columnSet) *chunkReader {
	r := &chunkReader{
		cs: cs, cols: make([]*column.Vector, len(cs.fields)),
		cast: make([]column.Vector, len(cs.out)), done: make([]bool, len(cs.out)),
	}
	r.ev.Lookup = r.lookup
	if cs.rest != nil {
		r.decider = newDecider(cs)
	}
	return r
}

// tags returns how many of the output columns are tags.
func (cs *columnSet) tags() (n int) {
	for i := range cs.out {
		if cs.out[i].tag {
			n++
		}
	}
	return n
}

// needsTags reports whether the tags of each series must be known.
func (cs *columnSet) needsTags() bool {
	return cs.tags() > 0 || cs.filtersTags()
}

// filtersTags reports whether the predicate names tags.
func (cs *columnSet) filtersTags() bool {
	for _, b := range cs.cond {
		if b.tag {
			return true
		}
	}
	return false
}

func (r *chunkReader) reset(c scan.Chunk) {
	r.c, r.merged = c, r.text > 0
	clear(r.cols)
	clear(r.done)
}

func (r *chunkReader) column(i int) *column.Vector {
	if r.cols[i] == nil {
		v, err := r.c.Column(i)
		if err != nil {
			r.err = err
			v = &column.Vector{}
		}
		r.cols[i] = v
	}
	return r.cols[i]
}

// ownTexts returns the bytes of memory that the texts of rows [lo, n) of buf keep
// alive, which were taken from the present chunk. Where they are a small part of
// what the chunk decoded, they are copied, so that the rest can go.
func (r *chunkReader) ownTexts(buf *rowset, lo int) int64 {
	if !r.cs.texts {
		return 0
	}
	var n int64
	for i := range buf.cols {
		if buf.cols[i].Type == model.String {
			for _, text := range buf.cols[i].Strings[lo:] {
				n += int64(len(text))
			}
		}
	}
	switch {
	case r.text == 0: // they lie in a cache, each of its own
		return n
	case n < r.text/4:
		for i := range buf.cols {
			if buf.cols[i].Type == model.String {
				list := buf.cols[i].Strings[lo:]
				for k := range list {
					list[k] = strings.Clone(list[k])
				}
			}
		}
		return n
	case r.merged:
		return max(n, r.text)
	}
	return r.text // a text that several rows have lies there once
}

// output returns output column i of the chunk in its final type.
func (r *chunkReader) output(i int) *column.Vector {
	b := &r.cs.out[i]
	if b.index < 0 {
		return &column.Vector{}
	}
	v := r.column(b.index)
	if !b.cast {
		return v
	}
	if !r.done[i] {
		r.cast[i], r.done[i] = expr.CastVector(v, b.typ), true
	}
	return &r.cast[i]
}

func (r *chunkReader) lookup(ref *influxql.VarRef) expr.Operand {
	b, ok := r.cs.cond[ref]
	switch {
	case !ok:
		return expr.Null()
	case b.tag:
		return expr.Operand{Constant: true, Vector: column.Vector{Type: model.String, Strings: []string{r.tags.Get(ref.Val)}}}
	case b.index < 0:
		return expr.Operand{Constant: true, Stored: true}
	}
	v := r.column(b.index)
	if b.cast {
		return expr.Operand{Vector: expr.CastVector(v, b.typ), Stored: true}
	}
	return expr.Operand{Vector: *v, Stored: true}
}

// pick returns the rows of the chunk that satisfy the predicate and have one
// of the output fields. all means all of them, then rows is nil.
func (r *chunkReader) pick() (rows []int32, all bool) {
	n := r.c.Len()
	all = true
	if r.cs.rest != nil {
		var none bool
		if all = false; r.decider != nil {
			none, all = r.decider.decide(r.cs.rest, r.c)
		}
		if !none && !all {
			r.ev.Rows = n
			r.rows, all = r.ev.SelectRows(r.cs.rest, r.rows[:0])
			none = !all && len(r.rows) == 0
		}
		if none {
			return nil, false
		}
	}
	if r.cs.exact {
		if all {
			return nil, true
		}
		return r.rows, false
	}
	var valid []*column.Vector
	for i := range r.cs.out {
		if i > 0 && r.cs.first {
			break
		}
		if r.cs.out[i].index < 0 {
			continue
		}
		v := r.output(i)
		if v.Valid == nil && v.Type != model.Unknown {
			if all {
				return nil, true
			}
			return r.rows, false
		}
		valid = append(valid, v)
	}
	has := func(i int) bool {
		for _, v := range valid {
			if v.Type != model.Unknown && v.IsValid(i) {
				return true
			}
		}
		return false
	}
	if all {
		r.rows = r.rows[:0]
		for i := range n {
			if has(i) {
				r.rows = append(r.rows, int32(i))
			}
		}
		if len(r.rows) == n {
			return nil, true
		}
		return r.rows, false
	}
	kept := r.rows[:0]
	for _, i := range r.rows {
		if has(int(i)) {
			kept = append(kept, i)
		}
	}
	r.rows = kept
	return r.rows, false
}

// rowTime returns the time of a row without decoding when it can.
func rowTime(c scan.Chunk, row int) (int64, error) {
	switch {
	case row == 0:
		return c.Min(), nil
	case row == c.Len()-1:
		return c.Max(), nil
	case c.Step() > 0:
		return c.Min() + int64(row)*c.Step(), nil
	}
	times, err := c.Times()
	if err != nil {
		return 0, err
	}
	return times[row], nil
}
