package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tsdbd/query/engine/read"
	"tsdbd/query/result"
)

// profile is what EXPLAIN ANALYZE learns of a statement under way. A nil
// profile records nothing.
type profile struct {
	operators map[operator]*operatorProfile
	storage   read.StorageCounts
}

// levelProfile is what one SELECT, the statement or a subquery, did.
type levelProfile struct {
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
	read.Counts
}

// analyze has the statement count what it does.
func (x *exec) analyze(p *profile) { x.prof, x.Counts = p, &p.storage }

// start returns the time if there is a profile.
func (p *profile) start() time.Time {
	if p == nil {
		return time.Time{}
	}
	return time.Now()
}

// step counts the time since start for a step of the level.
func (r *levelRun) step(name string, start time.Time) {
	if r.x.prof == nil {
		return
	}
	took, of := time.Since(start), &r.did
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
func (p *profile) open(o operator) *read.Counts {
	if p == nil {
		return nil
	}
	op := &operatorProfile{}
	if p.operators == nil {
		p.operators = map[operator]*operatorProfile{}
	}
	p.operators[o] = op
	return &op.Counts
}

// frames counts the frames of a level on their way to emit, and not the time
// that those take who get them.
func (lp *levelProfile) frames(emit func(*frame) error) (counted func(*frame) error, done func()) {
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

// describeStorage adds what the cursors of each shard gave to a node.
func (p *profile) describeStorage(to *planNode) {
	shards := p.storage.Shards
	slices.SortStableFunc(shards, func(a, b *read.ShardCounts) int { return cmp.Compare(a.Times.Min, b.Times.Min) })
	var all read.Counts
	for _, sp := range shards {
		to.add("shard %d, %s to %s: %s", sp.ID, result.FormatTime(sp.Times.Min), result.FormatTime(sp.Times.Max), &sp.Counts)
		all.Add(&sp.Counts)
	}
	to.add("%d shards: %s", len(shards), &all)
}

// String returns what an operator did on one line.
func (op *operatorProfile) String() string {
	if op.Chunks.Load() == 0 {
		return read.ShortTime(op.took).String()
	}
	return fmt.Sprintf("%s, %s", read.ShortTime(op.took), &op.Counts)
}
