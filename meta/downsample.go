package meta

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"tsdbd/model"
)

// Downsample is a rule: the policy Into has, for each measurement, series and window of
// Every, the aggregates Functions of the rows that the policy From has.
type Downsample struct {
	ID         uint64 // the Index of the first catalog that has it; never reused
	From, Into string // names of policies
	Every      time.Duration
	Functions  []string // names of InfluxQL's functions
	Where      string   `json:",omitempty"` // an InfluxQL condition; "": all rows
	// Backfill is how much time the shard groups of From covered when the downsample
	// was created, up to that moment.
	Backfill int64 `json:",omitempty"`
	// Computed counts the ranges of windows that were computed.
	Computed uint64 `json:",omitempty"`
}

// MinDownsampleEvery is the shortest window of a downsample.
const MinDownsampleEvery = time.Second

// CreateDownsample makes a downsample.
type CreateDownsample struct {
	Database, From, Into string
	Every                time.Duration
	Functions            []string
	Where                string `json:",omitempty"`
	Time                 int64  // the wall clock, ns since the epoch
}

// DropDownsample removes a downsample. The rows of Into stay.
type DropDownsample struct{ Database, From, Into string }

// CompleteWindows says that windows of a downsample have been computed from all entries
// of the log up to Sequence. A downsample that is gone is no error.
type CompleteWindows struct {
	ID       uint64 // of the downsample
	Sequence uint64
	Windows  []ComputedWindows
}

// ComputedWindows are the windows of [From, To), in nanoseconds since the epoch.
type ComputedWindows struct {
	Measurement string   // "": all measurements
	Except      []string `json:",omitempty"` // of all measurements, those that failed
	From, To    int64
	// Target is the Sequence of the rows that the target has: entries up to it that
	// touched the target are made good. 0 is none.
	Target uint64 `json:",omitempty"`
}

// Downsample returns the downsample into a policy, nil if there is none.
func (db *Database) Downsample(into string) *Downsample {
	for i := range db.Downsamples {
		if db.Downsamples[i].Into == into {
			return &db.Downsamples[i]
		}
	}
	return nil
}

// Downsamples returns all downsamples with their databases.
func (d *Data) Downsamples() iter.Seq2[*Database, *Downsample] {
	return func(yield func(*Database, *Downsample) bool) {
		for _, db := range d.Databases {
			for i := range db.Downsamples {
				if !yield(db, &db.Downsamples[i]) {
					return
				}
			}
		}
	}
}

// Start returns the start of the window that holds a time, in nanoseconds since the
// epoch. The first window of all time starts at model.MinTime.
func (t *Downsample) Start(at int64) int64 {
	since := at % int64(t.Every)
	if since < 0 {
		since += int64(t.Every)
	}
	if at < model.MinTime+since {
		return model.MinTime
	}
	return at - since
}

// End returns the end of the window that holds a time: the start of the next one, or
// math.MaxInt64 for the last.
func (t *Downsample) End(at int64) int64 {
	since := at % int64(t.Every)
	if since < 0 {
		since += int64(t.Every)
	}
	if rest := int64(t.Every) - since; at <= math.MaxInt64-rest {
		return at + rest
	}
	return math.MaxInt64
}

// Ceil returns the start of the first window that does not begin before a time.
func (t *Downsample) Ceil(at int64) int64 {
	if t.Start(at) == at {
		return at
	}
	return t.End(at)
}

// After returns the end of n windows, of which the first holds a time.
func (t *Downsample) After(at, n int64) int64 {
	end := t.End(at)
	if n--; uint64(n) > (math.MaxInt64-uint64(end))/uint64(t.Every) { // room may be more than an int64
		return math.MaxInt64
	}
	return end + n*int64(t.Every)
}

// Windows returns how many windows there are in [from, to), whose ends are bounds of
// windows.
func (t *Downsample) Windows(from, to int64) int64 {
	if from >= to {
		return 0
	}
	return int64((uint64(to-from)-1)/uint64(t.Every)) + 1 // the first and the last may be shorter
}

// OnlyCopies returns the shard groups of the target that may have rows which nothing can
// compute again: the source has lost rows of their time by its age, or has none of it.
func (t *Downsample) OnlyCopies(db *Database) (out []*ShardGroup) {
	from, into := db.RetentionPolicy(t.From), db.RetentionPolicy(t.Into)
	for _, g := range into.ShardGroups {
		lost := from.Expired != 0 && g.Start < t.Ceil(from.Expired)
		if lost || !slices.ContainsFunc(from.ShardGroups, func(s *ShardGroup) bool { return s.Start < g.End && g.Start < s.End }) {
			out = append(out, g)
		}
	}
	return out
}

// sameWindows returns an error if the target has rows of other windows, from a downsample
// that was dropped, that cannot be computed again. Answers would take them for rows of
// these windows.
func (t *Downsample) sameWindows(db *Database) error {
	into := db.RetentionPolicy(t.Into)
	if into.Windows == 0 || into.Windows == t.Every || len(t.OnlyCopies(db)) == 0 {
		return nil
	}
	return fmt.Errorf("%w: policy %s has rows in windows of %v that cannot be computed again from policy %s: repeat EVERY %v, or downsample into another policy",
		ErrDownsampleInvalid, t.Into, into.Windows, t.From, into.Windows)
}

// covered returns an error if a policy does not keep rows for a window.
func (t *Downsample) covered(from *RetentionPolicy) error {
	if from.Duration > 0 && from.Duration < t.Every {
		return fmt.Errorf("%w: policy %s keeps %v, a window of %v needs more", ErrDownsampleInvalid, from.Name, from.Duration, t.Every)
	}
	return nil
}

// check returns an error if the downsample does not fit to the policies and to the
// other downsamples of a database.
func (t *Downsample) check(db *Database) error {
	for _, name := range []string{t.From, t.Into} {
		if db.RetentionPolicy(name) == nil {
			return retentionPolicyNotFound(name)
		}
	}
	if t.From == t.Into {
		return fmt.Errorf("%w: FROM and INTO are the same policy %s", ErrDownsampleInvalid, t.From)
	}
	if t.Every < MinDownsampleEvery {
		return fmt.Errorf("%w: EVERY must be at least %v", ErrDownsampleInvalid, MinDownsampleEvery)
	}
	if len(t.Functions) == 0 || slices.Contains(t.Functions, "") || len(slices.Compact(slices.Sorted(slices.Values(t.Functions)))) < len(t.Functions) {
		return fmt.Errorf("%w: functions %s must be one or more, each once", ErrDownsampleInvalid, strings.Join(t.Functions, ", "))
	}
	for i := range db.Downsamples {
		switch o := &db.Downsamples[i]; {
		case o.ID == t.ID:
		case o.Into == t.Into:
			return fmt.Errorf("%w: from %s into %s", ErrDownsampleExists, o.From, o.Into)
		case o.Into == t.From:
			return fmt.Errorf("%w: policy %s has aggregates of %s, so aggregates of it would be wrong; downsample from %s", ErrDownsampleInvalid, t.From, o.From, o.From)
		case o.From == t.Into:
			return fmt.Errorf("%w: policy %s is downsampled into %s, which would have aggregates of aggregates", ErrDownsampleInvalid, t.Into, o.Into)
		}
	}
	return t.covered(db.RetentionPolicy(t.From))
}

// validateDownsamples checks what the rest of the program relies on, after decoding.
func (d *Data) validateDownsamples() error {
	seen := map[uint64]bool{}
	for db, t := range d.Downsamples() {
		if err := t.check(db); err != nil || t.ID == 0 || t.ID > d.Index || seen[t.ID] {
			return fmt.Errorf("downsamples of database %q are inconsistent", db.Name)
		}
		seen[t.ID] = true
	}
	return nil
}

func (c CreateDownsample) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		if o := db.Downsample(c.Into); o != nil && o.From == c.From && o.Every == c.Every && o.Where == c.Where && slices.Equal(o.Functions, c.Functions) {
			return false, nil
		}
		t := Downsample{ID: d.Index + 1, From: c.From, Into: c.Into, Every: c.Every, Functions: c.Functions, Where: c.Where}
		if err := t.check(db); err != nil {
			return false, err
		}
		if err := t.sameWindows(db); err != nil {
			return false, err
		}
		for _, g := range db.RetentionPolicy(c.From).ShardGroups {
			if end := min(g.End, c.Time); end > g.Start {
				t.Backfill = int64(min(uint64(t.Backfill)+uint64(end-g.Start), math.MaxInt64))
			}
		}
		db.RetentionPolicies = slices.Clone(db.RetentionPolicies)
		i := slices.IndexFunc(db.RetentionPolicies, func(rp *RetentionPolicy) bool { return rp.Name == c.Into })
		into := *db.RetentionPolicies[i]
		into.Windows = c.Every
		db.RetentionPolicies[i] = &into
		db.Downsamples = append(slices.Clip(db.Downsamples), t)
		return true, nil
	})
}

func (c DropDownsample) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		i := slices.IndexFunc(db.Downsamples, func(t Downsample) bool { return t.From == c.From && t.Into == c.Into })
		if i < 0 {
			return false, fmt.Errorf("%w: from %s into %s", ErrDownsampleNotFound, c.From, c.Into)
		}
		db.Downsamples = slices.Delete(slices.Clone(db.Downsamples), i, i+1)
		return true, nil
	})
}

func (c CompleteWindows) apply(d *Data) (bool, error) {
	for db, t := range d.Downsamples() {
		if t.ID == c.ID {
			return d.changeDatabase(db.Name, func(db *Database) (bool, error) {
				db.Downsamples = slices.Clone(db.Downsamples)
				db.Downsample(t.Into).Computed += uint64(len(c.Windows))
				return len(c.Windows) > 0, nil
			})
		}
	}
	return false, nil
}
