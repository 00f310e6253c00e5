package meta

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"tsdbd/model"
)

// Downsample is a rule: the policy Into has, for each measurement, series and window,
// aggregates of the rows that the policy From has.
type Downsample struct {
	ID         uint64 // the Index of the first catalog that has it; never reused
	Name       string `json:",omitempty"` // no other downsample of the database has it; "": none
	From, Into string // names of policies
	// Measurement is the only one that is taken, or with Regex a regular expression for
	// their names; "": all.
	Measurement string `json:",omitempty"`
	Regex       bool   `json:",omitempty"`
	// Folds says that the rows of From are those of a downsample: their columns are put
	// together.
	Folds bool `json:",omitempty"`
	// Definitions say which rows there are, by time. The first holds from model.MinTime on,
	// the last one for ever.
	Definitions []Definition
	// Use says when queries read Into in place of From; "": as the server is configured.
	Use DownsampleUse `json:",omitempty"`
	// Begins is up to where rows of From had expired when the downsample was created; 0: none
	// had. No window before it was computed, though somebody may have imported its rows.
	Begins int64 `json:",omitempty"`
	// Backfill is how much time the shard groups of From covered when the downsample
	// was created, up to that moment.
	Backfill int64 `json:",omitempty"`
	// Changed is when a statement has last said what is computed: what it needs has not waited for
	// it before.
	Changed int64 `json:",omitempty"`
	// Computed counts the ranges of windows that were computed.
	Computed uint64 `json:",omitempty"`
}

// DownsampleUse says for which windows a query may take a downsample.
type DownsampleUse string

// The uses.
const (
	UseOff      DownsampleUse = "off"
	UseExpired  DownsampleUse = "expired"  // windows that the source has lost by its age
	UseComplete DownsampleUse = "complete" // all windows that are computed
	// UseDefault is that of the server, in a command that takes another one back.
	UseDefault DownsampleUse = "default"
)

// DownsampleUses are those that a downsample may have.
var DownsampleUses = []DownsampleUse{UseOff, UseExpired, UseComplete}

// CreateDownsample makes a downsample. If the policy Into has rows that an earlier
// downsample of the same rows made, and that cannot be computed again, its definitions hold
// for them.
type CreateDownsample struct {
	Database, From, Into string
	Name                 string       `json:",omitempty"`
	Measurement          string       `json:",omitempty"`
	Regex                bool         `json:",omitempty"`
	Definitions          []Definition // one, or all of a downsample that is restored
	Time                 int64        // the wall clock, ns since the epoch
	// Of a downsample that is restored: its Begins, and up to where rows of its policies had
	// expired; 0: none had.
	Begins      int64         `json:",omitempty"`
	FromExpired int64         `json:",omitempty"`
	IntoExpired int64         `json:",omitempty"`
	Use         DownsampleUse `json:",omitempty"`
}

// AlterDownsample changes a downsample. Use is when queries take it. With a period or Add, a new definition holds for the
// windows for which From has all rows, or with Later for those from now on.
type AlterDownsample struct {
	Database, From, Into string
	Period                             // Every is 0: as before
	Add                  []string      `json:",omitempty"` // functions
	Drop                 []string      `json:",omitempty"` // functions, of all definitions
	Later                bool          `json:",omitempty"`
	Time                 int64         // the wall clock, ns since the epoch
	Use                  DownsampleUse `json:",omitempty"` // "": as before
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

// DownsampleNamed returns the downsample with a name, nil if there is none.
func (db *Database) DownsampleNamed(name string) *Downsample {
	for i := range db.Downsamples {
		if name != "" && db.Downsamples[i].Name == name {
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

// Downsample returns a downsample by its id with its database, nil if there is none.
func (d *Data) Downsample(id uint64) (*Database, *Downsample) {
	for db, t := range d.Downsamples() {
		if t.ID == id {
			return db, t
		}
	}
	return nil, nil
}

// at returns the place of the definition that holds at a time.
func (t *Downsample) at(at int64) int {
	i, found := slices.BinarySearchFunc(t.Definitions, at, func(d Definition, at int64) int { return cmp.Compare(d.Since, at) })
	if found || i == 0 {
		return i
	}
	return i - 1
}

// At returns the definition of the window that holds a time.
func (t *Downsample) At(at int64) *Definition { return &t.Definitions[t.at(at)] }

// Current returns the definition that holds for ever.
func (t *Downsample) Current() *Definition { return &t.Definitions[len(t.Definitions)-1] }

// Columns returns the columns of all definitions.
func (t *Downsample) Columns() (out []string) {
	for i := range t.Definitions {
		for _, f := range t.Definitions[i].Columns() {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// Change returns the start of the first window of the definition after the one that holds
// at a time, or math.MaxInt64.
func (t *Downsample) Change(at int64) int64 {
	if i := t.at(at) + 1; i < len(t.Definitions) {
		return t.Definitions[i].Since
	}
	return math.MaxInt64
}

// Start returns the start of the window that holds a time, in nanoseconds since the
// epoch. The first window of all time starts at model.MinTime.
func (t *Downsample) Start(at int64) int64 {
	w := t.At(at).Windows()
	return w.Start(at)
}

// End returns the end of the window that holds a time: the start of the next one, or
// math.MaxInt64 for the last.
func (t *Downsample) End(at int64) int64 {
	w := t.At(at).Windows()
	return w.End(at)
}

// Ceil returns the start of the first window that does not begin before a time.
func (t *Downsample) Ceil(at int64) int64 {
	w := t.At(at).Windows()
	return ceil(&w, at)
}

// After returns the end of n windows, of which the first holds a time.
func (t *Downsample) After(at, n int64) int64 {
	for {
		w, change := t.At(at).Windows(), t.Change(at)
		end := w.After(at, n)
		if end <= change {
			return end
		}
		n -= w.Count(w.Start(at), change)
		at = change
	}
}

// Windows returns how many windows there are in [from, to), whose ends are bounds of
// windows.
func (t *Downsample) Windows(from, to int64) (n int64) {
	for from < to {
		next := min(to, t.Change(from))
		w := t.At(from).Windows()
		n += w.Count(from, next)
		from = next
	}
	return n
}

// Takes returns which measurements the downsample takes, by name. Staged rows, which a source
// has that is a target as well, are of none.
func (t *Downsample) Takes() func(measurement string) bool {
	switch {
	case t.Regex:
		if re, err := regexp.Compile(t.Measurement); err == nil {
			return func(name string) bool { return re.MatchString(name) && !Staged(name) }
		}
		return func(string) bool { return false }
	case t.Measurement != "":
		return func(name string) bool { return name == t.Measurement }
	}
	return func(name string) bool { return !Staged(name) }
}

// StagedPrefix begins the names of measurements of a target that are not for clients. There
// a move stages the rows that series get which it makes one of several, until its entry gives
// them the measurement that they are for.
const StagedPrefix = "_fold:"

// Staged reports whether a measurement of a target has staged rows.
func Staged(measurement string) bool { return strings.HasPrefix(measurement, StagedPrefix) }

// StagedReason says why a client cannot give a measurement a name that Staged accepts.
func StagedReason(measurement string) string {
	return fmt.Sprintf("measurement %q begins with %s, which is reserved in targets of downsamples", measurement, StagedPrefix)
}

// Keeps reports whether rows of some window in a range keep a tag. A chain keeps those that its
// source keeps.
func (t *Downsample) Keeps(db *Database, tag string, r model.TimeRange) bool {
	for ; t != nil; t = db.madeOf(t.From) {
		keeps := false
		for i := t.at(r.Min); i < len(t.Definitions) && t.Definitions[i].Since <= r.Max; i++ {
			keeps = keeps || t.Definitions[i].Keeps(tag)
		}
		if !keeps {
			return false
		}
	}
	return true
}

// Lost returns the parts of a range of the target whose windows cannot be computed again: the
// source has lost rows of them by its age, or has no shard group there.
func (t *Downsample) Lost(db *Database, r model.TimeRange) (out []model.TimeRange) {
	from := db.RetentionPolicy(t.From)
	floor := t.Floor(from)
	at := r.Min
	for _, g := range from.ShardGroups {
		first, end := max(t.Start(g.Start), floor), t.End(g.TimeRange().Max)
		if end <= max(at, first) {
			continue
		}
		if first > r.Max || at > r.Max {
			break
		}
		if at < first {
			out = append(out, model.TimeRange{Min: at, Max: first - 1})
		}
		at = end
	}
	if at <= r.Max {
		out = append(out, model.TimeRange{Min: at, Max: r.Max})
	}
	return out
}

// Floor returns the start of the first window of which the source, its policy From, has lost
// nothing by its age.
func (t *Downsample) Floor(from *RetentionPolicy) int64 {
	switch from.Expired {
	case 0:
		return model.MinTime
	case t.Begins: // no window has been computed of more rows
		return t.Ceil(from.Expired)
	}
	return t.Free(from.Expired)
}

// Free returns the start of the first window from which on none needs rows of the source before
// a time: an increase needs the window before its own, also if that is one of another definition.
func (t *Downsample) Free(at int64) int64 {
	bound := t.Ceil(at)
	for i := t.at(bound); i < len(t.Definitions) && !t.Folds; i++ {
		d := &t.Definitions[i]
		w, first := d.Windows(), max(bound, d.Since)
		if w.Prev(first) < at && d.looksBack() {
			bound = w.End(first)
		}
	}
	return bound
}

// inherit takes over the definitions of the downsample that was dropped from the target
// policy, for the rows that nothing can compute again. next holds from the first window on
// that the source can compute, and for which both definitions have a bound.
func (t *Downsample) inherit(db *Database, old *Downsample, now int64) error {
	if old == nil || len(t.Definitions) > 1 {
		return nil
	}
	next := &t.Definitions[0]
	known, err := t.computable(db, next, now)
	switch {
	case err != nil:
		return err
	case known == model.MinTime: // all rows can be computed again
		t.Begins = 0
		return nil
	case old.From != t.From || old.Measurement != t.Measurement || old.Regex != t.Regex:
		return fmt.Errorf("%w: policy %s has rows of policy %s that cannot be computed again: downsample the same, or into another policy",
			ErrDownsampleInvalid, t.Into, old.From)
	}
	t.Begins = old.Begins
	t.Definitions, err = follow(old.Definitions, next, known)
	return err
}

// computable returns the time from which on the source has all rows that rows of the target
// are of, by a definition. now is the wall clock: the target may have shard groups for later.
func (t *Downsample) computable(db *Database, by *Definition, now int64) (int64, error) {
	from, at := db.RetentionPolicy(t.From), model.MinTime
	if from.Expired != 0 {
		at = from.Expired
	}
	for _, g := range db.RetentionPolicy(t.Into).ShardGroups {
		has := slices.ContainsFunc(from.ShardGroups, func(s *ShardGroup) bool { return s.Start < g.End && g.Start < s.End })
		if has || g.Start >= now || from.Expired != 0 && g.Start < from.Expired {
			continue
		}
		if len(from.ShardGroups) > 0 && from.ShardGroups[0].Start < g.Start {
			return 0, fmt.Errorf("%w: policy %s has rows of %s that cannot be computed again, between times that can",
				ErrDownsampleInvalid, t.Into, time.Unix(0, g.Start).UTC().Format(time.RFC3339))
		}
		at = max(at, g.End)
	}
	if at > model.MinTime && by.looksBack() && !t.Folds {
		at += int64(by.Every)
	}
	return at, nil
}

// follow returns definitions with one more, which holds from the first window on that does
// not begin before at.
func follow(list []Definition, next *Definition, at int64) ([]Definition, error) {
	next.Since = at
	for len(list) > 0 && at > model.MinTime {
		last := &list[len(list)-1]
		since, err := last.together(next, at)
		if err != nil {
			return nil, err
		}
		if next.Since = since; last.Since < since {
			break
		}
		list = list[:len(list)-1]
	}
	switch {
	case at == model.MinTime:
		list = nil
	case list[len(list)-1].equal(next):
		return list, nil
	}
	return append(slices.Clip(list), *next), nil
}

// covered returns an error if a policy does not keep rows for a window.
func (t *Downsample) covered(from *RetentionPolicy) error {
	if every := t.Current().Every; from.Duration > 0 && from.Duration < every {
		return fmt.Errorf("%w: policy %s keeps %v, a window of %v needs more", ErrDownsampleInvalid, from.Name, from.Duration, t.Current().Period)
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
	if err := t.checkDefinitions(); err != nil {
		return err
	}
	if t.Use != "" && !slices.Contains(DownsampleUses, t.Use) {
		return fmt.Errorf("%w: USE is one of %v, not %q", ErrDownsampleInvalid, DownsampleUses, t.Use)
	}
	for i := range db.Downsamples {
		switch o := &db.Downsamples[i]; {
		case o.ID == t.ID:
		case o.Into == t.Into:
			return fmt.Errorf("%w: from %s into %s", ErrDownsampleExists, o.From, o.Into)
		case t.Name != "" && o.Name == t.Name:
			return fmt.Errorf("%w: %s, from %s into %s", ErrDownsampleExists, o.Name, o.From, o.Into)
		case o.From == t.Into && !o.Folds:
			return fmt.Errorf("%w: policy %s is downsampled into %s, which would have aggregates of aggregates", ErrDownsampleInvalid, t.Into, o.Into)
		case o.From == t.Into:
			if err := o.folds(t); err != nil {
				return err
			}
		}
	}
	if t.Folds {
		for o, n := t, 0; o != nil; o, n = db.Downsample(o.From), n+1 {
			if n > len(db.Downsamples) {
				return fmt.Errorf("%w: policy %s would have aggregates of its own rows", ErrDownsampleInvalid, t.Into)
			}
		}
		if err := t.folds(db.madeOf(t.From)); err != nil {
			return err
		}
	}
	return t.covered(db.RetentionPolicy(t.From))
}

// madeOf returns the downsample that made the rows of a policy, nil if there is none.
func (db *Database) madeOf(policy string) *Downsample {
	if t := db.Downsample(policy); t != nil {
		return t
	}
	if rp := db.RetentionPolicy(policy); rp != nil {
		return rp.Downsampled
	}
	return nil
}

// Makers yields the downsamples that have made the rows of policies, and whether they are gone.
func (db *Database) Makers() iter.Seq2[*Downsample, bool] {
	return func(yield func(*Downsample, bool) bool) {
		for _, rp := range db.RetentionPolicies {
			if t := db.madeOf(rp.Name); t != nil && !yield(t, t == rp.Downsampled) {
				return
			}
		}
	}
}

// folds returns an error if the rows of o, which may be nil, cannot be put together to those
// of t.
func (t *Downsample) folds(o *Downsample) error {
	if o == nil {
		return nil
	}
	for i := range t.Definitions {
		d := &t.Definitions[i]
		for _, c := range d.Columns() {
			if Fold(c) == "" {
				return fmt.Errorf("%w: %s cannot be computed from rows of a downsample", ErrDownsampleInvalid, c)
			}
		}
		for k := range o.Definitions {
			from := &o.Definitions[k]
			for _, field := range slices.Concat([]string{""}, d.Fields(), from.Fields()) {
				for _, c := range d.ColumnsOf(field) {
					if slices.Contains(from.ColumnsOf(field), c) {
						continue
					}
					if field != "" {
						c = FunctionOf(c, field)
					}
					return fmt.Errorf("%w: policy %s needs %s for policy %s, for all of its rows", ErrDownsampleInvalid, o.Into, c, t.Into)
				}
			}
		}
		for k := range o.Definitions {
			to, from := t.Definitions[i].Windows(), o.Definitions[k].Windows()
			if !to.Divided(&from, 0, model.MaxTime) { // long ago most zones had no whole hours
				return fmt.Errorf("%w: windows of %v are not whole windows of %v, which policy %s has", ErrDownsampleInvalid, t.Definitions[i].Period, o.Definitions[k].Period, o.Into)
			}
		}
	}
	for _, tag := range t.Current().By {
		if !o.Current().Keeps(tag) {
			return fmt.Errorf("%w: rows of policy %s do not keep the tag %s", ErrDownsampleInvalid, o.Into, tag)
		}
	}
	return nil
}

// checkDefinitions returns an error if the measurements or the definitions make no sense.
func (t *Downsample) checkDefinitions() error {
	if t.Regex {
		if _, err := regexp.Compile(t.Measurement); err != nil {
			return fmt.Errorf("%w: %w", ErrDownsampleInvalid, err)
		}
	}
	if len(t.Definitions) == 0 || len(t.Definitions) > maxDefinitions || len(t.Current().Functions) == 0 {
		return fmt.Errorf("%w: a downsample needs functions, and has %d definitions at most", ErrDownsampleInvalid, maxDefinitions)
	}
	for i := range t.Definitions {
		d := &t.Definitions[i]
		if err := d.check(); err != nil {
			return err
		}
		switch {
		case i == 0 && d.Since == model.MinTime:
		case i > 0 && d.Since > t.Definitions[i-1].Since && d.begins(d.Since) && t.Definitions[i-1].begins(d.Since):
		default:
			return fmt.Errorf("%w: the definition since %d does not follow the one before it", ErrDownsampleInvalid, d.Since)
		}
	}
	return nil
}

// maxDefinitions bounds the definitions of a downsample.
const maxDefinitions = 100

// validateDownsamples checks what the rest of the program relies on, after decoding.
func (d *Data) validateDownsamples() error {
	for _, db := range d.Databases {
		for _, rp := range db.RetentionPolicies {
			if old := rp.Downsampled; old != nil && old.checkDefinitions() != nil {
				return fmt.Errorf("definitions of the rows of policy %q of database %q are inconsistent", rp.Name, db.Name)
			}
		}
	}
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
		t := Downsample{ID: d.Index + 1, Name: c.Name, From: c.From, Into: c.Into, Measurement: c.Measurement, Regex: c.Regex, Use: c.Use, Definitions: slices.Clone(c.Definitions), Changed: c.Time}
		if len(t.Definitions) == 1 {
			t.Definitions[0].Since = model.MinTime
		}
		if o := db.Downsample(c.Into); o != nil && o.sameAs(&t) {
			return false, nil
		}
		if rp := db.RetentionPolicy(c.From); rp != nil {
			t.Folds, t.Begins = db.madeOf(c.From) != nil, max(rp.Expired, c.Begins)
		}
		if err := t.check(db); err != nil {
			return false, err
		}
		if err := t.inherit(db, db.RetentionPolicy(c.Into).Downsampled, c.Time); err != nil {
			return false, err
		}
		db.expired(c.From, c.FromExpired)
		db.expired(c.Into, c.IntoExpired)
		for _, g := range db.RetentionPolicy(c.From).ShardGroups {
			if end := min(g.End, c.Time); end > g.Start {
				t.Backfill = int64(min(uint64(t.Backfill)+uint64(end-g.Start), math.MaxInt64))
			}
		}
		db.Downsamples = append(slices.Clip(db.Downsamples), t)
		db.downsampled(c.Into, nil)
		return true, nil
	})
}

// expired notes what a policy had lost by its age where it comes from. A policy that has a whole
// shard group of that time has not lost it.
func (db *Database) expired(policy string, at int64) {
	i := slices.IndexFunc(db.RetentionPolicies, func(rp *RetentionPolicy) bool { return rp.Name == policy })
	rp := *db.RetentionPolicies[i]
	if at <= rp.Expired || len(rp.ShardGroups) > 0 && rp.ShardGroups[0].End <= at {
		return
	}
	rp.Expired = at
	db.RetentionPolicies = slices.Clone(db.RetentionPolicies)
	db.RetentionPolicies[i] = &rp
}

// sameAs reports whether two downsamples make the same rows from now on, and o has no other
// name or use.
func (t *Downsample) sameAs(o *Downsample) bool {
	return (o.Name == "" || o.Name == t.Name) && (o.Use == "" || o.Use == t.Use) && t.From == o.From && t.Measurement == o.Measurement && t.Regex == o.Regex && t.Current().equal(o.Current())
}

// downsampled notes what rows a policy has that no downsample has as its target.
func (db *Database) downsampled(policy string, by *Downsample) {
	i := slices.IndexFunc(db.RetentionPolicies, func(rp *RetentionPolicy) bool { return rp.Name == policy })
	if i < 0 || db.RetentionPolicies[i].Downsampled == nil && by == nil {
		return
	}
	db.RetentionPolicies = slices.Clone(db.RetentionPolicies)
	into := *db.RetentionPolicies[i]
	into.Downsampled = by
	db.RetentionPolicies[i] = &into
}

// RemoveDownsamples removes those that gone accepts. Their policies know what rows they have.
func (db *Database) RemoveDownsamples(gone func(*Downsample) bool) (some bool) {
	list := db.Downsamples
	db.Downsamples = nil
	for i := range list {
		if !gone(&list[i]) {
			db.Downsamples = append(db.Downsamples, list[i])
			continue
		}
		some = true
		db.downsampled(list[i].Into, &list[i])
	}
	return some
}

func (c AlterDownsample) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		db.Downsamples = slices.Clone(db.Downsamples)
		t := db.Downsample(c.Into)
		if t == nil || t.From != c.From {
			return false, fmt.Errorf("%w: from %s into %s", ErrDownsampleNotFound, c.From, c.Into)
		}
		before, use := t.Definitions, t.Use
		if t.Use = cmp.Or(c.Use, use); t.Use == UseDefault {
			t.Use = ""
		}
		t.Definitions = slices.Clone(before)
		for i := range t.Definitions {
			def := &t.Definitions[i]
			fields := def.Fields()
			def.Functions = slices.DeleteFunc(slices.Clone(def.Functions), func(f string) bool {
				name, _ := SplitFunction(f)
				return slices.Contains(c.Drop, name)
			})
			if left := def.Fields(); len(left) < len(fields) { // it would have those of the other fields
				return false, fmt.Errorf("%w: one of the fields %s would have no function: drop the downsample, and create it again", ErrDownsampleInvalid, strings.Join(fields, ", "))
			}
		}
		next := *t.Current()
		next.Period = cmp.Or(c.Period, next.Period)
		for _, f := range c.Add {
			if !slices.Contains(next.Functions, f) {
				next.Functions = append(slices.Clip(next.Functions), f)
			}
		}
		if !next.equal(t.Current()) {
			at, err := c.Time, error(nil)
			if !c.Later {
				at, err = t.computable(db, &next, c.Time)
			}
			if err == nil {
				t.Definitions, err = follow(t.Definitions, &next, at)
			}
			if err != nil {
				return false, err
			}
		}
		if !slices.EqualFunc(before, t.Definitions, func(a, b Definition) bool { return a.Since == b.Since && a.equal(&b) }) {
			t.Changed = c.Time
		} else if use == t.Use {
			return false, nil
		}
		return true, t.check(db)
	})
}

func (c DropDownsample) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		for i := range db.Downsamples {
			if o := &db.Downsamples[i]; o.From == c.Into && o.Folds {
				return false, fmt.Errorf("%w: rows of policy %s are downsampled into %s: drop that downsample first", ErrDownsampleInvalid, c.Into, o.Into)
			}
		}
		if !db.RemoveDownsamples(func(t *Downsample) bool { return t.From == c.From && t.Into == c.Into }) {
			return false, fmt.Errorf("%w: from %s into %s", ErrDownsampleNotFound, c.From, c.Into)
		}
		return true, nil
	})
}

func (c CompleteWindows) apply(d *Data) (bool, error) {
	db, t := d.Downsample(c.ID)
	if t == nil {
		return false, nil
	}
	return d.changeDatabase(db.Name, func(db *Database) (bool, error) {
		db.Downsamples = slices.Clone(db.Downsamples)
		db.Downsample(t.Into).Computed += uint64(len(c.Windows))
		return len(c.Windows) > 0, nil
	})
}
