package server

import (
	"context"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model/point"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/services/subscriber"
	"tsdbd/store"
)

// engine is the store as the API and the query executor see it.
type engine struct {
	*store.Store
	subscribers *subscriber.Service // nil: nobody gets copies
	cores       *admission.Cores    // nil: writes have no cores of their own
	// waits is called when a write has waited for long; nil: never.
	long  time.Duration
	waits func()
}

// RetentionPolicy returns the name of the policy that writes to rp go to.
func (e engine) RetentionPolicy(db, rp string) (string, error) {
	p, err := e.Catalog().RetentionPolicy(db, rp)
	if err != nil {
		return "", err
	}
	return p.Name, nil
}

// Write stores a batch and hands a copy to the subscribers, unless it failed
// as a whole.
func (e engine) Write(ctx context.Context, db, rp string, batch *point.Batch) error {
	if e.waits != nil {
		defer time.AfterFunc(e.long, e.waits).Stop()
	}
	defer e.cores.Write()()
	batch.GiveTime(time.Now().UnixNano())
	if e.subscribers == nil {
		return e.Store.Write(ctx, db, rp, batch)
	}
	name := rp
	if name == "" {
		name, _ = e.RetentionPolicy(db, "") // Write below returns the error
	}
	lines := e.subscribers.Encode(db, name, batch)
	err := e.Store.Write(ctx, db, rp, batch)
	if _, _, partial := point.Partial(err); err == nil || partial {
		e.subscribers.Send(db, name, lines)
	}
	return err
}

// runContinuous runs the statement of a continuous query.
func runContinuous(ctx context.Context, executor *query.Executor, db string, q *influxql.Query) error {
	var failed error
	err := executor.Execute(ctx, q, query.ExecuteOptions{Database: db, SourceOnly: true}, func(r *result.Result) error {
		if failed == nil {
			failed = r.Err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return failed
}

// executeRows runs the statement of a downsample and passes its rows on.
func executeRows(ctx context.Context, executor *query.Executor, db string, q *influxql.Query, rows func(*result.Series) error) error {
	var failed error
	err := executor.Execute(ctx, q, query.ExecuteOptions{Database: db, ChunkSize: intoBatchRows, SourceOnly: true, Unlimited: true}, func(r *result.Result) error {
		if r.Err != nil {
			failed = r.Err
		}
		for _, one := range r.Series {
			if err := rows(one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return failed
}
