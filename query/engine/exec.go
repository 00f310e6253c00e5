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
)

// exec is one running SELECT: what all its levels share.
type exec struct {
	*read.Budget
	opt     Options
	planner *plan.Planner
	stop    admission.Stopper
	prof    *profile      // of EXPLAIN ANALYZE, else nil
	noted   map[Note]bool // what was told of downsamples
}

func newExec(ctx context.Context, storage scan.Storage, opt Options) *exec {
	if opt.Now.IsZero() {
		opt.Now = time.Now().UTC()
	}
	if opt.streamRows == 0 {
		opt.streamRows = 1 << 20
	}
	if opt.partNames == 0 {
		opt.partNames = partNames
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
		Budget: x.Budget, Storage: storage, Now: opt.Now, MaxBuckets: opt.MaxSelectBuckets, Warn: opt.Warn,
		Downsamples: opt.Downsamples,
	}
	return x
}

// plan plans a statement and gives each of its levels the operators that it needs.
func (x *exec) plan(stmt *influxql.SelectStatement) (*levelRun, error) {
	l, err := x.planner.Plan(stmt)
	if err != nil {
		return nil, err
	}
	return newLevelRun(x, l)
}

func (x *exec) release() {
	x.planner.Release()
	x.Claim.Release()
}

// maxNotes bounds what is told of the downsamples of many measurements.
const maxNotes = 20

// note passes on a text on a downsample, each once.
func (x *exec) note(n Note) {
	if x.opt.Note == nil || x.noted[n] || len(x.noted) >= maxNotes {
		return
	}
	if x.noted == nil {
		x.noted = map[Note]bool{}
	}
	x.noted[n] = true
	x.opt.Note(n)
}
