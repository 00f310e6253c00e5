package mover

import (
	"context"
	"iter"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/compare"
)

// Sink is what rows are moved into. Its methods are called in the order in which they stand
// here.
type Sink interface {
	// Create makes the databases with their policies, as far as they are not there. They
	// have the names of the target.
	Create(ctx context.Context, m *Move, databases []*meta.Database) error
	// Define makes what is lacking of d. It is called again behind the rows, for the limits
	// of writes.
	Define(ctx context.Context, d *exchange.Definitions) (exchange.Defined, error)
	// Parts returns the parts as the sink takes them, which may be cut in another way. It
	// leaves out what the target would not keep.
	Parts(ctx context.Context, m *Move, parts iter.Seq2[*Part, error]) iter.Seq2[*Part, error]
	// Put stores the rows of a part, of which it tells t. When it returns they are durable.
	// It returns what the target has of the part, or nil, which leaves that to Count.
	Put(ctx context.Context, p *Part, r rows.Reader, t *Tally) (compare.Totals, error)
	// Count returns what the target has of a policy within times of the measurements that
	// are wanted.
	Count(ctx context.Context, database, policy string, times model.TimeRange, wanted func(measurement string) bool) (compare.Totals, error)
}
