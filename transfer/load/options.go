package load

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/transfer"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/rows"
)

// Options say what is loaded. The zero value is all.
type Options struct {
	Filter      transfer.Filter // its shards are those of the source
	NewDatabase string          // for the database of Filter
	// Journal, if set, has the shards that are finished, and gets those to come.
	Journal *journal.Journal
	// Refusals, if set, gets the rows that the target refuses.
	Refusals *Refusals
	// Damaged, if set, reports whether damage of the source was found so far.
	Damaged func() bool
	// Note, if set, is called with what a user should know, once each.
	Note     func(text string)
	Progress func(Progress) // called often, by several goroutines
	Workers  int            // shards at a time; default DefaultWorkers
	Now      func() time.Time
}

// DefaultWorkers is how many shards a load reads at a time.
const DefaultWorkers = 2

// Progress is how far a load is.
type Progress struct {
	Values, Expected int64 // expected is an estimate
	Done, Shards     int
}

// Result is what a load did.
type Result struct {
	Databases, Policies int // that Into made
	Defined             transfer.Defined
	Shards              int // of the target that were loaded
	Written             int // of them by writes, because they had points
	Earlier             int // that the journal had
	// EarlierFlaws says that values were damaged or missing when the journal got its shards,
	// EarlierRefused what was refused of them. They are not in the other numbers.
	EarlierFlaws   bool
	EarlierRefused journal.Refused
	Expired        int // that the policy would have dropped
	Values, Bytes  int64
	Refused        int64 // values; by a server, points
	// Source and Target are what was read and what the target has of it. Target may have
	// more, where it had points before.
	Source, Target compare.Totals
}

// Missing returns the differences that say that the target lacks something, or has other
// values.
func (r *Result) Missing() (out []compare.Difference) {
	for _, d := range compare.Differences(r.Source, r.Target) {
		if d.Fewer || d.What == "sum" || d.What == "type" {
			out = append(out, d)
		}
	}
	return out
}

// state is what the workers of a load share.
type state struct {
	opt      Options
	values   atomic.Int64
	expected int64
	done     atomic.Int64
	shards   int

	mu struct {
		sync.Mutex
		result Result
		noted  map[string]bool
		flawed bool // a shard differs from its source
	}
}

func newState(opt Options) *state {
	if opt.Workers <= 0 {
		opt.Workers = DefaultWorkers
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &state{opt: opt}
	s.mu.noted = map[string]bool{}
	s.mu.result.EarlierFlaws = s.finished(flaws)
	s.mu.result.Source, s.mu.result.Target = compare.Totals{}, compare.Totals{}
	return s
}

// note calls Options.Note, once for each text.
func (s *state) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opt.Note != nil && !s.mu.noted[text] {
		s.mu.noted[text] = true
		s.opt.Note(text)
	}
}

// progress shows how far the load is after more values.
func (s *state) progress(values int64) {
	n := s.values.Add(values)
	if s.opt.Progress != nil {
		s.opt.Progress(Progress{Values: n, Expected: s.expected, Done: int(s.done.Load()), Shards: s.shards})
	}
}

// change changes the result.
func (s *state) change(f func(r *Result)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.mu.result)
}

// result returns the result.
func (s *state) result() *Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.mu.result
}

// finished reports whether the journal has a shard.
func (s *state) finished(name string) bool {
	return s.opt.Journal != nil && s.opt.Journal.Done(name)
}

// flaws is the entry of a journal with shards that are not all that the source has.
const flaws = "flaws"

// finish notes a shard in the journal, with what was refused of it and after that is kept:
// the import that goes on does not read the shard again.
func (s *state) finish(name string, j *job) error {
	s.done.Add(1)
	if s.opt.Journal == nil {
		return nil
	}
	if s.opt.Refusals != nil {
		if err := s.opt.Refusals.Sync(); err != nil {
			return fmt.Errorf("keep what was refused: %w", err)
		}
	}
	s.mu.Lock()
	flawed, refused := s.mu.flawed, j.refused
	s.mu.Unlock()
	if flawed || s.opt.Damaged != nil && s.opt.Damaged() {
		if err := s.opt.Journal.Finish(flaws, journal.Refused{}); err != nil {
			return err
		}
	}
	return s.opt.Journal.Finish(name, refused)
}

// skip counts a shard that the journal has.
func (s *state) skip(name string) {
	s.done.Add(1)
	refused := s.opt.Journal.Refused(name)
	s.change(func(r *Result) {
		r.Earlier++
		r.EarlierRefused.Add(refused)
	})
}

// refuse hands rows over that are not stored.
func (s *state) refuse(j *job, reason string, run *rows.Run) {
	if s.opt.Refusals != nil {
		s.opt.Refusals.Add(j.database, j.policy, reason, run)
	}
	s.refused(j, journal.Refused{Count: values(run), Reasons: []string{reason}})
}

// refused counts what is not stored.
func (s *state) refused(j *job, refused journal.Refused) {
	s.change(func(r *Result) {
		r.Refused += refused.Count
		j.refused.Add(refused)
	})
}
