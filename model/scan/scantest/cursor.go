package scantest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

type cursor struct {
	ctx    context.Context
	shard  *shardView
	req    scan.Request
	ids    []uint32
	chunks []*Chunk
	err    error
}

func (c *cursor) Err() error               { return c.err }
func (c *cursor) Close()                   {}
func (c *cursor) Narrow(r model.TimeRange) { c.req.Range = r }

// Again walks the series of another request.
func (c *cursor) Again(req scan.Request) {
	c.req.Measurement, c.req.Fields = req.Measurement, req.Fields
	c.ids, c.chunks = req.Series.ToArray(), nil
}

func (c *cursor) NextSeries() (model.SeriesID, bool) {
	for len(c.ids) > 0 {
		if c.err = c.ctx.Err(); c.err != nil {
			return 0, false
		}
		id := model.SeriesID(c.ids[0])
		c.ids = c.ids[1:]
		x := c.shard.series[id]
		if x == nil || x.measurement != c.req.Measurement {
			continue
		}
		if c.chunks = slices.Clone(c.build(x)); len(c.chunks) == 0 {
			continue
		}
		if c.req.Descending {
			slices.Reverse(c.chunks)
		}
		return id, true
	}
	return 0, false
}

func (c *cursor) NextChunk() scan.Chunk {
	if len(c.chunks) == 0 {
		return nil
	}
	out := c.chunks[0]
	c.chunks = c.chunks[1:]
	return out
}

// build cuts the rows of a series that the request asks for into chunks.
func (c *cursor) build(x *series) []*Chunk {
	store := c.shard.store
	asked := fmt.Sprint(c.req.Fields, c.req.Range, store.ChunkRows, store.Stats, store.Steps)
	x.building.Lock()
	defer x.building.Unlock()
	if out, ok := x.chunks[asked]; ok {
		return out
	}
	if x.order == nil {
		x.order = slices.Sorted(maps.Keys(x.points))
	}
	var times []int64
	for _, t := range x.order {
		has := func(field string) bool { _, ok := x.points[t][field]; return ok }
		if c.req.Range.Contains(t) && slices.ContainsFunc(c.req.Fields, has) {
			times = append(times, t)
		}
	}
	var out []*Chunk
	for part := range slices.Chunk(times, store.ChunkRows) {
		out = append(out, c.chunk(x, part))
	}
	if x.chunks == nil {
		x.chunks = map[string][]*Chunk{}
	}
	x.chunks[asked] = out
	return out
}

func (c *cursor) chunk(x *series, times []int64) *Chunk {
	out := &Chunk{At: times, HasStats: c.shard.store.Stats}
	if c.shard.store.Steps && len(times) > 1 {
		out.Distance = times[1] - times[0]
		for i := 2; i < len(times); i++ {
			if times[i]-times[i-1] != out.Distance {
				out.Distance = 0
				break
			}
		}
	}
	for _, f := range c.req.Fields {
		v := column.Vector{Type: c.shard.fields[x.measurement][f]}
		for _, t := range times {
			switch p, ok := x.points[t][f]; {
			case !ok:
				v.AppendNull()
			case p.Type == model.String:
				v.AppendFrom(&column.Vector{Type: model.String, Strings: []string{p.Text}}, 0)
			default:
				v.AppendWord(p.Bits, nil)
			}
		}
		out.Cols = append(out.Cols, v)
	}
	return out
}

// Chunk is a chunk of vectors.
type Chunk struct {
	At       []int64
	Cols     []column.Vector
	Distance int64 // Step
	HasStats bool
}

// Len implements scan.Chunk.
func (c *Chunk) Len() int { return len(c.At) }

// Min implements scan.Chunk.
func (c *Chunk) Min() int64 { return c.At[0] }

// Max implements scan.Chunk.
func (c *Chunk) Max() int64 { return c.At[len(c.At)-1] }

// Step implements scan.Chunk.
func (c *Chunk) Step() int64 { return c.Distance }

// Times implements scan.Chunk.
func (c *Chunk) Times() ([]int64, error) { return c.At, nil }

// Column implements scan.Chunk.
func (c *Chunk) Column(i int) (*column.Vector, error) { return &c.Cols[i], nil }

// Sum implements scan.Chunk.
func (c *Chunk) Sum(i int, st *scan.Stats) bool { return c.Stats(i, st) }

// Count implements scan.Chunk.
func (c *Chunk) Count(i int) (int, bool) {
	var st scan.Stats
	ok := c.Stats(i, &st)
	return st.Count, ok
}

// MayHaveNaN implements scan.Chunk.
func (c *Chunk) MayHaveNaN(i int) bool { return vector.HasNaN(c.Cols[i].Floats) }

// TextBytes implements scan.Chunk.
func (c *Chunk) TextBytes(i int) (n int64) {
	for _, text := range c.Cols[i].Strings {
		n += int64(len(text))
	}
	return n
}

// Stats implements scan.Chunk.
func (c *Chunk) Stats(i int, st *scan.Stats) bool {
	if !c.HasStats {
		return false
	}
	v := &c.Cols[i]
	*st = scan.Stats{}
	var sum, lost float64
	for r := range c.At {
		if v.Type == model.Unknown || !v.IsValid(r) {
			continue
		}
		if st.Count++; st.Count == 1 {
			st.FirstRow = r
		}
		st.LastRow = r
		if v.Type == model.String {
			continue
		}
		w := word(v, r)
		if st.Count == 1 {
			st.First = w
		}
		if st.Count == 1 || v.Type == model.Float && math.IsNaN(math.Float64frombits(st.Min)) {
			st.Min, st.Max = w, w
		}
		if less(v.Type, w, st.Min) {
			st.Min = w
		}
		if less(v.Type, st.Max, w) {
			st.Max = w
		}
		st.Last = w
		switch v.Type {
		case model.Float:
			var e float64
			sum, e = vector.TwoSum(sum, v.Floats[r])
			lost += e
			st.Sum, st.SumError = math.Float64bits(sum), lost
		case model.Integer, model.Unsigned:
			st.Sum += w
		}
	}
	return true
}

// word returns the bits of a value that is no text.
func word(v *column.Vector, i int) uint64 {
	switch v.Type {
	case model.Float:
		return math.Float64bits(v.Floats[i])
	case model.Integer:
		return uint64(v.Ints[i])
	case model.Unsigned:
		return v.Uints[i]
	}
	if v.Bools[i] {
		return 1
	}
	return 0
}

func less(t model.FieldType, a, b uint64) bool {
	switch t {
	case model.Float:
		return math.Float64frombits(a) < math.Float64frombits(b)
	case model.Integer:
		return int64(a) < int64(b)
	}
	return a < b
}
