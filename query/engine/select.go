package engine

import (
	"context"
	"runtime"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/read"
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

// exec is one running SELECT: what all its levels share.
type exec struct {
	*read.Budget
	opt     Options
	planner *plan.Planner
	stop    admission.Stopper
	prof    *profile // of EXPLAIN ANALYZE, else nil
}

func newExec(ctx context.Context, storage scan.Storage, opt Options) *exec {
	if opt.Now.IsZero() {
		opt.Now = time.Now().UTC()
	}
	if opt.streamRows == 0 {
		opt.streamRows = 1 << 20
	}
	if opt.MemoryBytes == 0 {
		opt.MemoryBytes = read.DefaultMemoryBytes
	}
	x := &exec{opt: opt, Budget: &read.Budget{
		Ctx: ctx, Turn: opt.Turn, Claim: opt.Account.Claim(ctx, opt.Turn, opt.MemoryBytes), Workers: opt.Workers, WorkRows: opt.workRows,
		MaxMemory: opt.MemoryBytes, MaxPoints: int64(opt.MaxSelectPoint), MaxSeries: opt.MaxSelectSeries,
	}}
	if x.Workers <= 0 {
		x.Workers = runtime.GOMAXPROCS(0)
	}
	x.stop = x.Stopper()
	x.planner = &plan.Planner{
		Ctx: ctx, Storage: storage, Now: opt.Now, MaxBuckets: opt.MaxSelectBuckets, Keep: x.Keep, Warn: opt.Warn,
		Views: map[[2]string]scan.View{},
	}
	return x
}

// Select plans and runs stmt and hands its answer to emit piece by piece,
// in order, from the calling goroutine. An error ends the statement; Results
// handed out before it stay valid. stmt is not changed.
func Select(ctx context.Context, stmt *influxql.SelectStatement, storage scan.Storage, opt Options, emit func(*result.Result) error) error {
	x := newExec(ctx, storage, opt)
	defer x.release()
	r, err := x.plan(stmt)
	if err != nil {
		return err
	}
	return r.answer(emit)
}

// plan plans a statement and gives each of its levels the operators that it needs.
func (x *exec) plan(stmt *influxql.SelectStatement) (*levelRun, error) {
	l, err := x.planner.Plan(stmt)
	if err != nil {
		return nil, err
	}
	return newLevelRun(x, l), nil
}

// answer runs the outermost level of a statement.
func (r *levelRun) answer(emit func(*result.Result) error) error {
	x, l := r.x, r.l
	if l.Statement.Target != nil {
		return r.runInto(emit)
	}
	out := &emitter{x: x, level: l, chunk: x.opt.ChunkSize, emit: emit, columns: l.Statement.ColumnNames()}
	if l.Statement.Location != nil {
		out.zone = l.Statement.Location.String()
	}
	if err := r.run(out.frame); err != nil {
		return err
	}
	return out.flush()
}

func (x *exec) release() {
	x.planner.Release()
	x.Claim.Release()
}
