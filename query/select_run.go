package query

import (
	"errors"
	"math"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/result"
)

var errTooManyWindows = errors.New("too many GROUP BY time windows: narrow the time range or widen the interval")

func floatScalar(f float64) scalar {
	return scalar{typ: model.Float, bits: math.Float64bits(f)}
}

// run executes a level and hands its rows to emit: series by series in order,
// the rows of each in order of time.
func (x *exec) run(l *level, emit func(*frame) error) error {
	if l.rng.Empty() {
		return nil
	}
	if x.prof != nil {
		counted, done := x.prof.frames(l, emit)
		defer done()
		emit = counted
	}
	var err error
	if len(l.calls) > 0 {
		err = x.runCalls(l, emit)
	} else {
		err = x.runRaw(l, emit)
	}
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// wanted returns how many rows of a series can be needed, 0 for all.
func (l *level) wanted() int {
	n := result.AddLimits(l.stmt.Limit, l.stmt.Offset)
	switch {
	case l.stmt.Limit <= 0:
		return l.most
	case l.most > 0:
		return min(n, result.AddLimits(l.most, l.stmt.Offset))
	}
	return n
}

// seriesOut cuts the rows of one output series to LIMIT and OFFSET.
type seriesOut struct {
	l     *level
	name  string
	tup   []string
	skip  int
	left  int      // -1: no limit
	carry []scalar // last values, for fill(previous)
	emit  func(*frame) error
}

func (l *level) seriesOut(t *groupTable, g int32, emit func(*frame) error) *seriesOut {
	o := &seriesOut{l: l, name: t.names[g], tup: t.tuples[g], skip: l.stmt.Offset, left: -1, emit: emit}
	if l.stmt.Limit > 0 {
		o.left = l.stmt.Limit
	}
	if l.most > 0 && (o.left < 0 || o.left > l.most) {
		o.left = l.most
	}
	return o
}

// rows emits rows of what project made, and takes it over.
func (o *seriesOut) rows(times []int64, values []column.Vector) error {
	if err := o.l.x.check(); err != nil {
		return err // the rows may be unfinished
	}
	cols := values[1:]
	lo, hi := 0, len(times)
	if o.skip > 0 {
		lo = min(o.skip, hi)
		o.skip -= lo
	}
	if o.left >= 0 {
		hi = min(hi, result.AddLimits(lo, o.left))
		o.left -= hi - lo
	}
	if lo >= hi {
		return nil
	}
	if lo > 0 || hi < len(times) {
		for i := range cols {
			if cols[i].Type != model.Unknown {
				cols[i] = cols[i].Slice(lo, hi)
			}
		}
	}
	return o.emit(&frame{name: o.name, tuple: o.tup, times: times[lo:hi:hi], cols: cols, values: values})
}

// full reports that no more rows are wanted.
func (o *seriesOut) full() bool { return o.left == 0 }

// project evaluates the select list over n rows. cols are the columns of refs,
// or nil where references are null. The columns begin at place 1: the first is
// left for the times. table is cols with a place before them, or nil.
func (l *level) project(n int, cols, table []column.Vector, call func(*influxql.Call) (operand, bool)) []column.Vector {
	if l.bare == nil {
		l.bare = make([]int, len(l.fields))
		for i, e := range l.fields {
			l.bare[i] = -1
			if ref, ok := e.(*influxql.VarRef); ok {
				l.bare[i] = slices.Index(l.refs, *ref)
			}
		}
	}
	if table != nil && l.plain() {
		return table
	}
	lookup := func(ref *influxql.VarRef) operand {
		i := slices.Index(l.refs, *ref)
		if i < 0 || cols == nil || cols[i].Type == model.Unknown {
			return null()
		}
		return operand{v: cols[i]}
	}
	ev := evaluator{n: n, lookup: lookup, call: call, floatDivision: true}
	values := make([]column.Vector, 1+len(l.fields))
	for i, e := range l.fields {
		if at := l.bare[i]; at >= 0 && cols != nil {
			if cols[at].Type != model.Unknown {
				values[1+i] = cols[at]
			}
			continue
		}
		o := ev.eval(e)
		values[1+i] = o.expand(n)
	}
	return values
}

// plain reports whether the select list is the level's columns as they stand.
func (l *level) plain() bool {
	if len(l.fields) != len(l.refs) {
		return false
	}
	for i, at := range l.bare {
		if i != at {
			return false
		}
	}
	return true
}

// fillAux replaces the nulls of a column beside the aggregates, or of a raw
// query, by fill(number), or by the value before with fill(previous). carry is
// the last value of the rows before, and becomes that of these.
func (l *level) fillAux(v column.Vector, n int, typ model.FieldType, carry *scalar) column.Vector {
	number := l.fill == influxql.NumberFill && l.fillTo.typ != model.Unknown
	if !number && l.fill != influxql.PreviousFill {
		return v
	}
	if v.Type == model.Unknown {
		if typ == model.Unknown || !number && carry.typ == model.Unknown {
			return v
		}
		v = column.Vector{Type: typ, Valid: column.NewBitmap(n)}
		v.Resize(n)
	}
	if v.Valid == nil {
		*carry = scalarAt(&v, n-1)
		return v
	}
	s := *carry
	if number {
		s = fillScalar(l.fillTo, v.Type)
	}
	out := column.Vector{Type: v.Type}
	for i := range n {
		if !v.IsValid(i) {
			appendScalar(&out, s)
			continue
		}
		out.AppendFrom(&v, i)
		if !number {
			s = scalarAt(&v, i)
		}
	}
	*carry = s
	return out
}

func scalarOperand(s scalar) operand {
	v := column.Vector{Type: s.typ}
	if s.typ == model.Unknown {
		return null()
	}
	appendScalar(&v, s)
	return operand{konst: true, v: v}
}

// fillScalar converts the number of fill() to a column's type.
func fillScalar(s scalar, t model.FieldType) scalar {
	switch t {
	case model.String:
		return scalar{typ: model.String}
	case model.Boolean:
		return scalar{typ: model.Boolean}
	}
	return castScalar(s, t)
}

// runRaw executes a statement without aggregates.
func (x *exec) runRaw(l *level, emit func(*frame) error) error {
	if !slices.ContainsFunc(l.refs, func(r influxql.VarRef) bool { return r.Type != influxql.Unknown }) {
		return nil
	}
	t := &groupTable{}
	us, err := l.units(x, t, l.rng)
	if err != nil {
		return err
	}
	fromSubs := map[int32][]rowset{}
	err = x.eachSub(l, t, l.refs, func(g int32, rs *rowset) error {
		fromSubs[g] = append(fromSubs[g], *rs)
		return x.keep(rs.bytes())
	})
	if err != nil {
		return err
	}
	if !l.asc {
		// Newest shards first; the sources stay in their order.
		slices.SortStableFunc(us, func(a, b *unit) int {
			if a.order != b.order {
				return a.order - b.order
			}
			return -cmpInt(a.shard.TimeRange().Min, b.shard.TimeRange().Min)
		})
	}
	stream := len(l.sources) == 1 && len(fromSubs) == 0
	order := t.order(l.asc)
	for _, batch := range batches(order) {
		before := x.used.Load()
		if err := x.rawBatch(l, t, us, fromSubs, batch, stream && len(batch) == 1, emit); err != nil {
			return err
		}
		x.used.Store(before)
	}
	return nil
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// batches cuts the groups into runs that are read together: few, so that each
// costs one walk over the shards, but enough that the first rows of many
// groups do not wait for the last.
func batches(order []int32) [][]int32 {
	if len(order) == 0 {
		return nil
	}
	size := max(256, len(order)/32)
	return slices.Collect(slices.Chunk(order, size))
}

// groupSets is the rows of a group, a set for each source.
type groupSets struct {
	list []*rowset
	one  [1]*rowset // memory of list
	of   int        // order of the source of the last one
	full int        // order of the last source of which there are rows enough, plus one
}

func (s *groupSets) add(rs *rowset, order int) {
	switch {
	case s.list == nil:
		s.one[0] = rs
		s.list = s.one[:]
	case s.of != order:
		s.list = append(s.list, rs)
	default:
		s.list[len(s.list)-1].append(rs)
	}
	s.of = order
}

// rawBatch reads and emits some groups. With stream there is one group, whose
// rows are emitted shard by shard.
func (x *exec) rawBatch(l *level, t *groupTable, us []*unit, fromSubs map[int32][]rowset, batch []int32, stream bool, emit func(*frame) error) error {
	limit := l.wanted()
	place := make([]int32, len(t.names)) // in got, counted from 1
	for i, g := range batch {
		place[g] = int32(i) + 1
	}
	all := len(batch) == len(t.names)
	got := make([]groupSets, len(batch))
	var out *seriesOut
	if stream {
		out = l.seriesOut(t, batch[0], emit)
	}
	full := 0 // groups that have what they need of the present source
	lastOrder := -1
	for _, u := range us {
		if u.order != lastOrder {
			lastOrder, full = u.order, 0
		}
		want := func(g int32) bool { return place[g] > 0 && got[place[g]-1].full != u.order+1 }
		if all && full == 0 {
			want = nil
		} else if full == len(batch) {
			continue
		}
		if stream {
			if err := x.streamUnit(l, u, out, limit, want); err != nil || out.full() {
				return err
			}
			continue
		}
		begin := x.prof.start()
		m, _, err := x.collectUnit(u, l.refs, l.rng, l.asc, limit, asInfluxRows, want)
		x.prof.add(l, "read rows", begin)
		if err != nil {
			return err
		}
		for g, rs := range m {
			s := &got[place[g]-1]
			if s.add(rs, u.order); limit > 0 && s.full != u.order+1 && len(s.list[len(s.list)-1].times) >= limit {
				s.full = u.order + 1
				full++
			}
		}
	}
	if stream {
		return nil
	}
	for i, g := range batch {
		list := got[i].list
		for i := range fromSubs[g] {
			list = append(list, &fromSubs[g][i])
		}
		if len(list) == 0 {
			continue
		}
		rs := mergeSets(&x.stop, list, l.asc, l.subTies())
		if err := l.emitRaw(l.seriesOut(t, g, emit), rs); err != nil {
			return err
		}
	}
	return nil
}

// streamRows is about how many rows of one output series a slice holds on their
// way out, at most. Tests lower it.
var streamRows int64 = 1 << 20

// sliceRows is how many rows of each stored series a slice should hold: a chunk
// at its edge is decoded twice, so there should be several.
const sliceRows = 4096

// manySeries is the number of series from which on the first rows of all of
// them are looked for in short slices of time.
const manySeries = 64

// streamUnit emits the rows of the only group of a unit, in slices of its time
// range if there are many.
func (x *exec) streamUnit(l *level, u *unit, out *seriesOut, limit int, want func(int32) bool) error {
	r := l.rng.Intersect(u.shard.TimeRange())
	if limit > 0 && u.set.GetCardinality() >= manySeries {
		return x.streamFirst(l, u, r, out, limit, want)
	}
	if limit == 0 && (u.set.GetCardinality() >= 8 || readsTexts(l.refs)) || streamRows < 1<<10 {
		return x.streamSlices(l, u, r, out, limit, want)
	}
	// As a rule these are few rows, which are read at once and not counted
	// first. But a single series may have any number.
	before, points := x.used.Load(), x.points.Load()
	var failed error
	err := x.emitSlices(1, out, l, func(int) (m map[int32]*rowset, bytes int64, err error) {
		m, bytes, failed = x.collectUnit(u, l.refs, r, l.asc, limit, asInfluxRows, want)
		return m, bytes, failed
	})
	if !errors.Is(failed, ErrMemory) {
		return err
	}
	x.used.Store(before)
	x.points.Store(points)
	return x.streamSlices(l, u, r, out, limit, want)
}

// streamSlices is streamUnit for what may be many rows.
func (x *exec) streamSlices(l *level, u *unit, r model.TimeRange, out *seriesOut, limit int, want func(int32) bool) error {
	rows, bytes, err := x.estimateRows(l, u, r)
	if err != nil {
		return err
	}
	// Short slices, so that one is read while the one before is emitted.
	n := 1 + max(rows/streamRows, min(8*rows/streamRows, rows/(max(1, int64(u.set.GetCardinality()))*sliceRows)))
	if memory := x.memoryBytes(); bytes > memory/4 {
		n = max(n, 16*bytes/memory)
	}
	if n > 1 {
		if b, ok := u.shard.TimeBounds(u.set); ok {
			r = r.Intersect(b)
		}
	}
	if r.Empty() {
		return nil
	}
	step := uint64(r.Max-r.Min)/uint64(n) + 1
	var ranges []model.TimeRange
	for i := range n {
		s := model.TimeRange{Min: r.Min + int64(uint64(i)*step), Max: r.Max}
		if i < n-1 {
			s.Max = r.Min + int64(uint64(i+1)*step) - 1
		}
		if s.Min >= r.Min && !s.Empty() {
			ranges = append(ranges, s)
		}
	}
	if !l.asc {
		slices.Reverse(ranges)
	}
	ties := bySeries
	if len(ranges) == 1 {
		ties = asInfluxRows
	}
	return x.emitSlices(len(ranges), out, l, func(i int) (map[int32]*rowset, int64, error) {
		return x.collectUnit(u, l.refs, ranges[i], l.asc, limit, ties, want)
	})
}

// slice is rows that were read, and the bytes they hold.
type slice struct {
	groups map[int32]*rowset
	bytes  int64
	err    error
}

// emitSlices emits n slices of rows in order. It reads each while the one before is
// emitted if a turn is free for that: two are held at a time. Nothing is being read
// any more when it returns.
func (x *exec) emitSlices(n int, out *seriesOut, l *level, read func(i int) (map[int32]*rowset, int64, error)) error {
	one := func(i int) (s slice) {
		s.err = guard(func(i int) (err error) {
			s.groups, s.bytes, err = read(i)
			return err
		}, i)
		return s
	}
	var next chan slice // of the slice that is being read; nil: none
	wait := func() (s slice, err error) {
		err = x.opt.Turn.Outside(x.ctx, func() error {
			s = <-next
			return nil
		})
		next = nil
		return s, err
	}
	defer func() {
		if next != nil {
			_, _ = wait() // the statement has its result
		}
	}()
	for i := range n {
		begin := x.prof.start()
		var s slice
		if next == nil {
			s = one(i)
		} else if got, err := wait(); err != nil {
			return err
		} else {
			s = got
		}
		x.prof.add(l, "read rows", begin)
		if s.err != nil {
			return s.err
		}
		if i+1 < n && x.workers > 1 && s.bytes <= x.memoryBytes()/8 && x.opt.Turn.more(1) == 1 {
			ch := make(chan slice, 1)
			next = ch
			go func() {
				s := one(i + 1)
				x.opt.Turn.leave()
				ch <- s
			}()
		}
		for _, rs := range s.groups {
			if err := l.emitRaw(out, rs); err != nil {
				return err
			}
		}
		x.used.Add(-s.bytes)
		if out.full() {
			break
		}
	}
	return nil
}

// streamFirst emits the first rows of the only group of a unit, in the level's
// direction. Where rows must be read to know which of them count, or very many
// are wanted, it reads a short slice of time of all series, then longer ones
// until there are enough: the series' first rows lie near one another.
func (x *exec) streamFirst(l *level, u *unit, r model.TimeRange, out *seriesOut, limit int, want func(int32) bool) error {
	if b, ok := u.shard.TimeBounds(u.set); ok {
		r = r.Intersect(b)
	}
	width := uint64(1)
	if r.Empty() {
		return nil
	}
	if u.rest == nil && u.narrows(u.set, limit) {
		width = math.MaxUint64
	} else {
		rows, _, err := x.estimateRows(l, u, r)
		if err != nil {
			return err
		}
		// Slices shorter than chunks are read as often as these have slices.
		width += uint64(r.Max-r.Min) / uint64(1+min(4095, rows/int64(u.set.GetCardinality())/512))
	}
	before := x.used.Load()
	for !r.Empty() && !out.full() {
		if out.left > 0 {
			limit = min(limit, result.AddLimits(out.skip, out.left))
		}
		s := r
		if uint64(r.Max-r.Min) >= width {
			if l.asc {
				s.Max = r.Min + int64(width) - 1
			} else {
				s.Min = r.Max - int64(width) + 1
			}
		}
		begin := x.prof.start()
		m, _, err := x.collectUnit(u, l.refs, s, l.asc, limit, bySeries, want)
		x.prof.add(l, "read rows", begin)
		if err != nil {
			return err
		}
		for _, rs := range m {
			if err := l.emitRaw(out, rs); err != nil {
				return err
			}
		}
		x.used.Store(before)
		if s == r {
			break
		}
		if l.asc {
			r.Min = s.Max + 1
		} else {
			r.Max = s.Min - 1
		}
		width *= 4
	}
	return nil
}

// memoryBytes returns what the statement may hold, for sizes that depend on it.
func (x *exec) memoryBytes() int64 {
	if x.opt.MemoryBytes > 0 {
		return x.opt.MemoryBytes
	}
	return DefaultMemoryBytes
}

// readsTexts reports whether one of refs is a field of strings.
func readsTexts(refs []influxql.VarRef) bool {
	return slices.ContainsFunc(refs, func(r influxql.VarRef) bool { return r.Type == influxql.String })
}

// estimateRows guesses the rows of a unit from its first series, and the bytes
// they take from the first chunks.
func (x *exec) estimateRows(l *level, u *unit, r model.TimeRange) (rows, bytes int64, err error) {
	const sample, sampleChunks = 16, 8
	cs, ok := u.bind(l.refs)
	if !ok || u.set.GetCardinality() == 0 || r.Empty() {
		return 0, 0, nil
	}
	cur, err := u.shard.Scan(x.ctx, cs.request(u, r, l.asc))
	if err != nil {
		return 0, 0, err
	}
	defer cur.Close()
	var series, chunks, measured, text int64
	for series < sample {
		if _, ok := cur.NextSeries(); !ok {
			break
		}
		series++
		for c := cur.NextChunk(); c != nil; c = cur.NextChunk() {
			rows += int64(c.Len())
			if cs.texts && chunks < sampleChunks {
				chunks++
				measured += int64(c.Len())
				for i := range cs.fields {
					text += c.TextBytes(i)
				}
			}
		}
	}
	if series == 0 {
		return 0, 0, cur.Err()
	}
	perRow := int64(8 * (1 + len(l.refs)))
	if measured > 0 {
		perRow += text / measured
	}
	rows = rows / series * int64(u.set.GetCardinality())
	return rows, rows * perRow, cur.Err()
}

// mergeSets merges row sets of several sources, or groups of subqueries, by time
// in the level's direction; bySeries leaves rows of equal time in their order.
func mergeSets(stop *stopper, list []*rowset, asc bool, ties tieOrder) *rowset {
	if len(list) == 1 {
		return list[0]
	}
	out := &rowset{cols: make([]column.Vector, len(list[0].cols))}
	bounds := []int{0}
	for i, rs := range list {
		if i == 0 {
			*out = rowset{times: slices.Clone(rs.times), cols: make([]column.Vector, len(rs.cols))}
			for j := range rs.cols {
				extend(&out.cols[j], 0, &rs.cols[j], 0, len(rs.times))
			}
		} else {
			out.append(rs)
		}
		bounds = append(bounds, len(out.times))
	}
	if !asc {
		for i := range out.times {
			out.times[i] = -out.times[i]
		}
	}
	var perm []int32
	if ties != bySeries && len(list) < manySeries {
		h := newSeriesHeap(out.times, bounds, true)
		if !asc {
			slices.Reverse(h.runs) // groups come last first
		}
		perm = h.merge(stop)
	} else {
		perm = mergeOrder(stop, out.times, bounds)
	}
	if perm != nil {
		*out = out.permute(perm)
	}
	if !asc {
		for i := range out.times {
			out.times[i] = -out.times[i]
		}
	}
	return out
}

// emitRaw evaluates the select list over a row set.
func (l *level) emitRaw(out *seriesOut, rs *rowset) error {
	n := len(rs.times)
	if n == 0 {
		return nil
	}
	if l.fill == influxql.NumberFill || l.fill == influxql.PreviousFill {
		if out.carry == nil {
			out.carry = make([]scalar, len(rs.cols))
		}
		for i := range rs.cols {
			rs.cols[i] = l.fillAux(rs.cols[i], n, fieldType(l.refs[i].Type), &out.carry[i])
		}
	}
	begin := l.x.prof.start()
	cols := l.project(n, rs.cols, rs.table, nil)
	l.x.prof.add(l, "project", begin)
	return out.rows(rs.times, cols)
}
