package queryable

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

const (
	// batchBytes is what the samples of a batch should take. A batch that begins
	// with short series and ends with long ones may take more.
	batchBytes = 4 << 20
	// batchSeries bounds the series of a batch.
	batchSeries = 1024
	// sampleBytes is the memory of a sample.
	sampleBytes = 16
)

// batch holds the samples of consecutive series of a selection. It is read at once,
// with one cursor for each shard.
type batch struct {
	first int       // place of its first series
	from  []int32   // of each series, the place of its first origin; and the end
	parts []samples // of each origin; a series that is read has all in its first
	users int       // iterators
	bytes int64     // charged
}

// samples are in the order of time, one for a millisecond.
type samples struct {
	times  []int64
	values []float64
}

// slot says where the samples of an origin go.
type slot struct {
	id     model.SeriesID
	metric int32
	part   int32
}

// series returns the samples of the series at a place of the selection.
func (b *batch) series(place int) *samples { return &b.parts[b.from[place-b.first]] }

func (b *batch) has(place int) bool { return place >= b.first && place < b.first+len(b.from)-1 }

// load returns the batch with the samples of the series at a place.
func (s *selection) load(place int) (*batch, error) {
	if s.q.view == nil {
		return nil, errClosed
	}
	if s.current != nil && s.current.has(place) {
		return s.current, nil
	}
	if old := s.current; old != nil {
		s.current = nil
		s.retire(old)
	}
	b := s.free
	s.free = nil
	if b == nil {
		b = new(batch)
	}
	n := min(max(s.size, 1), len(s.series)-place)
	if err := s.read(b, place, n); err != nil {
		s.drop(b)
		return nil, err
	}
	used := int64(0)
	for i := range n {
		used += sampleBytes * int64(len(b.series(place+i).times))
	}
	// The first batch has one series, which tells how long they are.
	s.size = int(min(batchBytes/(used/int64(n)+1), int64(8*n), batchSeries))
	s.current = b
	return b, nil
}

// retire keeps the memory of a batch that has no user for the next one.
func (s *selection) retire(b *batch) {
	switch {
	case b.users > 0 || b == s.current:
	case s.free == nil:
		s.free = b
	default:
		s.drop(b)
	}
}

// drop gives the memory of a batch back.
func (s *selection) drop(b *batch) {
	if s.q.view != nil { // otherwise Close has given back all
		s.q.budget.release(b.bytes)
	}
	*b = batch{}
}

// read fills a batch with n series.
func (s *selection) read(b *batch, first, n int) error {
	b.first, b.from = first, b.from[:0]
	slots := map[*table][]slot{}
	parts := 0
	for i := range n {
		b.from = append(b.from, int32(parts))
		for from := range s.series[first+i].origins {
			slots[from.table] = append(slots[from.table], slot{id: from.id, metric: from.metric, part: int32(parts)})
			parts++
		}
	}
	b.from = append(b.from, int32(parts))
	for i := range b.parts {
		b.parts[i].times, b.parts[i].values = b.parts[i].times[:0], b.parts[i].values[:0]
	}
	if parts > len(b.parts) {
		b.parts = append(b.parts, make([]samples, parts-len(b.parts))...)
	}
	for t, of := range slots {
		if err := s.readTable(b, t, of); err != nil {
			return err
		}
	}
	for i := range n {
		if err := s.merge(b, b.parts[b.from[i]:b.from[i+1]]); err != nil {
			return err
		}
	}
	return nil
}

// readTable reads the origins of one table.
func (s *selection) readTable(b *batch, t *table, slots []slot) error {
	slices.SortFunc(slots, func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.metric, y.metric))
	})
	ids, asked := roaring.New(), make([]bool, len(t.metrics))
	for _, x := range slots {
		ids.Add(uint32(x.id))
		asked[x.metric] = true
	}
	for _, p := range t.parts {
		set := roaring.And(p.ids, ids)
		req := scan.Request{Measurement: t.measurement, Series: set, Range: s.times, Charge: s.q.budget.take}
		var metrics []int32
		for i, m := range p.metrics {
			if asked[m] {
				req.Fields, metrics = append(req.Fields, p.fields[i]), append(metrics, int32(m))
			}
		}
		if set.IsEmpty() || len(metrics) == 0 {
			continue
		}
		if err := s.readPart(b, p.shard, req, metrics, slots); err != nil {
			return err
		}
	}
	return nil
}

// readPart appends the rows of a shard to the origins.
func (s *selection) readPart(b *batch, sh scan.Shard, req scan.Request, metrics []int32, slots []slot) error {
	cursor, err := sh.Scan(s.ctx, req)
	if err != nil {
		return err
	}
	defer cursor.Close()
	for {
		id, ok := cursor.NextSeries()
		if !ok {
			return cursor.Err()
		}
		at, _ := slices.BinarySearchFunc(slots, id, func(x slot, id model.SeriesID) int { return cmp.Compare(x.id, id) })
		for chunk := cursor.NextChunk(); chunk != nil; chunk = cursor.NextChunk() {
			for i := at; i < len(slots) && slots[i].id == id; i++ {
				column := slices.Index(metrics, slots[i].metric)
				if column < 0 {
					continue
				}
				if err := s.append(b, &b.parts[slots[i].part], chunk, column); err != nil {
					return err
				}
			}
		}
	}
}

// append appends a column of a chunk.
func (s *selection) append(b *batch, to *samples, chunk scan.Chunk, i int) error {
	v, err := chunk.Column(i)
	if err != nil {
		return err
	}
	if v.Type == model.Unknown || v.Type == model.String {
		return nil
	}
	times, err := chunk.Times()
	if err != nil {
		return err
	}
	if err := s.grow(b, to, len(times)); err != nil {
		return err
	}
	if v.Type == model.Float && v.Valid == nil {
		to.appendFloats(times, v.Floats)
		return nil
	}
	for i, t := range times {
		if v.IsValid(i) {
			to.append(milliseconds(t), number(v, i))
		}
	}
	return nil
}

// number returns a value as Prometheus has it.
func number(v *column.Vector, i int) float64 {
	switch v.Type {
	case model.Float:
		return v.Floats[i]
	case model.Integer:
		return float64(v.Ints[i])
	case model.Unsigned:
		return float64(v.Uints[i])
	}
	if v.Bools[i] {
		return 1
	}
	return 0
}

// append adds a sample that is not older than the last one.
func (p *samples) append(ms int64, value float64) {
	if n := len(p.times); n > 0 && p.times[n-1] == ms {
		p.values[n-1] = value
		return
	}
	p.times, p.values = append(p.times, ms), append(p.values, value)
}

// appendFloats adds samples without a gap.
func (p *samples) appendFloats(times []int64, values []float64) {
	for i, t := range times {
		p.append(milliseconds(t), values[i])
	}
}

// grow makes room for n more samples.
func (s *selection) grow(b *batch, p *samples, n int) error {
	need := len(p.times) + n
	if need <= cap(p.times) {
		return nil
	}
	old := cap(p.times)
	if old > 0 {
		need = max(need, 2*old)
	}
	if err := s.q.budget.take(sampleBytes * int64(need)); err != nil {
		return err
	}
	b.bytes += sampleBytes * int64(need)
	times, values := make([]int64, len(p.times), need), make([]float64, len(p.values), need)
	copy(times, p.times)
	copy(values, p.values)
	p.times, p.values = times, values
	s.q.budget.release(sampleBytes * int64(old))
	b.bytes -= sampleBytes * int64(old)
	return nil
}

// merge puts the samples of the origins of one series into the first. Of those in one
// millisecond that of the last origin stays.
func (s *selection) merge(b *batch, parts []samples) error {
	for i := 1; i < len(parts); i++ {
		into, from := &parts[0], &parts[i]
		if err := s.grow(b, into, len(from.times)); err != nil {
			return err
		}
		// From the end, so that no sample is overwritten before it has moved.
		n, m := len(into.times), len(from.times)
		into.times, into.values = into.times[:n+m], into.values[:n+m]
		to := n + m
		for m > 0 {
			to--
			if n > 0 && into.times[n-1] > from.times[m-1] {
				n--
				into.times[to], into.values[to] = into.times[n], into.values[n]
				continue
			}
			m--
			if n > 0 && into.times[n-1] == from.times[m] {
				n--
			}
			into.times[to], into.values[to] = from.times[m], from.values[m]
		}
		// What was twice has left a gap between the head and the rest.
		into.times, into.values = slices.Delete(into.times, n, to), slices.Delete(into.values, n, to)
	}
	return nil
}
