package engine

import (
	"context"
	"runtime"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// Options says in which surroundings a SELECT runs. The zero value works.
type Options struct {
	Now time.Time // zero: the clock
	// ChunkSize cuts the answer into Results of at most so many rows, each of
	// one series; 0 gives one Result.
	ChunkSize int
	// Turn is the query's share of the cores; nil never waits.
	Turn *admission.Turn
	// Workers bounds the goroutines of one query; 0 is the number of CPUs.
	// Results do not depend on it.
	Workers int

	MaxSelectPoint   int   // points read; 0 is no limit
	MaxSelectSeries  int   // series opened; 0 is no limit
	MaxSelectBuckets int   // windows of GROUP BY time; 0 is no limit
	MemoryBytes      int64 // data held at once; 0 is DefaultMemoryBytes, < 0 no limit

	// Account is charged for the data held; nil is no limit.
	Account *admission.Account

	// Warn takes texts for the client that go with the answer, before the first
	// Result; nil drops them.
	Warn func(text string)

	// Tests make these small. 0 is the default.
	streamRows int64 // rows of one output series in a slice on its way out, about
	workRows   int   // rows an operator works on between two looks at the context

	// Into receives the rows of SELECT ... INTO. Without it such a statement fails.
	Into func(ctx context.Context, b *result.IntoBatch) error
}

// DefaultMemoryBytes bounds the data one SELECT holds at once unless told
// otherwise. Results that are not sent in chunks count.
const DefaultMemoryBytes = 2 << 30

// exec is one running SELECT: what all its levels share.
type exec struct {
	*budget
	opt     Options
	storage scan.Storage
	stop    admission.Stopper
	prof    *profile // of EXPLAIN ANALYZE, else nil
	views   map[[2]string]scan.View
	warned  int // losses that the client was told of
}

func newExec(ctx context.Context, storage scan.Storage, opt Options) *exec {
	if opt.Now.IsZero() {
		opt.Now = time.Now().UTC()
	}
	if opt.streamRows == 0 {
		opt.streamRows = 1 << 20
	}
	if opt.MemoryBytes == 0 {
		opt.MemoryBytes = DefaultMemoryBytes
	}
	x := &exec{opt: opt, storage: storage, views: map[[2]string]scan.View{}, budget: &budget{
		ctx: ctx, turn: opt.Turn, claim: opt.Account.Claim(ctx, opt.Turn, opt.MemoryBytes), workers: opt.Workers, workRows: opt.workRows,
		maxMemory: opt.MemoryBytes, maxPoints: int64(opt.MaxSelectPoint), maxSeries: opt.MaxSelectSeries,
	}}
	if x.workers <= 0 {
		x.workers = runtime.GOMAXPROCS(0)
	}
	x.stop = x.stopper()
	return x
}

// Select plans and runs stmt and hands its answer to emit piece by piece,
// in order, from the calling goroutine. An error ends the statement; Results
// handed out before it stay valid. stmt is not changed.
func Select(ctx context.Context, stmt *influxql.SelectStatement, storage scan.Storage, opt Options, emit func(*result.Result) error) error {
	x := newExec(ctx, storage, opt)
	defer x.release()
	l, err := x.plan(stmt)
	if err != nil {
		return err
	}
	return x.answer(l, emit)
}

// answer runs the outermost level of a statement.
func (x *exec) answer(l *level, emit func(*result.Result) error) error {
	if l.stmt.Target != nil {
		return x.runInto(l, emit)
	}
	out := &emitter{x: x, level: l, chunk: x.opt.ChunkSize, emit: emit, columns: l.stmt.ColumnNames()}
	if l.stmt.Location != nil {
		out.zone = l.stmt.Location.String()
	}
	if err := x.run(l, out.frame); err != nil {
		return err
	}
	return out.flush()
}

func (x *exec) release() {
	for _, v := range x.views {
		v.Release()
	}
	x.claim.Release()
}

// frame is a run of rows of one output series of a level. The rows of a series
// come in consecutive frames, in the level's time order.
type frame struct {
	name  string
	tuple []string // values of level.dims
	times []int64
	cols  []column.Vector // as the level's columns without time; Unknown is all null
	// values is what cols lies in from place 1 on; it goes to the consumer. Nil
	// if somebody else has it.
	values []column.Vector
}

// emitter turns the frames of the outermost level into Results.
type emitter struct {
	x       *exec
	level   *level
	chunk   int
	emit    func(*result.Result) error
	columns []string
	zone    string
	pending *result.Result
	held    int64 // bytes that pending is accounted for
	text    int64 // part of held: bytes of strings
}

// chunkText is how many bytes of strings a chunk has, at most: it ends before
// its last row otherwise. A row that has more stands alone.
const chunkText = 4 << 20

// texts returns the end of the rows of f from lo on that a chunk takes which has
// text bytes of strings, hi at most, and the bytes of their strings.
func (f *frame) texts(lo, hi int, text int64) (end int, bytes int64) {
	var columns []*column.Vector
	for i := range f.cols {
		if f.cols[i].Type == model.String {
			columns = append(columns, &f.cols[i])
		}
	}
	if len(columns) == 0 {
		return hi, 0
	}
	for end = lo; end < hi; end++ {
		n := int64(0)
		for _, v := range columns {
			n += int64(len(v.Strings[end]))
		}
		if end > lo && text+bytes+n > chunkText {
			break
		}
		bytes += n
	}
	return end, bytes
}

// hold accounts for rows of f that are added to pending.
func (o *emitter) hold(f *frame, rows int, text int64) error {
	bytes := 8*int64(rows) + text
	for i := range f.cols {
		bytes += expr.VectorBytes(f.cols[i].Type, rows)
	}
	o.held += bytes
	o.text += text
	return o.x.keep(bytes)
}

// send emits pending, and gives back what it is accounted for.
func (o *emitter) send() error {
	if err := o.emit(o.pending); err != nil {
		return err
	}
	o.pending = nil
	o.x.kept.Add(-o.held)
	o.held, o.text = 0, 0
	return nil
}

func (o *emitter) frame(f *frame) error {
	n := len(f.times)
	if n == 0 {
		return nil
	}
	if o.chunk <= 0 {
		if o.pending == nil {
			o.pending = &result.Result{}
		}
		before := len(o.pending.Series)
		o.add(o.pending, f, 0, n)
		text := int64(0)
		for i := range f.cols {
			text += expr.TextBytes(&f.cols[i], 0, n)
		}
		if len(o.pending.Series) > before {
			text += 128 + 32*int64(len(o.level.dims)) + 128*int64(len(o.columns)) // the series itself
		}
		return o.hold(f, n, text)
	}
	// A chunk ends at chunk rows, at chunkText, or with the series. The last one
	// is held back until it is known whether more follow.
	for lo := 0; lo < n; {
		if p := o.pending; p != nil {
			s := p.Series[0]
			if same := o.sameSeries(s, f); !same || s.Rows >= o.chunk || o.text >= chunkText {
				if err := o.x.check(); err != nil {
					return err
				}
				p.Partial = true
				s.Partial = same
				if err := o.send(); err != nil {
					return err
				}
			}
		}
		if o.pending == nil {
			o.pending = &result.Result{}
		}
		room := o.chunk
		if len(o.pending.Series) > 0 {
			room -= o.pending.Series[0].Rows
		}
		hi, text := f.texts(lo, min(n, lo+room), o.text)
		o.add(o.pending, f, lo, hi)
		if err := o.hold(f, hi-lo, text); err != nil {
			return err
		}
		if lo = hi; lo < n && text > 0 {
			o.text = max(o.text, chunkText) // full, however few its rows
		}
	}
	return nil
}

func (o *emitter) sameSeries(s *result.Series, f *frame) bool {
	if s.Name != f.name {
		return false
	}
	for i, k := range o.level.dims {
		if s.Tags[i].Key != k || s.Tags[i].Value != f.tuple[i] {
			return false
		}
	}
	return true
}

func (o *emitter) add(r *result.Result, f *frame, lo, hi int) {
	var s *result.Series
	if n := len(r.Series); n > 0 && o.sameSeries(r.Series[n-1], f) {
		s = r.Series[n-1]
	} else {
		s = &result.Series{Name: f.name, Columns: o.columns, Zone: o.zone}
		whole := lo == 0 && hi == len(f.times) && len(f.values) == len(o.columns)
		if s.Values = f.values; !whole {
			s.Values = make([]column.Vector, len(o.columns))
		}
		for i, k := range o.level.dims {
			s.Tags = append(s.Tags, model.Tag{Key: k, Value: f.tuple[i]})
		}
		s.Values[0].Type = model.Integer
		r.Series = append(r.Series, s)
	}
	if s.Rows == 0 && lo == 0 && hi == len(f.times) {
		s.Values[0].Ints = f.times
		copy(s.Values[1:], f.cols)
		s.Rows = hi
		return
	}
	s.Values[0].Ints = append(s.Values[0].Ints[:s.Rows:s.Rows], f.times[lo:hi]...)
	for i := range f.cols {
		extend(&s.Values[i+1], s.Rows, &f.cols[i], lo, hi)
	}
	s.Rows += hi - lo
}

// extend appends rows of src to a column that has n rows. Either may be of
// type Unknown; columns of different types become the wider one if both are
// numbers, else what does not fit is null.
func extend(dst *column.Vector, n int, src *column.Vector, lo, hi int) {
	switch {
	case src.Type == model.Unknown && dst.Type == model.Unknown:
		return
	case src.Type == model.Unknown:
		for range hi - lo {
			dst.AppendNull()
		}
		return
	case dst.Type == model.Unknown:
		dst.Type = src.Type
		for range n {
			dst.AppendNull()
		}
	case src.Type != dst.Type && src.Type.Numeric() && dst.Type == model.Float:
		v := expr.CastVector(src, model.Float)
		src = &v
	case src.Type == model.Float && dst.Type.Numeric():
		*dst = expr.CastVector(dst, model.Float)
	}
	expr.AppendRows(dst, src, lo, hi, nil)
}

func (o *emitter) flush() error {
	if o.pending == nil {
		return nil
	}
	return o.send()
}
