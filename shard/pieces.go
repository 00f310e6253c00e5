package shard

import (
	"context"
	"math"
	"slices"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/moves"
	"tsdbd/tsm"
)

// pieces is what files and caches hold of one series after another: chunks of
// files and rows of caches, sorted by time and cut into clusters of those that
// overlap. The rows of a cache are gathered when they are needed.
type pieces struct {
	ctx     context.Context
	parts   []source // of the view: files, then caches, older ones first
	sources []source // what the present series is read from, older first: the parts, or places
	moving           // where rows of moved series are

	fields     []column.Field // wanted columns
	types      []model.FieldType
	times      model.TimeRange
	descending bool
	cells      int // Shard.cells

	id       model.SeriesID // the present series
	list     []piece
	clusters []cluster
}

// moving is what pieces know of moves.
type moving struct {
	door        *moves.Door // to the parts; nil: they have what their names say
	measurement string      // of the series that are read
	places      []source    // memory of sources
	crowd
}

// piece is a chunk of a file or a part of a cache's rows.
type piece struct {
	min, max int64
	source   int // newer rows have a higher one
	chunk    int // of a file, or part of a cache
	masked   bool
	bytes    int // of a chunk
	rows     int // about
}

// cluster is a run of pieces[lo:hi] that overlap each other, or the part of it
// that lies in times.
type cluster struct {
	lo, hi int
	times  model.TimeRange
}

// A long cluster is merged a part after another: a part begins with a new
// piece after so many pieces, bytes, or rows times fields. It bounds the memory
// of a merge, and what a walk that stops early reads.
const (
	clusterPieces = 16
	clusterBytes  = 16 << 20

	// cacheCells bounds rows times fields of what is gathered of a cache at
	// once, and, twice, of a part of a cluster.
	cacheCells = 2 * tsm.MaxCells
)

// newestRows are the places at which a walk from the newest row on cuts the
// rows of a cache, so that it gathers little when it stops early.
var newestRows = [...]int{32, 512}

// cachePart is the rows of the present series in a range of times.
type cachePart struct {
	times    model.TimeRange
	count    int // of rows, about
	gathered bool
	rows     column.Rows
}

// pieces returns the pieces of the view's files and caches that have rows in a range of
// times. The context bounds reads of files that are elsewhere.
func (v *View) pieces(ctx context.Context, times model.TimeRange) pieces {
	p := pieces{ctx: ctx, times: times, cells: v.shard.cells}
	p.few = v.shard.few
	p.parts = make([]source, 0, len(v.set.files)+len(v.caches))
	read := make([]reading, len(v.set.files))
	var ends []uint64
	add := func(x part, end uint64, r *reading) {
		if x.number = len(p.parts); v.set.Moves != nil {
			ends = append(ends, end)
		}
		p.parts = append(p.parts, source{part: x, reading: r})
	}
	for i, f := range v.set.files {
		if f.reader.Info().Range.Overlaps(times) {
			read[i].chunk.Ctx = ctx
			add(part{file: f, tombstones: v.set.tombstones()[i]}, f.MaxSequence, &read[i])
		}
	}
	for i, c := range v.caches {
		if t := c.cache.TimeRange(); t.Empty() || !t.Overlaps(times) {
			continue
		}
		if v.pictures != nil {
			add(part{gather: v.pictures[i].NewGatherer()}, c.sequence, nil)
		} else {
			add(part{gather: cache.NewGatherer(c.cache)}, c.sequence, nil)
		}
	}
	p.sources, p.door = p.parts, v.set.Moves.Door(ends...)
	for i := range p.parts {
		p.parts[i].door = p.door
	}
	return p
}

// want sets the wanted columns.
func (p *pieces) want(fields []column.Field) {
	p.fields, p.types = fields, p.types[:0]
	for _, f := range fields {
		p.types = append(p.types, f.Type)
	}
	for i := range p.parts {
		p.parts[i].unmap()
	}
	for i := range p.sources {
		p.sources[i].unmap()
	}
}

// of says of which measurement the series are that come next.
func (p *pieces) of(measurement string) {
	if p.measurement = measurement; p.door == nil {
		return
	}
	for i := range p.parts {
		s := &p.parts[i]
		s.renames = p.door.Renames(i, measurement)
		s.unmap()
	}
}

// settle makes a series the present one that is in each file and cache by its own id.
func (p *pieces) settle(id model.SeriesID) { p.id, p.crowded, p.sources = id, false, p.parts }

// place makes a moved series the present one: its sources are where its rows are, the
// oldest first. If these are very many, the series is crowded and has no sources.
func (p *pieces) place(id model.SeriesID) (err error) {
	p.id, p.crowded, p.places = id, false, p.places[:0]
	p.door.Places(id, p.measurement, func(at moves.Place) bool {
		n := len(p.places)
		if n == cap(p.places) {
			p.places = append(p.places, source{})
		}
		p.places = p.places[:n+1] // with the memory that the last had
		s := &p.places[n]
		s.unmap()
		var found bool
		if found, err = p.at(s, at); !found {
			p.places = p.places[:n]
		}
		p.crowded = len(p.places) > p.few
		return err == nil && !p.crowded
	})
	p.sources = p.places
	if p.crowded {
		p.sources = nil
	}
	return err
}

// at makes s the source of a place, and returns false if there are no rows of the series.
func (p *pieces) at(s *source, at moves.Place) (bool, error) {
	s.part, s.renames = p.parts[at.Part].part, at.Renames
	if s.gather != nil {
		_, _, ok := s.gather.Range(at.ID)
		s.loaded, s.id = ok, at.ID
		return ok, nil
	}
	if s.reading == nil {
		s.reading = newReading(p.ctx)
	}
	return s.find(at.ID)
}

// find makes a series the present one, and loads what the files have of it.
func (p *pieces) find(id model.SeriesID) error {
	if p.door.Moved(id) {
		return p.place(id)
	}
	p.settle(id)
	for i := range p.parts {
		if _, err := p.parts[i].find(id); err != nil {
			return err
		}
	}
	return nil
}

// load makes the series of an entry of a file the present one.
func (p *pieces) load(file, ordinal int) error {
	s := &p.parts[file]
	err := s.load(ordinal)
	p.settle(s.series.ID)
	return err
}

// unload forgets what the files have of the present series.
func (p *pieces) unload() {
	for i := range p.parts {
		p.parts[i].loaded = false
	}
}

// collect lists the pieces of the present series and forms clusters. It reports
// whether there are any.
func (p *pieces) collect() bool {
	p.list, p.clusters = p.list[:0], p.clusters[:0]
	if p.crowded {
		p.rest = p.times
		return !p.rest.Empty()
	}
	used := 0
	for i := range p.sources {
		s := &p.sources[i]
		if !s.loaded {
			continue
		}
		if s.gather != nil {
			n := p.cached(s, p.cells)
			for k := range n {
				part := &s.cached[k]
				p.list = append(p.list, piece{part.times.Min, part.times.Max, i, k, false, 0, part.count})
			}
			used += n
			continue
		}
		if !s.project(p.fields) {
			continue
		}
		before := len(p.list)
		for k := range s.series.Chunks {
			e := &s.series.Chunks[k]
			if e.Max < p.times.Min || e.Min > p.times.Max {
				continue
			}
			if partly, wholly := s.masked(e.Min, e.Max); !wholly {
				p.list = append(p.list, piece{e.Min, e.Max, i, k, partly, e.Bytes, e.Rows})
			}
		}
		if len(p.list) > before {
			used++
		}
	}
	if len(p.list) == 0 {
		return false
	}
	if used > 1 {
		slices.SortStableFunc(p.list, func(a, b piece) int {
			if a.min < b.min {
				return -1
			} else if a.min > b.min {
				return 1
			}
			return 0
		})
	}
	for lo := 0; lo < len(p.list); {
		hi, end := lo+1, p.list[lo].max
		for hi < len(p.list) && p.list[hi].min <= end {
			end = max(end, p.list[hi].max)
			hi++
		}
		p.cluster(lo, hi, end)
		lo = hi
	}
	if p.descending {
		slices.Reverse(p.clusters)
	}
	return true
}

// cached sets the parts of a cache that the present series has, to be gathered
// later, and returns their number. They are more than one where a walk from
// the newest row may stop early, and where rows of many fields would take much
// memory.
func (p *pieces) cached(s *source, cells int) int {
	t, rows, ok := s.gather.Range(s.id)
	if t = t.Intersect(p.times); !ok || t.Empty() {
		return 0
	}
	n := 0
	add := func(times model.TimeRange, count int) {
		if n == len(s.cached) {
			s.cached = append(s.cached, cachePart{})
		}
		s.cached[n].times, s.cached[n].count, s.cached[n].gathered = times, count, false
		n++
	}
	if p.descending {
		s.cuts = s.gather.Newest(s.id, newestRows[:], s.cuts[:0])
		for i, cut := range s.cuts {
			if cut > t.Min && cut <= t.Max {
				add(model.TimeRange{Min: cut, Max: t.Max}, newestRows[i])
				t.Max = cut - 1
			}
		}
	}
	if most := max(cells/max(len(p.fields), 1), 1); rows > most {
		s.cuts = s.gather.Cuts(s.id, t, most, s.cuts[:0])
		for _, cut := range s.cuts {
			add(model.TimeRange{Min: t.Min, Max: cut - 1}, most)
			t.Min = cut
		}
		rows = most
	}
	add(t, rows)
	return n
}

// cluster appends the overlapping pieces [lo, hi), whose last time is end, in
// parts.
func (p *pieces) cluster(lo, hi int, end int64) {
	for {
		n, bytes, cells := lo, 0, 0
		from := p.list[lo].min
		if k := len(p.clusters); k > 0 && from <= p.clusters[k-1].times.Max {
			from = p.clusters[k-1].times.Max + 1
		}
		// A part ends where a piece begins: after it no piece of it but those
		// that reach over is read again.
		fresh := 0
		for n < hi && (fresh < clusterPieces && bytes < clusterBytes && cells < 2*p.cells || p.list[n].min <= from) {
			if p.list[n].min >= from {
				fresh++
				bytes += p.list[n].bytes
				cells += p.list[n].rows * len(p.fields)
			}
			n++
		}
		if n == hi {
			p.clusters = append(p.clusters, cluster{lo, hi, model.TimeRange{Min: from, Max: end}})
			return
		}
		to := p.list[n].min - 1
		p.clusters = append(p.clusters, cluster{lo, n, model.TimeRange{Min: from, Max: to}})
		for lo < n && p.list[lo].max <= to {
			lo++
		}
	}
}

// alone reports whether a cluster is one whole piece.
func (p *pieces) alone(cl cluster) bool {
	return cl.hi-cl.lo == 1 && p.list[cl.lo].min >= cl.times.Min && p.list[cl.lo].max <= cl.times.Max
}

// bounds returns a range that holds the rows of one series. It knows none of a crowded
// series.
func (p *pieces) bounds(id model.SeriesID) (model.TimeRange, bool, error) {
	r := model.TimeRange{Min: math.MaxInt64, Max: math.MinInt64}
	if err := p.find(id); err != nil {
		return r, false, err
	}
	for i := range p.sources {
		s := &p.sources[i]
		if !s.loaded {
			continue
		}
		if s.gather != nil {
			if t, _, ok := s.gather.Range(s.id); ok {
				r = r.Union(t)
			}
			continue
		}
		for _, e := range s.series.Chunks {
			if _, wholly := s.masked(e.Min, e.Max); !wholly {
				r = r.Union(model.TimeRange{Min: e.Min, Max: e.Max})
			}
		}
	}
	return r, !r.Empty(), nil
}

// hasRows reports whether a series has a living row.
func (p *pieces) hasRows(id model.SeriesID) (bool, error) {
	if err := p.find(id); err != nil {
		return false, err
	}
	has := false
	err := p.each(func(s *source) (more bool, err error) {
		has, err = s.hasRows()
		return !has, err
	})
	return has, err
}

// each calls fn with what may have rows of the present series, until fn returns false or an
// error. Caches come first, unless the series is crowded: they answer soonest.
func (p *pieces) each(fn func(*source) (more bool, err error)) error {
	if p.crowded {
		return p.visit(fn)
	}
	for i := len(p.sources) - 1; i >= 0; i-- {
		if s := &p.sources[i]; s.loaded {
			if more, err := fn(s); !more || err != nil {
				return err
			}
		}
	}
	return nil
}
