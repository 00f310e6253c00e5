package engine

import (
	"context"

	"github.com/influxdata/influxql"

	"tsdbd/model/scan"
	"tsdbd/query/result"
)

// Select plans and runs stmt. It passes the answer to emit in pieces, in order, from
// the calling goroutine. An error ends the statement. Results that emit got before
// stay valid. Select does not change stmt.
func Select(ctx context.Context, stmt *influxql.SelectStatement, storage scan.Storage, opt Options, emit func(*result.Result) error) error {
	x := newExec(ctx, storage, opt)
	defer x.release()
	r, err := x.plan(stmt)
	if err != nil {
		return err
	}
	return r.answer(emit)
}

// answer runs the outermost level of a statement.
func (r *levelRun) answer(emit func(*result.Result) error) error {
	x, l := r.x, r.l
	if l.Statement.Target != nil {
		return r.runInto(emit)
	}
	out := &emitter{Budget: x.Budget, level: l, chunk: x.opt.ChunkSize, emit: emit, columns: l.Statement.ColumnNames()}
	if l.Statement.Location != nil {
		out.zone = l.Statement.Location.String()
	}
	if err := r.run(out.frame); err != nil {
		return err
	}
	return out.flush()
}
