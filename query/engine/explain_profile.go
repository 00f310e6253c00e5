package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// profile is what EXPLAIN ANALYZE learns of a statement under way. Its cursors
// stand between the operators and storage, so that other statements pay nothing. A
// nil profile records nothing.
type profile struct {
	levels    []*levelProfile
	operators map[operator]*operatorProfile

	mu     sync.Mutex
	shards []*shardProfile // in order of their first cursors
}

// levelProfile is what one SELECT, the statement or a subquery, did.
type levelProfile struct {
	level  *level
	took   time.Duration // all of it, subqueries included
	series int
	rows   int
	steps  []stepTime // what is no operator, in order of its first use
}

// stepTime is the time of the statement's goroutine in one step.
type stepTime struct {
	name string
	took time.Duration
}

// operatorProfile is what one operator did.
type operatorProfile struct {
	took time.Duration // of the statement's goroutine
	scanCounts
}

// shardProfile is what cursors over one shard gave.
type shardProfile struct {
	id    uint64
	times model.TimeRange
	scanCounts
}

// scanCounts counts what cursors gave.
type scanCounts struct {
	series  atomic.Int64
	chunks  atomic.Int64
	decoded atomic.Int64 // chunks of which times or values were decoded
	rows    atomic.Int64 // of all chunks
	values  atomic.Int64 // decoded
	nanos   atomic.Int64 // in storage, of all workers together

	mu   sync.Mutex
	cost scan.Cost // of the requests
}

// start returns the time if there is a profile.
func (p *profile) start() time.Time {
	if p == nil {
		return time.Time{}
	}
	return time.Now()
}

// step counts the time since start for a step of a level.
func (p *profile) step(l *level, name string, start time.Time) {
	if p == nil {
		return
	}
	took := time.Since(start)
	of := p.of(l)
	for i := range of.steps {
		if of.steps[i].name == name {
			of.steps[i].took += took
			return
		}
	}
	of.steps = append(of.steps, stepTime{name, took})
}

// operator counts the time since start for an operator.
func (p *profile) operator(o operator, start time.Time) {
	if p != nil {
		p.operators[o].took += time.Since(start)
	}
}

// open returns the counts of an operator that begins, nil without a profile.
func (p *profile) open(o operator) *scanCounts {
	if p == nil {
		return nil
	}
	op := &operatorProfile{}
	if p.operators == nil {
		p.operators = map[operator]*operatorProfile{}
	}
	p.operators[o] = op
	return &op.scanCounts
}

func (p *profile) of(l *level) *levelProfile {
	for _, lp := range p.levels {
		if lp.level == l {
			return lp
		}
	}
	lp := &levelProfile{level: l}
	p.levels = append(p.levels, lp)
	return lp
}

// frames counts the frames of a level on their way to emit, and not the time
// that those take who get them.
func (p *profile) frames(l *level, emit func(*frame) error) (counted func(*frame) error, done func()) {
	lp := p.of(l)
	begin := time.Now()
	var elsewhere time.Duration
	var name string
	var tuple []string
	counted = func(f *frame) error {
		if lp.rows == 0 || f.name != name || !slices.Equal(f.tuple, tuple) {
			lp.series++
			name, tuple = f.name, f.tuple
		}
		lp.rows += len(f.times)
		at := time.Now()
		err := emit(f)
		elsewhere += time.Since(at)
		return err
	}
	return counted, func() { lp.took += time.Since(begin) - elsewhere }
}

// shard returns the counts of a shard.
func (p *profile) shard(s scan.Shard) *scanCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sp := range p.shards {
		if sp.id == s.ID() {
			return &sp.scanCounts
		}
	}
	sp := &shardProfile{id: s.ID(), times: s.TimeRange()}
	p.shards = append(p.shards, sp)
	return &sp.scanCounts
}

// scan opens a cursor for an operator, which counts for it and for the shard.
func (p *profile) scan(ctx context.Context, s scan.Shard, req scan.Request, of *scanCounts) (scan.Cursor, error) {
	cost, err := s.Cost(req)
	if err != nil {
		return nil, err
	}
	cur := &profiledCursor{of: [2]*scanCounts{of, p.shard(s)}}
	for _, c := range cur.of {
		c.mu.Lock()
		c.cost.Add(cost)
		c.mu.Unlock()
	}
	defer cur.spent(time.Now())
	cur.Cursor, err = s.Scan(ctx, req)
	return cur, err
}

type profiledCursor struct {
	scan.Cursor
	of    [2]*scanCounts
	chunk profiledChunk
}

func (c *profiledCursor) spent(start time.Time) {
	took := int64(time.Since(start))
	for _, of := range c.of {
		of.nanos.Add(took)
	}
}

func (c *profiledCursor) NextSeries() (model.SeriesID, bool) {
	defer c.spent(time.Now())
	id, ok := c.Cursor.NextSeries()
	if ok {
		for _, of := range c.of {
			of.series.Add(1)
		}
	}
	return id, ok
}

func (c *profiledCursor) NextChunk() scan.Chunk {
	defer c.spent(time.Now())
	chunk := c.Cursor.NextChunk()
	if chunk == nil {
		return nil
	}
	for _, of := range c.of {
		of.chunks.Add(1)
		of.rows.Add(int64(chunk.Len()))
	}
	c.chunk = profiledChunk{Chunk: chunk, cursor: c}
	return &c.chunk
}

type profiledChunk struct {
	scan.Chunk
	cursor  *profiledCursor
	decoded bool
}

func (c *profiledChunk) decode() {
	for _, of := range c.cursor.of {
		if !c.decoded {
			of.decoded.Add(1)
		}
		of.values.Add(int64(c.Len()))
	}
	c.decoded = true
}

func (c *profiledChunk) Times() ([]int64, error) {
	defer c.cursor.spent(time.Now())
	if c.Step() == 0 && c.Len() > 1 {
		c.decode()
	}
	return c.Chunk.Times()
}

func (c *profiledChunk) Column(i int) (*column.Vector, error) {
	defer c.cursor.spent(time.Now())
	c.decode()
	return c.Chunk.Column(i)
}

// describeStorage adds what the cursors of each shard gave to a node.
func (p *profile) describeStorage(to *planNode) {
	slices.SortStableFunc(p.shards, func(a, b *shardProfile) int { return cmpInt(a.times.Min, b.times.Min) })
	var all scanCounts
	for _, sp := range p.shards {
		to.add("shard %d, %s to %s: %s", sp.id, rfc3339(sp.times.Min), rfc3339(sp.times.Max), &sp.scanCounts)
		all.series.Add(sp.series.Load())
		all.chunks.Add(sp.chunks.Load())
		all.decoded.Add(sp.decoded.Load())
		all.rows.Add(sp.rows.Load())
		all.values.Add(sp.values.Load())
		all.nanos.Add(sp.nanos.Load())
		all.cost.Add(sp.cost)
	}
	to.add("%d shards: %s", len(p.shards), &all)
}

// String returns what an operator did on one line.
func (op *operatorProfile) String() string {
	if op.chunks.Load() == 0 {
		return shortTime(op.took).String()
	}
	return fmt.Sprintf("%s, %s", shortTime(op.took), &op.scanCounts)
}

// String returns the counts on one line.
func (sp *scanCounts) String() string {
	chunks, decoded := sp.chunks.Load(), sp.decoded.Load()
	return fmt.Sprintf("%d series, %d chunks (%d decoded, %d by statistics), %d rows, %d values decoded, %d blocks of %d bytes in %d files, %d cached values, %s in storage",
		sp.series.Load(), chunks, decoded, chunks-decoded, sp.rows.Load(), sp.values.Load(),
		sp.cost.Blocks, sp.cost.Bytes, sp.cost.Files, sp.cost.CachedValues, shortTime(time.Duration(sp.nanos.Load())))
}

func rfc3339(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }

// shortTime leaves three digits or so of a duration.
func shortTime(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(time.Microsecond)
	}
	return d
}
