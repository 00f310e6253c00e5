package query

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

// profile is what EXPLAIN ANALYZE learns of a statement under way. It stands
// between the statement and storage, so that other statements pay nothing. A
// nil profile records nothing.
type profile struct {
	levels []*levelProfile // in order of their first frames

	mu     sync.Mutex
	shards []*shardProfile // in order of their first cursors
}

// levelProfile is what one SELECT, the statement or a subquery, did.
type levelProfile struct {
	level     *level
	took      time.Duration // all of it, subqueries included
	series    int
	rows      int
	operators []operatorTime // in order of their first use
}

// operatorTime is the time of the statement's goroutine in one operator.
type operatorTime struct {
	name string
	took time.Duration
}

// shardProfile counts what cursors over one shard gave.
type shardProfile struct {
	id      uint64
	times   model.TimeRange
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

// add counts the time since start for an operator of a level.
func (p *profile) add(l *level, name string, start time.Time) {
	if p == nil {
		return
	}
	took := time.Since(start)
	of := p.of(l)
	for i := range of.operators {
		if of.operators[i].name == name {
			of.operators[i].took += took
			return
		}
	}
	of.operators = append(of.operators, operatorTime{name, took})
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
func (p *profile) shard(s scan.Shard) *shardProfile {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sp := range p.shards {
		if sp.id == s.ID() {
			return sp
		}
	}
	sp := &shardProfile{id: s.ID(), times: s.TimeRange()}
	p.shards = append(p.shards, sp)
	return sp
}

// profiledStorage is a storage whose cursors count.
type profiledStorage struct {
	scan.Storage
	p *profile
}

// View implements scan.Storage.
func (s profiledStorage) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := s.Storage.View(db, rp, r)
	if err != nil {
		return nil, err
	}
	return profiledView{v, s.p}, nil
}

type profiledView struct {
	scan.View
	p *profile
}

func (v profiledView) Shards() []scan.Shard {
	var out []scan.Shard
	for _, s := range v.View.Shards() {
		out = append(out, profiledShard{s, v.p})
	}
	return out
}

type profiledShard struct {
	scan.Shard
	p *profile
}

func (s profiledShard) Charged(charge func(bytes int64) error) scan.Shard {
	return profiledShard{s.Shard.Charged(charge), s.p}
}

func (s profiledShard) Scan(ctx context.Context, req scan.Request) (scan.Cursor, error) {
	sp := s.p.shard(s.Shard)
	cost, err := s.Cost(req)
	if err != nil {
		return nil, err
	}
	sp.mu.Lock()
	sp.cost.Add(cost)
	sp.mu.Unlock()
	defer sp.spent(time.Now())
	cur, err := s.Shard.Scan(ctx, req)
	if err != nil {
		return nil, err
	}
	return &profiledCursor{Cursor: cur, of: sp}, nil
}

func (sp *shardProfile) spent(start time.Time) { sp.nanos.Add(int64(time.Since(start))) }

type profiledCursor struct {
	scan.Cursor
	of    *shardProfile
	chunk profiledChunk
}

func (c *profiledCursor) NextSeries() (model.SeriesID, bool) {
	defer c.of.spent(time.Now())
	id, ok := c.Cursor.NextSeries()
	if ok {
		c.of.series.Add(1)
	}
	return id, ok
}

func (c *profiledCursor) NextChunk() scan.Chunk {
	defer c.of.spent(time.Now())
	chunk := c.Cursor.NextChunk()
	if chunk == nil {
		return nil
	}
	c.of.chunks.Add(1)
	c.of.rows.Add(int64(chunk.Len()))
	c.chunk = profiledChunk{Chunk: chunk, of: c.of}
	return &c.chunk
}

type profiledChunk struct {
	scan.Chunk
	of      *shardProfile
	decoded bool
}

func (c *profiledChunk) decode(values int) {
	if !c.decoded {
		c.decoded = true
		c.of.decoded.Add(1)
	}
	c.of.values.Add(int64(values))
}

func (c *profiledChunk) Times() ([]int64, error) {
	defer c.of.spent(time.Now())
	if c.Step() == 0 && c.Len() > 1 {
		c.decode(c.Len())
	}
	return c.Chunk.Times()
}

func (c *profiledChunk) Column(i int) (*column.Vector, error) {
	defer c.of.spent(time.Now())
	c.decode(c.Len())
	return c.Chunk.Column(i)
}

// planNode is a line of a tree of lines.
type planNode struct {
	text string
	kids []*planNode
}

func (n *planNode) add(format string, args ...any) *planNode {
	kid := &planNode{text: fmt.Sprintf(format, args...)}
	n.kids = append(n.kids, kid)
	return kid
}

// lines appends the lines below a node, drawn as a tree.
func (n *planNode) lines(dst []string, indent string) []string {
	for i, kid := range n.kids {
		branch, below := "├── ", "│   "
		if i == len(n.kids)-1 {
			branch, below = "└── ", "    "
		}
		dst = append(dst, indent+branch+kid.text)
		dst = kid.lines(dst, indent+below)
	}
	return dst
}

// describe adds what the profile holds to a node.
func (p *profile) describe(to *planNode) {
	if len(p.levels) > 0 {
		operators := to.add("operators")
		for _, lp := range p.levels {
			n := operators.add("%s: %s, %d series, %d rows", lp.level.stmt, shortTime(lp.took), lp.series, lp.rows)
			for _, op := range lp.operators {
				n.add("%s: %s", op.name, shortTime(op.took))
			}
		}
	}
	slices.SortStableFunc(p.shards, func(a, b *shardProfile) int { return cmpInt(a.times.Min, b.times.Min) })
	storage := to.add("storage")
	var all shardProfile
	for _, sp := range p.shards {
		storage.add("shard %d, %s to %s: %s", sp.id, rfc3339(sp.times.Min), rfc3339(sp.times.Max), sp)
		all.series.Add(sp.series.Load())
		all.chunks.Add(sp.chunks.Load())
		all.decoded.Add(sp.decoded.Load())
		all.rows.Add(sp.rows.Load())
		all.values.Add(sp.values.Load())
		all.nanos.Add(sp.nanos.Load())
		all.cost.Add(sp.cost)
	}
	storage.add("%d shards: %s", len(p.shards), &all)
}

// String returns the counts on one line.
func (sp *shardProfile) String() string {
	chunks, decoded := sp.chunks.Load(), sp.decoded.Load()
	return fmt.Sprintf("%d series, %d chunks (%d decoded, %d by statistics), %d rows, %d values decoded, %d blocks of %d bytes in %d files, %d cached values, %s",
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
