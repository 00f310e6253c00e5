package downsample

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/query/engine/plan"
)

// Use says for which windows a query may take a downsample.
type Use = meta.DownsampleUse

// The uses.
const (
	Off      = meta.UseOff
	Expired  = meta.UseExpired
	Complete = meta.UseComplete
)

// Chooser chooses downsamples for a query. All that is exported is required, but Asked.
type Chooser struct {
	Use     Use // of downsamples that have none
	Asked   Use // of all, for this query; "": their own
	Catalog *meta.Data
	Now     time.Time
	// Until returns up to where all windows of a measurement are computed, end at most.
	Until func(id uint64, measurement string, end int64) int64

	takes map[uint64]func(measurement string) bool // of downsamples, by their ids
}

// chain is a downsample and those of whose rows its rows are, up to one whose source is the
// policy that is asked about.
type chain []*meta.Downsample

// use returns for which windows a downsample may be taken.
func (c *Chooser) use(t *meta.Downsample) Use { return cmp.Or(c.Asked, t.Use, c.Use) }

// chains returns the downsamples of the rows of a policy that may be taken.
func (c *Chooser) chains(db *meta.Database, policy string) (out []chain) {
	for i := range db.Downsamples {
		ch := chain{&db.Downsamples[i]}
		if c.use(ch[0]) == Off {
			continue
		}
		for ch[len(ch)-1].Folds && ch[len(ch)-1].From != policy {
			next := db.Downsample(ch[len(ch)-1].From)
			if next == nil {
				break
			}
			ch = append(ch, next)
		}
		if top := ch[len(ch)-1]; top.From == policy && !top.Folds {
			out = append(out, ch)
		}
	}
	return out
}

// target returns the target of a chain as a definition of it makes it.
func (ch chain) target(d *meta.Definition) plan.Target {
	whole := !d.Grouped && len(d.Without) == 0
	for _, t := range ch[1:] {
		for i := range t.Definitions {
			whole = whole && !t.Definitions[i].Grouped && len(t.Definitions[i].Without) == 0
		}
	}
	return plan.Target{Policy: ch[0].Into, Columns: d.Columns(), Windows: d.Windows(), Series: whole, ColumnsOf: func(field string) []string {
		columns := d.ColumnsOf(field)
		if field == "" {
			for _, name := range d.Fields() {
				columns = slices.DeleteFunc(columns, func(c string) bool { return !slices.Contains(d.ColumnsOf(name), c) })
			}
		}
		return columns
	}}
}

// Targets implements plan.Downsamples.
func (c *Chooser) Targets(database, policy string) (out []plan.Target) {
	db := c.Catalog.Database(database)
	if db == nil {
		return nil
	}
	for _, ch := range c.chains(db, policy) {
		for i := range ch[0].Definitions {
			d := &ch[0].Definitions[i]
			t := ch.target(d)
			t.Present = c.use(ch[0]) == Complete
			out = append(out, t)
		}
	}
	return out
}

// piece is a range of time for which a definition of a downsample holds and has rows.
type piece struct {
	plan.Target
	t       *meta.Downsample
	lo, hi  int64   // [lo, hi), bounds of windows
	covered int64   // the source has all rows from there on
	first   int64   // there are no rows before
	foreign bool    // it was not computed, but may be imported
	why     string  // it does not answer
	values  float64 // to be read of a nanosecond; 0: few
}

// Default returns the name of the default policy of a database.
func (c *Chooser) Default(database string) string {
	if db := c.Catalog.Database(database); db != nil {
		return db.DefaultRetentionPolicy
	}
	return ""
}

// Reach returns up to where a policy has lost rows, and up to where downsamples may stand for
// its rows.
func (c *Chooser) Reach(database, policy string) (lost, stored int64) {
	lost, stored = model.MinTime, model.MinTime
	db := c.Catalog.Database(database)
	if db == nil || db.RetentionPolicy(policy) == nil {
		return lost, stored
	}
	for _, ch := range c.chains(db, policy) {
		if expired := db.RetentionPolicy(policy).Expired; expired != 0 {
			lost = max(lost, ch[0].Ceil(expired))
		}
		if stored = max(stored, lost); c.use(ch[0]) == Complete {
			stored = math.MaxInt64
		}
	}
	return lost, stored
}

// worthValues is from how many values on the choice between targets, and between the source and
// a target of rows that both have, is worth a look: fewer take no longer than to look.
const worthValues = 4096

// Segments implements plan.Downsamples. Of the downsamples that can answer for a time, the
// one with the fewest values does, and of those with as many the one with the longest windows,
// unless these are longer than Step of what is asked. If the source has still fewer values, it does.
func (c *Chooser) Segments(ask *plan.Ask) ([]plan.Segment, []plan.Unused) {
	db := c.Catalog.Database(ask.Database)
	if db == nil || ask.Range.Empty() {
		return nil, nil
	}
	return c.segments(db, ask)
}

func (c *Chooser) segments(db *meta.Database, ask *plan.Ask) (out []plan.Segment, unused []plan.Unused) {
	var all []piece
	for _, ch := range c.chains(db, ask.Policy) {
		all = append(all, c.pieces(db, ch, ask)...)
	}
	first, end := ask.Range.Min, ask.Range.Max
	if end < math.MaxInt64 {
		end++
	}
	if ask.Values != nil {
		for i := range all {
			unused = append(unused, all[i].weigh(ask, span{first, end}, len(all) > 1)...)
		}
	}
	slices.SortStableFunc(all, func(a, b piece) int {
		if a.foreign != b.foreign {
			return map[bool]int{true: 1, false: -1}[a.foreign]
		}
		switch long := tooLong(ask, a.Every()); {
		case long != tooLong(ask, b.Every()):
			return map[bool]int{true: 1, false: -1}[long]
		case long:
			return cmp.Compare(a.Every(), b.Every())
		}
		return cmp.Or(cmp.Compare(a.values, b.values), cmp.Compare(b.Every(), a.Every()))
	})
	free := []span{{first, end}}
	for i := range all {
		p := &all[i]
		if p.why != "" {
			continue
		}
		var rest []span
		for _, f := range free {
			s, ok := p.within(f, first, end)
			if !ok {
				rest = append(rest, f)
				continue
			}
			out = append(out, plan.Segment{Target: p.Target, TimeRange: s.times()})
			if f.lo < s.lo {
				rest = append(rest, span{f.lo, s.lo})
			}
			if s.hi < f.hi {
				rest = append(rest, span{s.hi, f.hi})
			}
		}
		free = rest
	}
	slices.SortFunc(out, func(a, b plan.Segment) int { return cmp.Compare(a.Min, b.Min) })
	if expired := db.RetentionPolicy(ask.Policy).Expired; expired != 0 {
		slices.SortStableFunc(all, func(a, b piece) int { return cmp.Compare(a.Every(), b.Every()) }) // the shortest windows can answer most
		for _, f := range free {
			for i := range all {
				p := &all[i]
				part := span{max(f.lo, p.lo), min(f.hi, p.hi, expired)}
				if p.why != "" && part.lo < part.hi && part.hi > p.first {
					unused = append(unused, plan.Unused{Segment: plan.Segment{Target: p.Target, TimeRange: part.times()}, Why: p.why, Lost: true})
					break
				}
			}
		}
	}
	return out, unused
}

// tooLong reports whether windows are longer than they should be.
func tooLong(ask *plan.Ask, every time.Duration) bool { return ask.Step > 0 && every > ask.Step }

// span is the times of [lo, hi).
type span struct{ lo, hi int64 }

func (s span) times() model.TimeRange { return model.TimeRange{Min: s.lo, Max: s.hi - 1} }

// weigh estimates the values of a piece in a range. It leaves the times to the source of
// which that has the rows, and fewer values. several says that there are other pieces.
func (p *piece) weigh(ask *plan.Ask, r span, several bool) []plan.Unused {
	part := span{max(p.lo, r.lo), min(p.hi, r.hi)}
	choice := span{max(part.lo, p.covered), part.hi} // the source has the rows
	if p.why != "" || part.lo >= part.hi {
		return nil
	}
	if several {
		if n := ask.Values(&p.Target, part.times()); n >= worthValues {
			p.values = float64(n) / (float64(part.hi) - float64(part.lo))
		}
	}
	if p.foreign || choice.lo >= choice.hi {
		return nil
	}
	source := ask.Values(nil, choice.times())
	if source < worthValues {
		return nil
	}
	if own := ask.Values(&p.Target, choice.times()); own > source {
		p.hi = max(p.lo, p.covered)
		why := fmt.Sprintf("it has about %d values to read, %s %d", own, ask.Policy, source)
		return []plan.Unused{{Segment: plan.Segment{Target: p.Target, TimeRange: choice.times()}, Why: why}}
	}
	return nil
}

// within returns the windows of a piece that stand for rows of a free part of the range
// [first, end): those inside it, and at the ends of the range also those that have rows
// outside of it if the source has lost their rows.
func (p *piece) within(f span, first, end int64) (s span, ok bool) {
	if f.lo >= p.hi || f.hi <= p.lo {
		return s, false
	}
	s = span{p.lo, p.hi}
	if f.lo > p.lo {
		if s.lo = p.t.Ceil(f.lo); f.lo == first && first < p.covered {
			s.lo = p.t.Start(first)
		}
	}
	if f.hi < p.hi {
		if s.hi = p.t.Start(f.hi); f.hi == end && p.t.Ceil(end) <= p.covered {
			s.hi = p.t.Ceil(end)
		}
	}
	return s, s.lo < s.hi
}

// pieces returns the pieces of a downsample.
func (c *Chooser) pieces(db *meta.Database, ch chain, ask *plan.Ask) (out []piece) {
	for _, t := range ch {
		takes := c.takes[t.ID]
		if takes == nil {
			if c.takes == nil {
				c.takes = map[uint64]func(string) bool{}
			}
			takes = t.Takes()
			c.takes[t.ID] = takes
		}
		if !takes(ask.Measurement) {
			return nil
		}
	}
	t := ch[0]
	source, target := db.RetentionPolicy(ask.Policy), db.RetentionPolicy(t.Into)
	covered := model.MinTime
	if source.Expired != 0 {
		covered = t.Ceil(source.Expired)
		if next := t.End(covered); looksBack(ask) && (t.Floor(source) >= next || c.Until(t.ID, ask.Measurement, next) >= next) {
			covered = next // the rows before its window have gone
		}
	}
	hi := covered
	if c.use(t) == Complete {
		hi = max(covered, c.Until(t.ID, ask.Measurement, t.Start(c.Now.UnixNano())))
	}
	// The target may have lost rows, and may keep rows for a shorter time than the source:
	// what is older is not computed. The window that the start of time cuts off never is.
	lost := t.End(model.MinTime)
	if target.Expired != 0 {
		lost = max(lost, t.Ceil(target.Expired))
	}
	kept := lost
	if target.Duration > 0 {
		kept = max(kept, t.Ceil(c.Now.Add(-target.Duration).UnixNano()))
	}
	begins := lost
	for _, t := range ch {
		if t.Begins != 0 {
			begins = max(begins, ch[0].Ceil(t.Begins))
		}
	}
	spans := []span{{lost, min(begins, covered)}, {begins, hi}} // the first are foreign
	if kept > covered {
		spans = append(spans[:1], span{begins, covered}, span{max(begins, kept), hi})
	}
	begin := int64(model.MaxTime) // of the first rows of both policies
	for _, policy := range []*meta.RetentionPolicy{source, target} {
		if len(policy.ShardGroups) > 0 {
			begin = min(begin, policy.ShardGroups[0].Start)
		}
	}
	for i := range t.Definitions {
		d := &t.Definitions[i]
		p := piece{Target: ch.target(d), t: t, covered: covered, first: begin}
		p.why = ask.Refused
		if p.why == "" {
			p.why = refused(ch, d, &p.Target, ask, begin)
		}
		for k, s := range spans {
			p.foreign = k == 0
			if tooLong(ask, d.Every) || approximate(ask) {
				s.hi = min(s.hi, covered)
			}
			if p.lo, p.hi = max(s.lo, d.Since), min(s.hi, t.Change(d.Since)); p.lo < p.hi {
				out = append(out, p)
			}
		}
	}
	return out
}

// looksBack reports whether values that are asked for need the rows before their windows.
func looksBack(ask *plan.Ask) bool {
	return slices.ContainsFunc(ask.Columns, func(c plan.Column) bool { return meta.LooksBack(c.Function) })
}

// approximate reports whether what is asked for is estimated from targets.
func approximate(ask *plan.Ask) bool {
	return slices.ContainsFunc(ask.Columns, func(c plan.Column) bool { return meta.Approximate(c.Function) })
}

// refused returns why rows of a definition do not stand for those of the source.
func refused(ch chain, d *meta.Definition, target *plan.Target, ask *plan.Ask, begin int64) string {
	var missing []string
	for _, c := range ask.Columns {
		if !target.Has(c) {
			if slices.Contains(target.Columns, c.Function) {
				c.Function += " of " + cmp.Or(c.Field, "all fields")
			}
			if !slices.Contains(missing, c.Function) {
				missing = append(missing, c.Function)
			}
		}
	}
	if len(missing) > 0 {
		return "it does not keep " + strings.Join(missing, ", ")
	}
	if w := d.Windows(); !ask.Windows.None() && !ask.Windows.Divided(&w, max(ask.Range.Min, begin), ask.Range.Max) {
		return "windows of GROUP BY time are not whole windows of " + d.Period.String()
	}
	if w := d.Windows(); ask.Fits != nil && w.Loc != nil {
		return "windows of " + w.String() + " are not of one length"
	} else if ask.Fits != nil {
		if why := ask.Fits(d.Every); why != "" {
			return why
		}
	}
	for i, t := range ch {
		definitions := []*meta.Definition{d}
		if i > 0 {
			definitions = definitions[:0]
			for k := range t.Definitions {
				definitions = append(definitions, &t.Definitions[k])
			}
		}
		for _, d := range definitions {
			if d.Where != "" {
				return "it has a condition"
			}
			if ask.AllBut {
				if d.Grouped || slices.ContainsFunc(d.Without, func(tag string) bool { return !slices.Contains(ask.Tags, tag) }) {
					return "its rows are of several series"
				}
				continue
			}
			for _, tag := range ask.Tags {
				if !d.Keeps(tag) {
					return "its rows do not keep the tag " + tag
				}
			}
		}
	}
	return ""
}
