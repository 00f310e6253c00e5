package queryable

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/prom"
)

const (
	// batchBytes is what the samples of a batch should take. A batch that begins
	// with short series and ends with long ones may take more. 4 MiB cost 10 to 25 % more:
	// they do not stay in the cache of a core.
	batchBytes = 1 << 20
	// batchSeries bounds the series of a batch.
	batchSeries = 1024
	// chunkSpan is the longest time that a chunk of Prometheus has.
	chunkSpan = 2 * int64(time.Hour)
)

// batch holds the samples of consecutive series of a selection. It is read at once,
// with one cursor for each shard and measurement.
type batch struct {
	budget *budget
	first  int       // place of its first series
	from   []int32   // of each series, the place of its first origin; and the end
	parts  []samples // of each origin; those of a whole series are in its first
	slots  []slot    // of each origin, in the order in which they are read
	users  int       // iterators
	bytes  int64     // charged
	texts  int64     // of them for the letters of histograms
}

// keptBytes bounds the samples of a batch that is kept for later queries: a usual batch
// fits.
const keptBytes = batchBytes + batchBytes/4

// batches keeps the memory of batches: new memory for the samples of a few series would take
// longer than reading them.
var batches sync.Pool

// newBatch returns an empty batch, which the budget is charged for.
func newBatch(of *budget) (*batch, error) {
	b, _ := batches.Get().(*batch)
	if b == nil {
		return &batch{budget: of}, nil
	}
	b.budget = of
	if err := of.take(b.bytes); err != nil {
		return nil, err
	}
	return b, nil
}

// keep keeps the memory of a batch whose budget was given back and whose samples nobody
// reads any more.
func (b *batch) keep() {
	if b.bytes -= b.texts; b.bytes > keptBytes {
		return
	}
	for i := range b.parts {
		b.parts[i].reset()
	}
	clear(b.slots[:cap(b.slots)]) // they have pointers
	b.budget, b.texts = nil, 0
	batches.Put(b)
}

// slot says where the samples of an origin go.
type slot struct {
	table  *table
	id     model.SeriesID
	metric int32
	part   int32
}

func (b *batch) take(bytes int64) error {
	b.bytes += bytes
	return b.budget.take(bytes)
}

func (b *batch) takeText(text string) error {
	b.texts += int64(len(text))
	return b.take(int64(len(text)))
}

func (b *batch) give(bytes int64) {
	b.budget.release(bytes)
	b.bytes -= bytes
}

// has reports whether the batch has the series at a place of the selection.
func (b *batch) has(place int) bool { return place >= b.first && place < b.first+len(b.from)-1 }

// series returns the samples of the series at a place of the selection.
func (b *batch) series(place int) *samples { return &b.parts[b.from[place-b.first]] }

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
		var err error
		if b, err = newBatch(&s.q.budget); err != nil {
			return nil, err
		}
	}
	n := min(max(s.size, 1), len(s.series)-place)
	if err := s.read(b, place, n); err != nil {
		b.give(b.bytes)
		return nil, err
	}
	count := int64(0)
	for i := range n {
		count += int64(len(b.series(place + i).times))
	}
	if s.q.read != nil {
		if err := s.q.read(count); err != nil {
			b.give(b.bytes)
			return nil, err
		}
	}
	used := count*sampleBytes + b.texts
	// The first batch has one series, which tells how long they are.
	s.size = int(min(batchBytes/(used/int64(n)+1), int64(8*n), batchSeries))
	s.current = b
	return b, nil
}

// retire keeps the memory of a batch that has no user for the next one.
func (s *selection) retire(b *batch) {
	switch {
	case s.q.view == nil || b.users > 0 || b == s.current: // Close has given back all
	case s.free == nil:
		s.free = b
	default:
		b.give(b.bytes)
	}
}

// read fills a batch with n series.
func (s *selection) read(b *batch, first, n int) error {
	b.give(b.texts)
	b.texts = 0
	for i := range b.parts {
		b.parts[i].reset()
	}
	b.first, b.from, b.slots = first, slices.Grow(b.from[:0], n+1), slices.Grow(b.slots[:0], n)
	for i := range n {
		b.from = append(b.from, int32(len(b.slots)))
		for from := range s.series[first+i].origins {
			b.slots = append(b.slots, slot{table: from.table, id: from.id, metric: from.metric, part: int32(len(b.slots))})
		}
	}
	parts := len(b.slots)
	b.from = append(b.from, int32(parts))
	if more := parts - len(b.parts); more > 0 {
		b.parts = append(b.parts, make([]samples, more)...)
	}
	slices.SortFunc(b.slots, func(x, y slot) int {
		return cmp.Or(cmp.Compare(x.table.place, y.table.place), cmp.Compare(x.id, y.id), cmp.Compare(x.metric, y.metric))
	})
	w := newWalks(s.times, s.q.budget.take)
	defer w.close()
	for rest := b.slots; len(rest) > 0; {
		t, k := rest[0].table, 1
		for k < len(rest) && rest[k].table == t {
			k++
		}
		if err := s.readTable(b, w, t, rest[:k]); err != nil {
			return err
		}
		rest = rest[k:]
	}
	for i := range n {
		for from := b.from[i] + 1; from < b.from[i+1]; from++ {
			if err := b.parts[b.from[i]].merge(b, &b.parts[from]); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTable reads the origins of one table, which are in the order of their ids.
func (s *selection) readTable(b *batch, w *walks, t *table, slots []slot) error {
	asked, distinct := make([]bool, len(t.metrics)), 1
	for i, x := range slots {
		asked[x.metric] = true
		if i > 0 && x.id != slots[i-1].id {
			distinct++
		}
	}
	var ids *roaring.Bitmap // nil: all of the table
	if uint64(distinct) < t.ids.GetCardinality() {
		ids = roaring.New()
		for _, x := range slots {
			ids.Add(uint32(x.id))
		}
	}
	for _, p := range t.parts {
		set := p.ids
		if ids != nil {
			set = roaring.And(set, ids)
		}
		req := scan.Request{Measurement: t.measurement, Series: set}
		of := make([]columns, len(t.metrics))
		for _, f := range p.fields {
			if asked[f.metric] {
				req.Fields = append(req.Fields, f.key)
				of[f.metric][f.role] = len(req.Fields)
			}
		}
		if set.IsEmpty() || len(req.Fields) == 0 {
			continue
		}
		if err := s.readPart(b, w, p.shard, req, of, slots); err != nil {
			return err
		}
	}
	if s.q.columns != nil {
		return nil
	}
	return s.readBefore(b, t, slots)
}

// readBefore reads the histograms before those that a series begins with: only they
// tell whether a counter was reset. It looks as far back as Prometheus does.
func (s *selection) readBefore(b *batch, t *table, slots []slot) error {
	wanted := map[model.SeriesID]*samples{}
	for _, x := range slots {
		if p := &b.parts[x.part]; p.beginsWithHistogram() {
			wanted[x.id] = p
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	times := model.TimeRange{Min: max(s.times.Min, model.MinTime+chunkSpan) - chunkSpan, Max: s.times.Min - 1}
	for _, p := range slices.Backward(t.parts) {
		req := scan.Request{Measurement: t.measurement, Series: roaring.New(), Range: times, Descending: true, Charge: s.q.budget.take, Hold: s.q.budget.take}
		for id := range wanted {
			req.Series.Add(uint32(id))
		}
		req.Series.And(p.ids)
		if req.Series.IsEmpty() || !p.shard.TimeRange().Overlaps(times) {
			continue
		}
		// A float before the first histogram hides those before it.
		histograms := -1
		for _, f := range p.fields {
			if f.role == histogramRole {
				histograms = len(req.Fields)
			}
			if f.role == histogramRole || f.key == prom.ValueField {
				req.Fields = append(req.Fields, f.key)
			}
		}
		if histograms < 0 {
			continue
		}
		if err := s.readLast(b, p.shard, req, histograms, wanted); err != nil {
			return err
		}
	}
	return nil
}

// readLast reads the last rows of the series of a request.
func (s *selection) readLast(b *batch, sh scan.Shard, req scan.Request, histograms int, wanted map[model.SeriesID]*samples) error {
	cursor, err := sh.Scan(s.ctx, req)
	if err != nil {
		return err
	}
	defer cursor.Close()
	return visit(cursor, func(id model.SeriesID, cursor scan.Cursor) error {
		p := wanted[id]
		delete(wanted, id)
		chunk := cursor.NextChunk()
		if p == nil || chunk == nil {
			return nil
		}
		v, err := chunk.Column(histograms)
		if last := chunk.Len() - 1; err == nil && v.Type == model.String && v.IsValid(last) {
			p.before = v.Strings[last]
			err = b.takeText(p.before)
		}
		return err
	})
}

// readPart appends the rows of a shard to the origins, which are in the order of
// their ids. It has the columns of each metric.
func (s *selection) readPart(b *batch, w *walks, sh scan.Shard, req scan.Request, of []columns, slots []slot) error {
	return w.each(s.ctx, sh, req, func(id model.SeriesID, cursor scan.Cursor) error {
		first, _ := slices.BinarySearchFunc(slots, id, func(x slot, id model.SeriesID) int { return cmp.Compare(x.id, id) })
		for chunk := cursor.NextChunk(); chunk != nil; chunk = cursor.NextChunk() {
			for i := first; i < len(slots) && slots[i].id == id; i++ {
				if err := b.parts[slots[i].part].add(b, chunk, of[slots[i].metric]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
