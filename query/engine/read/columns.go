package read

import (
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// Columns is what a scan of one shard must decode: the output fields and the fields
// that the row predicate names.
type Columns struct {
	Fields []string // Request.Fields
	Out    []BoundColumn
	refs   map[*influxql.VarRef]BoundColumn // of the predicate and of computed columns
	Filter influxql.Expr
	exact  bool   // every field read counts for the existence of a row
	first  bool   // the first of out alone does
	Texts  bool   // some field is of strings
	floats []bool // by field: whether it is of floats
}

// BoundColumn ties a reference to a column of the request.
type BoundColumn struct {
	Ref   influxql.VarRef
	Type  model.FieldType // of the output
	Index int             // of Request.Fields; -1: not in this shard
	Tag   bool
	Cast  bool
	Lossy bool // a cast after which infinities are no values
	// Computed is what the column is computed from, in place of Index; nil: of nothing.
	Computed influxql.Expr
}

// HasValues reports whether rows of the shard may have values of the column.
func (b *BoundColumn) HasValues() bool { return b.Index >= 0 || b.Computed != nil }

// Bind resolves refs and the predicate's fields against a shard. It reports
// false if none of refs can have a value there.
func (u *Unit) Bind(refs []influxql.VarRef) (*Columns, bool) {
	cs := &Columns{Filter: u.Filter, exact: true, refs: map[*influxql.VarRef]BoundColumn{}}
	stored := u.Shard.Fields(u.Source.Name)
	place := make(map[string]int, len(refs))
	one := func(ref influxql.VarRef) BoundColumn {
		b := BoundColumn{Ref: ref, Type: expr.FieldType(ref.Type), Index: -1}
		if ref.Type == influxql.Tag {
			b.Tag = true
			return b
		}
		at, ok := column.FindField(stored, ref.Val)
		if !ok || b.Type == model.Unknown || !expr.Castable(stored[at].Type, b.Type) {
			return b
		}
		f := stored[at]
		n := len(cs.Fields)
		if cs.Fields, b.Index = expr.Place(cs.Fields, place, f.Key); len(cs.Fields) > n {
			cs.Texts = cs.Texts || f.Type == model.String
			cs.floats = append(cs.floats, f.Type == model.Float)
		}
		b.Cast = f.Type != b.Type
		b.Lossy = b.Cast && f.Type == model.Float
		return b
	}
	any := false
	cs.Out = make([]BoundColumn, 0, len(refs))
	for _, ref := range refs {
		b := u.bind(cs, ref, one)
		any = any || b.HasValues()
		cs.Out = append(cs.Out, b)
	}
	if !any {
		return nil, false
	}
	n := len(cs.Fields)
	if cs.Filter != nil {
		influxql.WalkFunc(cs.Filter, func(node influxql.Node) {
			if ref, ok := node.(*influxql.VarRef); ok {
				b := one(*ref)
				b.Tag = !expr.IsFieldRef(ref)
				cs.refs[ref] = b
			}
		})
	}
	cs.exact = len(cs.Fields) == n && !slices.ContainsFunc(cs.Out, func(b BoundColumn) bool { return b.Lossy })
	return cs, true
}

// bind resolves a column of a subquery that the unit is read for. one resolves what
// the shard has. A column of which a part is missing has no values.
func (u *Unit) bind(cs *Columns, ref influxql.VarRef, one func(influxql.VarRef) BoundColumn) BoundColumn {
	if u.Columns == nil {
		return one(ref)
	}
	e := u.Columns[ref.Val]
	if field, ok := e.(*influxql.VarRef); ok && field.Type == ref.Type {
		return one(*field)
	}
	out := BoundColumn{Ref: ref, Type: expr.FieldType(ref.Type), Index: -1, Computed: e}
	influxql.WalkFunc(e, func(node influxql.Node) {
		if field, ok := node.(*influxql.VarRef); ok {
			b := one(*field)
			if cs.refs[field] = b; b.Index < 0 {
				out.Computed = nil
			}
		}
	})
	return out
}

// needFirst has only the rows with a value of the first column exist.
func (cs *Columns) needFirst() {
	cs.first = true
	cs.exact = len(cs.Fields) == 1 && cs.Out[0].Index == 0 && !cs.Out[0].Lossy
}

// Request returns the scan of cs over a set of series.
func (cs *Columns) Request(u *Unit, r model.TimeRange, asc bool) scan.Request {
	return scan.Request{Measurement: u.Source.Name, Series: u.Series, Fields: cs.Fields, Range: r, Descending: !asc}
}

// Scan opens a cursor over a set of series, whose texts the reader counts and
// charges the statement for. The caller must close it.
func (r *ChunkReader) Scan(x *Budget, u *Unit, set *roaring.Bitmap, rng model.TimeRange, asc bool, did *Counts) (scan.Cursor, error) {
	req := r.Columns.Request(u, rng, asc)
	req.Series = set
	if r.Columns.Texts {
		req.Charge = func(n int64) error {
			r.Text += n
			return x.decode(n)
		}
	}
	return x.Open(u.Shard, req, did)
}

// ChunkReader decodes the columns of one chunk at a time and picks its rows. It is
// the one place where a NaN becomes no value for InfluxQL: columns have no NaN, rows
// without another value do not exist, and a column with a NaN has no statistics.
type ChunkReader struct {
	Columns *Columns
	ev      expr.Evaluator
	scratch expr.Scratch // of computed columns
	Tags    model.Tags   // of the current series; set when the predicate or the output names tags
	c       scan.Chunk
	cols    []*column.Vector // decoded, by place in the request
	nan     []nanState       // by place in the request
	cast    []column.Vector  // converted or computed, by place in cs.out
	done    []bool
	rows    []int32
	stats   scan.Stats // memory of rowScan.edge
	Err     error

	Text   int64 // bytes of texts that the cursor holds for the chunk
	Merged bool  // it held some before a column was asked for

	decider *decider // nil: the predicate must be evaluated
}

// NewChunkReader returns a reader of chunks that have the fields of cs.
func NewChunkReader(cs *Columns) *ChunkReader {
	r := &ChunkReader{
		Columns: cs, cols: make([]*column.Vector, len(cs.Fields)), nan: make([]nanState, len(cs.Fields)),
		cast: make([]column.Vector, len(cs.Out)), done: make([]bool, len(cs.Out)),
	}
	r.ev.Lookup = r.lookup
	if cs.Filter != nil {
		r.decider = newDecider(cs)
	}
	return r
}

// tags returns how many of the output columns are tags.
func (cs *Columns) tags() (n int) {
	for i := range cs.Out {
		if cs.Out[i].Tag {
			n++
		}
	}
	return n
}

// NeedsTags reports whether the tags of each series must be known.
func (cs *Columns) NeedsTags() bool {
	return cs.tags() > 0 || cs.filtersTags()
}

// filtersTags reports whether the predicate names tags.
func (cs *Columns) filtersTags() bool {
	for _, b := range cs.refs {
		if b.Tag {
			return true
		}
	}
	return false
}

// Reset makes c the present chunk.
func (r *ChunkReader) Reset(c scan.Chunk) {
	r.c, r.Merged = c, r.Text > 0
	r.scratch.Reset()
	clear(r.cols)
	clear(r.nan)
	clear(r.done)
}

func (r *ChunkReader) column(i int) *column.Vector {
	if r.cols[i] == nil {
		v, err := r.c.Column(i)
		if err != nil {
			r.Err = err
			v = &column.Vector{}
		} else if r.mayHaveNaN(i) && vector.HasNaN(v.Floats) {
			clean := expr.WithoutNaN(*v)
			v = &clean
		}
		r.cols[i] = v
	}
	return r.cols[i]
}

// nanState is what is known of the NaNs of a column.
type nanState uint8

const (
	nanUnknown nanState = iota
	nanNone
	nanSome // there may be some
)

// mayHaveNaN reports whether a value of field i of the chunk may be NaN.
func (r *ChunkReader) mayHaveNaN(i int) bool {
	if !r.Columns.floats[i] {
		return false
	}
	if r.nan[i] == nanUnknown {
		r.nan[i] = nanNone
		if r.c.MayHaveNaN(i) {
			r.nan[i] = nanSome
		}
	}
	return r.nan[i] == nanSome
}

// Stats is Stats of the chunk. A column that may have a NaN has none.
func (r *ChunkReader) Stats(i int, st *scan.Stats) bool {
	return r.c.Stats(i, st) && r.usable(i, st)
}

// Sum is Sum of the chunk. A column that may have a NaN has none.
func (r *ChunkReader) Sum(i int, st *scan.Stats) bool {
	return r.c.Sum(i, st) && r.usable(i, st)
}

// usable reports whether no NaN is in the statistics of column i: one would have made
// the sum NaN.
func (r *ChunkReader) usable(i int, st *scan.Stats) bool {
	return !r.Columns.floats[i] || st.Count == 0 || !math.IsNaN(math.Float64frombits(st.Sum))
}

// Count is Count of the chunk for a column. If the column may have a NaN, or loses
// values by a cast, it must be decoded.
func (r *ChunkReader) Count(b *BoundColumn) (int, bool) {
	n, ok := r.c.Count(b.Index)
	if !ok || n == 0 || b.Lossy || r.mayHaveNaN(b.Index) {
		return 0, ok && n == 0
	}
	return n, true
}

// OwnTexts returns the bytes of memory that the texts of rows [lo, n) of buf keep
// alive, which were taken from the present chunk. Where they are a small part of
// what the chunk decoded, they are copied, so that the rest can go.
func (r *ChunkReader) OwnTexts(buf *rowset.Set, lo int) int64 {
	if !r.Columns.Texts {
		return 0
	}
	var n int64
	for i := range buf.Cols {
		if buf.Cols[i].Type == model.String {
			for _, text := range buf.Cols[i].Strings[lo:] {
				n += int64(len(text))
			}
		}
	}
	switch {
	case r.Text == 0: // they lie in a cache, each of its own
		return n
	case n < r.Text/4:
		for i := range buf.Cols {
			if buf.Cols[i].Type == model.String {
				list := buf.Cols[i].Strings[lo:]
				for k := range list {
					list[k] = strings.Clone(list[k])
				}
			}
		}
		return n
	case r.Merged:
		return max(n, r.Text)
	}
	return r.Text // a text that several rows have lies there once
}

// Output returns output column i of the chunk in its final type.
func (r *ChunkReader) Output(i int) *column.Vector {
	b := &r.Columns.Out[i]
	switch {
	case b.Computed != nil:
		if !r.done[i] {
			r.cast[i], r.done[i] = r.compute(b), true
		}
		return &r.cast[i]
	case b.Index < 0:
		return &column.Vector{}
	}
	v := r.column(b.Index)
	if !b.Cast {
		return v
	}
	if !r.done[i] {
		r.cast[i], r.done[i] = expr.CastVector(v, b.Type), true
	}
	return &r.cast[i]
}

// compute returns a column that is computed of others, as a SELECT gives it to another.
func (r *ChunkReader) compute(b *BoundColumn) column.Vector {
	ev := expr.Evaluator{Rows: r.c.Len(), Lookup: r.lookup, FloatDivision: true, Scratch: &r.scratch}
	o := ev.Eval(b.Computed)
	v := o.Expand(ev.Rows)
	return expr.WithoutNaN(expr.CastVector(&v, b.Type))
}

func (r *ChunkReader) lookup(ref *influxql.VarRef) expr.Operand {
	b, ok := r.Columns.refs[ref]
	switch {
	case !ok:
		return expr.Null()
	case b.Tag:
		return expr.Operand{Constant: true, Vector: column.Vector{Type: model.String, Strings: []string{r.Tags.Get(ref.Val)}}}
	case b.Index < 0:
		return expr.Operand{Constant: true, Stored: true}
	}
	v := r.column(b.Index)
	if b.Cast {
		return expr.Operand{Vector: expr.CastVector(v, b.Type), Stored: true}
	}
	return expr.Operand{Vector: *v, Stored: true}
}

// Pick returns the rows of the chunk that satisfy the predicate and have one
// of the output fields. all means all of them, then rows is nil.
func (r *ChunkReader) Pick() (rows []int32, all bool) {
	rows, all = r.filter()
	if !all && len(rows) == 0 || r.Columns.exact && !r.anyNaN() {
		return rows, all
	}
	var valid []*column.Vector
	for i := range r.Columns.Out {
		if i > 0 && r.Columns.first {
			break
		}
		if !r.Columns.Out[i].HasValues() {
			continue
		}
		v := r.Output(i)
		if v.Type == model.Unknown {
			continue
		}
		if v.Valid == nil {
			return rows, all
		}
		valid = append(valid, v)
	}
	n := len(rows)
	if all {
		n = r.c.Len()
	}
	kept := r.rows[:0] // behind the row that is looked at
	for k := range n {
		i := k
		if !all {
			i = int(rows[k])
		}
		if slices.ContainsFunc(valid, func(v *column.Vector) bool { return v.Valid.Get(i) }) {
			kept = append(kept, int32(i))
		}
	}
	r.rows = kept
	if all && len(kept) == n {
		return nil, true
	}
	return kept, false
}

// anyNaN reports whether a value of the chunk may be NaN.
func (r *ChunkReader) anyNaN() bool {
	for i := range r.nan {
		if r.mayHaveNaN(i) {
			return true
		}
	}
	return false
}

// filter returns the rows that satisfy the predicate.
func (r *ChunkReader) filter() (rows []int32, all bool) {
	if r.Columns.Filter == nil {
		return nil, true
	}
	if r.decider != nil {
		switch none, all := r.decider.decide(r.Columns.Filter, r); {
		case none:
			return nil, false
		case all:
			return nil, true
		}
	}
	r.ev.Rows = r.c.Len()
	if r.rows, all = r.ev.SelectRows(r.Columns.Filter, r.rows[:0]); all {
		return nil, true
	}
	return r.rows, false
}

// RowTime returns the time of a row without decoding when it can.
func RowTime(c scan.Chunk, row int) (int64, error) {
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
