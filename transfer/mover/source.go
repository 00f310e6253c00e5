package mover

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/meta"
	"tsdbd/model"
)

// Source is what rows are moved out of.
type Source interface {
	// Catalog returns what the source knows besides rows, as far as a filter chooses it.
	// It may be empty.
	Catalog(ctx context.Context, f *exchange.Filter) (*Catalog, error)
	// Parts yields the rows that a filter chooses. Of two rows of a series with the same
	// time that of the later part wins, field by field. The next part may be asked for
	// while earlier ones are read, unless Options.Workers is 1.
	Parts(ctx context.Context, f *exchange.Filter) iter.Seq2[*Part, error]
}

// Catalog is what a source knows besides rows.
type Catalog struct {
	// Databases have names, policies, continuous queries and subscriptions. Their ids and
	// shard groups do not count.
	Databases []*meta.Database
	Users     []*meta.User
}

// Refuse takes rows that cannot be stored, which are valid during the call, and why.
type Refuse func(reason string, run *rows.Run)

// Part is rows that are moved together, such as a shard.
type Part struct {
	Name             string          // in the journal, and for messages; no two parts have the same
	Database, Policy string          // of the source; for a sink, of the target
	ID               uint64          // of the shard, if it is one
	Times            model.TimeRange // of its rows, at most
	Bytes            int64           // of its files
	Values           int64           // about; 0: not known
	Share            float64         // of all that the source has, for the progress; 0: not known
	// Again says that the rows are read and counted also if the journal has the part: those
	// of the next part may come behind them, and the comparison is of all.
	Again bool
	// Open reads the rows within times. Rows that cannot be stored go to refuse. A sink
	// that makes files needs series in ascending order of their keys.
	Open func(ctx context.Context, times model.TimeRange, refuse Refuse) (rows.Reader, error)
	// Lines, in place of Open, passes on the rows of a source whose form is text, in the order
	// in which they are stored. ctx ends with the error of the target. Only a LineSink takes them.
	Lines func(ctx context.Context, to Lines) error
	// Recover, if set, says what becomes of a part with Lines after an error: it is moved again if
	// Recover returns nil, maybe after a pause, and by halves after ErrHalve. Every other error
	// ends the move, and names the part.
	Recover func(ctx context.Context, err error) error
	// Halves, if set, returns the part as two that are moved one after the other. Halve says
	// whether to do that at once.
	Halves func() [2]*Part
	Halve  func() bool
	// Settled, if set, reports after the part was moved whether it goes to the journal.
	Settled func() bool
	// Precision is the unit of the times of Lines: ns (default), us, ms, s, m, h.
	Precision string
	// Series says that Lines are VictoriaMetrics' lines of JSON. Without a Database the server
	// chooses that of Prometheus.
	Series bool
}

// ErrHalve is the result of Part.Recover for a part that is too large for its source.
var ErrHalve = errors.New("the part is too large")

// Shard names a shard of a source.
func Shard(id uint64, database, policy string) string {
	return fmt.Sprintf("shard %d of %s.%s", id, database, policy)
}

// List is a Source whose parts are known, such as the shards of a directory.
type List struct {
	All   Catalog
	Items []*Part
}

// isSystem reports whether servers keep a database about themselves: statistics of 1.x, and
// runs of checks and of tasks of 2.x. It moves only by its name.
func isSystem(database string) bool {
	return database == "_internal" || database == "_monitoring" || database == "_tasks"
}

// LeftOut returns the databases with points that a filter leaves out unless it names them.
func (l *List) LeftOut(f *exchange.Filter) (names []string) {
	for _, p := range l.Items {
		if f.Database == "" && isSystem(p.Database) && !slices.Contains(names, p.Database) {
			names = append(names, p.Database)
		}
	}
	return names
}

// Catalog implements Source.
func (l *List) Catalog(_ context.Context, f *exchange.Filter) (*Catalog, error) {
	if f.Database == "" && f.RetentionPolicy != "" {
		return nil, fmt.Errorf("a retention policy can be chosen only together with its database")
	}
	out := &Catalog{}
	for _, d := range l.All.Databases {
		if f.Database == "" && isSystem(d.Name) {
			continue
		}
		c := *d
		c.RetentionPolicies = nil
		for _, rp := range d.RetentionPolicies {
			if f.WantsPolicy(d, rp) {
				c.RetentionPolicies = append(c.RetentionPolicies, rp)
			}
		}
		if f.Database == "" || f.Database == d.Name && len(c.RetentionPolicies) > 0 {
			out.Databases = append(out.Databases, &c)
		}
	}
	if f.Database == "" {
		out.Users = l.All.Users
	} else if len(out.Databases) == 0 {
		return nil, fmt.Errorf("the source has no database %q with such a retention policy", f.Database)
	}
	for _, id := range f.Shards {
		if !slices.ContainsFunc(l.Items, func(p *Part) bool { return p.ID == id && (f.Database == "" || f.Database == p.Database) }) {
			return nil, fmt.Errorf("the source has no shard %d", id)
		}
	}
	return out, nil
}

// Parts implements Source.
func (l *List) Parts(_ context.Context, f *exchange.Filter) iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		for _, p := range l.Items {
			wanted := (f.Database == "" && !isSystem(p.Database) || f.Database == p.Database) && (f.RetentionPolicy == "" || f.RetentionPolicy == p.Policy) &&
				(len(f.Shards) == 0 || slices.Contains(f.Shards, p.ID)) && p.Times.Overlaps(f.Times())
			if wanted && !yield(p, nil) {
				return
			}
		}
	}
}

// Amount is how much there is of a policy.
type Amount struct {
	Database, Policy string
	Shards           int
	Times            model.TimeRange
	Bytes, Values    int64 // values are an estimate
}

// Survey returns what would be read, by policy in the order of the source.
func (l *List) Survey(ctx context.Context, f *exchange.Filter) ([]Amount, error) {
	chosen, err := l.Catalog(ctx, f)
	if err != nil {
		return nil, err
	}
	var out []Amount
	place := map[[2]string]int{}
	of := func(database, policy string) *Amount {
		i, ok := place[[2]string{database, policy}]
		if !ok {
			i = len(out)
			place[[2]string{database, policy}] = i
			out = append(out, Amount{Database: database, Policy: policy, Times: model.TimeRange{Min: 1, Max: 0}})
		}
		return &out[i]
	}
	for _, d := range chosen.Databases {
		for _, rp := range d.RetentionPolicies {
			of(d.Name, rp.Name)
		}
	}
	for p := range l.Parts(ctx, f) {
		a := of(p.Database, p.Policy)
		if a.Shards++; a.Shards == 1 {
			a.Times = p.Times
		} else {
			a.Times = a.Times.Union(p.Times)
		}
		a.Bytes += p.Bytes
		a.Values += p.Values
	}
	return out, nil
}
