package engine

import (
	"errors"
	"math"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/admission"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/result"
)

// stream reads the rows of one group in pieces and passes them to out, in order. It
// reads shard by shard, and a shard that may have many rows in slices of time.
type stream struct {
	*reader
	x    *exec
	want func(g int32) bool // of the group; nil: there is no other
	out  *seriesOut
}

// strategy is how a stream reads a shard.
type strategy uint8

const (
	readWhole    strategy = iota // in slices after all if that takes too much memory
	readSlices                   // as short as an estimate says
	readFirst                    // until there are rows enough
	readFrontier                 // rows are read after a walk over the index entries
)

// strategyTexts say how a shard is read, and why. N is the limit.
var strategyTexts = [...]string{
	readWhole:    "at once: few rows are expected",
	readSlices:   "in slices of time, one read ahead: all rows of many series, or texts",
	readFirst:    "in slices of time that grow: the first N rows of many series",
	readFrontier: "by the frontier: index entries tell which series have the first N rows",
}

// strategy chooses how to read a unit.
func (rd *reader) strategy(u *read.Unit) strategy {
	switch n := u.Series.GetCardinality(); {
	case rd.limit > 0 && n >= rowset.ManySeries && u.Filter == nil && u.Narrows(u.Series, rd.limit):
		return readFrontier
	case rd.limit > 0 && n >= rowset.ManySeries:
		return readFirst
	case rd.limit == 0 && (n >= 8 || readsTexts(rd.refs)), rd.r.x.opt.streamRows < 1<<10:
		return readSlices
	}
	return readWhole
}

// unit reads a unit.
func (s *stream) unit(u *read.Unit) error {
	r := s.rng.Intersect(u.Shard.TimeRange())
	switch how := s.strategy(u); how {
	case readFirst, readFrontier:
		return s.first(u, r, how == readFrontier)
	case readSlices:
		return s.slices(u, r)
	}
	// As a rule these are few rows, which are read at once and not counted
	// first. But a single series may have any number.
	before, points := s.x.Used.Load(), s.x.Points.Load()
	var failed error
	err := s.emit(1, func(int) (m map[int32]*rowset.Set, bytes int64, err error) {
		m, bytes, failed = s.x.Rows(u, s.request(r, rowset.AsInfluxRows, s.want))
		return m, bytes, failed
	})
	if !errors.Is(failed, admission.ErrMemory) {
		return err
	}
	s.x.Used.Store(before)
	s.x.Points.Store(points)
	return s.slices(u, r)
}

// sliceRows is how many rows of each stored series a slice should hold: a chunk
// at its edge is decoded twice, so there should be several.
const sliceRows = 4096

// slices reads a unit in slices of equal length.
func (s *stream) slices(u *read.Unit, r model.TimeRange) error {
	rows, bytes, err := s.estimate(u, r)
	if err != nil {
		return err
	}
	// Short slices, so that one is read while the one before is emitted.
	most := s.x.opt.streamRows
	n := 1 + max(rows/most, min(8*rows/most, rows/(max(1, int64(u.Series.GetCardinality()))*sliceRows)))
	if memory := s.x.MemoryBytes(); bytes > memory/4 {
		n = max(n, 16*bytes/memory)
	}
	if n > 1 {
		if b, ok := u.Shard.TimeBounds(u.Series); ok {
			r = r.Intersect(b)
		}
	}
	if r.Empty() {
		return nil
	}
	step := uint64(r.Max-r.Min)/uint64(n) + 1
	var ranges []model.TimeRange
	for !r.Empty() {
		var one model.TimeRange
		one, r = s.cut(r, step)
		ranges = append(ranges, one)
	}
	ties := rowset.BySeries
	if len(ranges) == 1 {
		ties = rowset.AsInfluxRows
	}
	return s.emit(len(ranges), func(i int) (map[int32]*rowset.Set, int64, error) {
		return s.x.Rows(u, s.request(ranges[i], ties, s.want))
	})
}

// cut returns the first width times of r in the level's direction, and the others.
func (s *stream) cut(r model.TimeRange, width uint64) (head, rest model.TimeRange) {
	head, rest = r, r
	switch {
	case uint64(r.Max-r.Min) < width:
		return r, model.TimeRange{Min: 1, Max: 0}
	case s.r.l.Asc:
		head.Max = r.Min + int64(width) - 1
		rest.Min = head.Max + 1
	default:
		head.Min = r.Max - int64(width) + 1
		rest.Max = head.Min - 1
	}
	return head, rest
}

// slice is rows that were read, and the bytes they hold.
type slice struct {
	groups map[int32]*rowset.Set
	bytes  int64
	err    error
}

// emit passes n slices of rows to out, in order. If a turn is free, it reads a slice
// while out takes the previous one, so two are held at a time. No read is under way
// when it returns.
func (s *stream) emit(n int, read func(i int) (map[int32]*rowset.Set, int64, error)) error {
	x := s.x
	one := func(i int) (got slice) {
		got.err = admission.Guard(func() (err error) {
			got.groups, got.bytes, err = read(i)
			return err
		})
		return got
	}
	var next chan slice // of the slice that is being read; nil: none
	wait := func() (got slice, err error) {
		err = x.Turn.Outside(x.Ctx, func() error {
			got = <-next
			return nil
		})
		next = nil
		return got, err
	}
	defer func() {
		if next != nil {
			_, _ = wait() // the statement has its result
		}
	}()
	for i := range n {
		begin := x.prof.start()
		var got slice
		if next == nil {
			got = one(i)
		} else if ahead, err := wait(); err != nil {
			return err
		} else {
			got = ahead
		}
		x.prof.operator(s.reader, begin)
		if got.err != nil {
			return got.err
		}
		if i+1 < n && x.Workers > 1 && got.bytes <= x.MemoryBytes()/8 && x.Turn.More(1) == 1 {
			ch := make(chan slice, 1)
			next = ch
			go func() {
				got := one(i + 1)
				x.Turn.Leave()
				ch <- got
			}()
		}
		for _, rs := range got.groups {
			if err := s.out.rowset(rs); err != nil {
				return err
			}
		}
		x.Used.Add(-got.bytes)
		if s.out.full() {
			break
		}
	}
	return nil
}

// first reads the first rows of a unit, in the level's direction. With narrowed the
// frontier finds the few series to read. Without, it reads a short slice of time of
// all series, then longer ones until there are enough rows: the first rows of series
// are close to one another.
func (s *stream) first(u *read.Unit, r model.TimeRange, narrowed bool) error {
	if b, ok := u.Shard.TimeBounds(u.Series); ok {
		r = r.Intersect(b)
	}
	if r.Empty() {
		return nil
	}
	width := uint64(math.MaxUint64)
	if !narrowed {
		rows, _, err := s.estimate(u, r)
		if err != nil {
			return err
		}
		// Slices shorter than chunks are read as often as these have slices.
		width = 1 + uint64(r.Max-r.Min)/uint64(1+min(4095, rows/int64(u.Series.GetCardinality())/512))
	}
	limit := s.limit
	for !r.Empty() && !s.out.full() {
		if s.out.left > 0 {
			limit = min(limit, result.AddLimits(s.out.skip, s.out.left))
		}
		one, rest := s.cut(r, width)
		err := s.emit(1, func(int) (map[int32]*rowset.Set, int64, error) {
			req := s.request(one, rowset.BySeries, s.want)
			req.Limit = limit
			return s.x.Rows(u, req)
		})
		if err != nil {
			return err
		}
		if r = rest; width < 1<<61 {
			width *= 4
		}
	}
	return nil
}

// readsTexts reports whether one of refs is a field of strings.
func readsTexts(refs []influxql.VarRef) bool {
	return slices.ContainsFunc(refs, func(r influxql.VarRef) bool { return r.Type == influxql.String })
}

// estimate guesses the rows of a unit from its first series, and the bytes they
// take from the first chunks.
func (s *stream) estimate(u *read.Unit, r model.TimeRange) (rows, bytes int64, err error) {
	const sample, sampleChunks = 16, 8
	cs, ok := u.Bind(s.refs)
	if !ok || u.Series.GetCardinality() == 0 || r.Empty() {
		return 0, 0, nil
	}
	cur, err := s.x.Open(u.Shard, cs.Request(u, r, s.r.l.Asc), s.did)
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
			if cs.Texts && chunks < sampleChunks {
				chunks++
				measured += int64(c.Len())
				for i := range cs.Fields {
					text += c.TextBytes(i)
				}
			}
		}
	}
	if series == 0 {
		return 0, 0, cur.Err()
	}
	perRow := int64(8 * (1 + len(s.refs)))
	if measured > 0 {
		perRow += text / measured
	}
	rows = rows / series * int64(u.Series.GetCardinality())
	return rows, rows * perRow, cur.Err()
}
