package judge

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	second = int64(1e9)
	always = math.MinInt64 // a time before all others
	never  = math.MaxInt64
)

// value is a value of a field: a number, or a text.
type value struct {
	number float64
	text   string
}

func (v value) compare(o value) int {
	return cmp.Or(cmp.Compare(v.number, o.number), strings.Compare(v.text, o.text))
}

// series is a measurement and the values of the tags a, b and c.
type series struct {
	measurement string
	tags        [3]string
}

// point is a row of the policy raw.
type point struct {
	series
	at     int64
	fields map[string]value
}

// row is a row of a target, with all functions of each field.
type row struct {
	series
	start  int64
	fields map[string]*aggregate
}

// aggregate is the functions of some values. The times are those of points, or of the windows
// of the rows that it is made of.
type aggregate struct {
	count, sum                    float64
	min, max, first, last         value
	minAt, maxAt, firstAt, lastAt int64
	distinct                      []value  // in order
	all                           []sample // of the points
	sketched                      bool     // a row of a target has some of all, as a sketch
	increase                      float64
	steps                         int // that increase is the sum of
}

// sample is the number of a point.
type sample struct {
	number float64
	at     int64
}

// rank returns the n-th of all samples by their numbers, from 0 on.
func (a *aggregate) rank(n int) sample {
	slices.SortFunc(a.all, func(x, y sample) int { return cmp.Or(cmp.Compare(x.number, y.number), cmp.Compare(x.at, y.at)) })
	return a.all[n]
}

func of(v value, at int64) *aggregate {
	return &aggregate{
		count: 1, sum: v.number, min: v, max: v, first: v, last: v, minAt: at, maxAt: at, firstAt: at, lastAt: at,
		distinct: []value{v}, all: []sample{{v.number, at}},
	}
}

// step is the difference of a value of a series and the one before it.
type step struct {
	series
	field      string
	before, at int64 // times of the two
	rise       float64
}

// steps returns those of the points of raw.
func (s *shadow) steps() (out []step) {
	type key struct {
		series
		field string
	}
	latest := map[key]*point{}
	for _, at := range sortedTimes(s.points) {
		p := s.points[at]
		for field, v := range p.fields {
			k := key{p.series, field}
			if before := latest[k]; before != nil {
				rise := v.number - before.fields[field].number
				if rise < 0 {
					rise = v.number // it has begun again
				}
				out = append(out, step{p.series, field, before.at, at, rise})
			}
			latest[k] = p
		}
	}
	return out
}

// stored returns what a row of a target says of its values: the time of all is that of the row.
func (a *aggregate) stored(at int64) *aggregate {
	out := *a
	out.minAt, out.maxAt, out.firstAt, out.lastAt, out.sketched, out.all = at, at, at, at, true, slices.Clone(a.all)
	return &out
}

// add puts two aggregates together. Of values of the same time the larger is first, and last.
func (a *aggregate) add(o *aggregate) {
	a.count, a.sum, a.all, a.sketched = a.count+o.count, a.sum+o.sum, slices.Concat(a.all, o.all), a.sketched || o.sketched
	a.increase, a.steps = a.increase+o.increase, a.steps+o.steps
	a.distinct = slices.Concat(a.distinct, o.distinct)
	slices.SortFunc(a.distinct, value.compare)
	a.distinct = slices.Compact(a.distinct)
	if c := o.min.compare(a.min); c < 0 || c == 0 && o.minAt < a.minAt {
		a.min, a.minAt = o.min, o.minAt
	}
	if c := o.max.compare(a.max); c > 0 || c == 0 && o.maxAt < a.maxAt {
		a.max, a.maxAt = o.max, o.maxAt
	}
	if o.firstAt < a.firstAt || o.firstAt == a.firstAt && o.first.compare(a.first) > 0 {
		a.first, a.firstAt = o.first, o.firstAt
	}
	if o.lastAt > a.lastAt || o.lastAt == a.lastAt && o.last.compare(a.last) > 0 {
		a.last, a.lastAt = o.last, o.lastAt
	}
}

// with adds an aggregate to those of a row, by field.
func (r *row) with(field string, a *aggregate) {
	if have := r.fields[field]; have != nil {
		have.add(a)
		return
	}
	one := *a
	r.fields[field] = &one
}

// period is windows, which follow each other without gaps.
type period struct {
	every  int64  // 0: of months; with a zone, a day
	months int    // 0 or 1
	zone   string // on whose clock months, or whole days, are counted; "": UTC
}

// text returns the length as statements have it.
func (p period) text() string {
	if p.months > 0 {
		return fmt.Sprintf("%dmo", p.months)
	}
	return fmt.Sprintf("%ds", p.every/second)
}

// tz returns what follows the length, or the statement.
func (p period) tz() string {
	if p.zone == "" {
		return ""
	}
	return fmt.Sprintf(" tz('%s')", p.zone)
}

// length returns how long a window can be.
func (p period) length() int64 { return p.every + int64(p.months)*31*day }

const day = 86400 * second

// start returns the start of the window that holds a time.
func (p period) start(at int64) int64 {
	if p.months == 0 && p.zone == "" {
		return floor(at, p.every)
	}
	return p.calendar(at, 0)
}

// end returns the start of the next window.
func (p period) end(at int64) int64 {
	if p.months == 0 && p.zone == "" {
		return floor(at, p.every) + p.every
	}
	return p.calendar(at, 1)
}

// calendar returns the start of the n-th window after the one that holds a time.
func (p period) calendar(at int64, n int) int64 {
	zone, err := time.LoadLocation(p.zone)
	if err != nil {
		panic(err)
	}
	t := time.Unix(0, at).In(zone)
	if p.months > 0 {
		return time.Date(t.Year(), t.Month()+time.Month(n), 1, 0, 0, 0, 0, zone).UnixNano()
	}
	return time.Date(t.Year(), t.Month(), t.Day()+n, 0, 0, 0, 0, zone).UnixNano()
}

// ceil returns the start of the first window that does not begin before a time.
func (p period) ceil(at int64) int64 {
	if p.start(at) == at {
		return at
	}
	return p.end(at)
}

// fills reports whether whole windows of p fill those of another period.
func (p period) fills(o period) bool {
	calendar := o.months > 0 || o.zone != ""
	switch {
	case p.months == 0 && p.zone == "" && !calendar:
		return o.every%p.every == 0
	case p.months == 0 && p.zone == "":
		return day%p.every == 0 && (o.zone == "" || 3600*second%p.every == 0) // offsets of whole hours
	}
	return calendar && o.zone == p.zone && o.months >= p.months
}

// definition is what a downsample keeps from a time on.
type definition struct {
	since int64
	period
	functions []string
	with      [][2]string // functions of single fields: field, function
}

// columns returns the columns of a field; "" is one that has no functions of its own.
func (d *definition) columns(field string) (out []string) {
	list := d.functions
	if own := d.own(field); len(own) > 0 {
		list = own
	}
	for _, f := range list {
		for _, c := range columnsOf(f) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// own returns the functions of a field that are for it alone.
func (d *definition) own(field string) (out []string) {
	for _, w := range d.with {
		if w[0] == field {
			out = append(out, w[1])
		}
	}
	return out
}

// looksBack reports whether rows need those of the window before.
func (d *definition) looksBack() bool {
	return slices.ContainsFunc(allFields, func(field string) bool { return slices.Contains(d.columns(field), "increase") })
}

func (d *definition) equal(o *definition) bool {
	return d.period == o.period && slices.Equal(d.functions, o.functions) && slices.Equal(d.with, o.with)
}

// allFields are the fields of rows: floats, integers and texts, and "" for any other.
var allFields = []string{"f", "i", "s", ""}

// columnsOf returns the columns that a function is computed from.
func columnsOf(function string) []string {
	switch function {
	case "median", "middle":
		return []string{"percentile"}
	case "mean":
		return []string{"sum", "count"}
	case "spread":
		return []string{"min", "max"}
	}
	return []string{function}
}

func floor(at, every int64) int64 {
	if rest := at % every; rest < 0 {
		return at - rest - every
	} else {
		return at - rest
	}
}

func ceil(at, every int64) int64 { return period{every: every}.ceil(at) }

// tier is a downsample, or one that was dropped and whose rows are left.
type tier struct {
	name        string // "": none
	into, from  string
	takes       string // text after FROM policy: "", ".m0" or "./regex/"
	tags        string // text after EVERY
	where       condition
	keeps       [3]bool
	definitions []definition
	begins      int64 // what had expired when it was made; 0: nothing had
	live        bool
	frozen      []*row // rows that nothing computes again
}

func (t *tier) takesMeasurement(name string) bool {
	if re, ok := strings.CutPrefix(t.takes, "./"); ok {
		return regexp.MustCompile(strings.TrimSuffix(re, "/")).MatchString(name)
	}
	return t.takes == "" || t.takes == "."+name
}

// at returns the definition that holds at a time, and when the next one begins.
func (t *tier) at(at int64) (d *definition, next int64) {
	d, next = &t.definitions[0], never
	for i := 1; i < len(t.definitions); i++ {
		if t.definitions[i].since > at {
			return d, t.definitions[i].since
		}
		d = &t.definitions[i]
	}
	return d, next
}

func (t *tier) current() *definition { return &t.definitions[len(t.definitions)-1] }

func (t *tier) start(at int64) int64 {
	d, _ := t.at(at)
	return d.start(at)
}

func (t *tier) ceil(at int64) int64 {
	d, _ := t.at(at)
	return d.ceil(at)
}

// kept returns a series with the tags that rows keep.
func (t *tier) kept(s series) series {
	for i, keeps := range t.keeps {
		if !keeps {
			s.tags[i] = ""
		}
	}
	return s
}

// shadow is what the server should have.
type shadow struct {
	points  map[int64]*point // by time: no two rows have the same
	tiers   []*tier          // in the order of their creation
	expired map[string]int64 // ends of the latest shard groups of policies that expired
}

func (s *shadow) tier(into string) *tier {
	for _, t := range s.tiers {
		if t.into == into {
			return t
		}
	}
	return nil
}

// lost returns the start of the first window that can be computed. An increase needs the rows of
// the window before, unless they were never there.
func (s *shadow) lost(t *tier) int64 {
	at := s.expired[t.from]
	if at == 0 {
		return always
	}
	first := t.ceil(at)
	if t.from != raw || at == t.begins {
		return first
	}
	for d, next := t.at(first); ; d, next = t.at(next) {
		begins := max(first, d.since)
		if d.looksBack() && d.start(begins-1) < at {
			first = d.end(begins)
		}
		if next == never {
			return first
		}
	}
}

// rows returns what a target has.
func (s *shadow) rows(t *tier) []*row {
	if !t.live {
		return t.frozen
	}
	type key struct {
		series
		start int64
	}
	rows := map[key]*row{}
	lost := s.lost(t)
	add := func(of series, at int64, field string, a *aggregate) {
		start := t.start(at)
		if start < lost || !t.takesMeasurement(of.measurement) {
			return
		}
		k := key{t.kept(of), start}
		if rows[k] == nil {
			rows[k] = &row{k.series, start, map[string]*aggregate{}}
		}
		rows[k].with(field, a)
	}
	if t.from == raw {
		for _, p := range s.points {
			for field, v := range p.fields {
				if t.where.ok(p.tags) {
					add(p.series, p.at, field, of(v, p.at))
				}
			}
		}
		for _, p := range s.steps() {
			d, _ := t.at(p.at)
			if start := d.start(p.at); start >= lost && t.takesMeasurement(p.measurement) && t.where.ok(p.tags) && p.before >= d.start(start-1) {
				a := rows[key{t.kept(p.series), start}].fields[p.field]
				a.increase, a.steps = a.increase+p.rise, a.steps+1
			}
		}
	} else {
		for _, r := range s.rows(s.tier(t.from)) {
			for field, a := range r.fields {
				if t.where.ok(r.tags) {
					add(r.series, r.start, field, a.stored(r.start))
				}
			}
		}
	}
	out := slices.Clone(t.frozen)
	for _, r := range rows {
		out = append(out, r)
	}
	return out
}

// expire drops the rows of the shard groups of a policy that have expired.
func (s *shadow) expire(policy string, groups []group) {
	end, before := s.expired[policy], map[*tier][]*row{}
	for _, g := range groups {
		if end == 0 || g.end > end {
			end = g.end
		}
	}
	for _, t := range s.tiers {
		if t.from != policy || !t.live {
			continue
		}
		before[t] = s.rows(t)
	}
	s.expired[policy] = end
	for t, rows := range before {
		lost := s.lost(t)
		t.frozen = slices.DeleteFunc(rows, func(r *row) bool { return r.start >= lost })
	}
	within := func(at int64) bool {
		return slices.ContainsFunc(groups, func(g group) bool { return g.holds(at) })
	}
	if policy == raw {
		for at := range s.points {
			if within(at) {
				delete(s.points, at)
			}
		}
		return
	}
	t := s.tier(policy)
	t.frozen = slices.DeleteFunc(t.frozen, func(r *row) bool { return within(r.start) })
}

// follow gives a tier one more definition. known is from when on the source has all rows.
func (s *shadow) follow(t *tier, next definition, known int64) {
	if known > always && t.from == raw && next.looksBack() {
		known += next.length()
	}
	next.since = known
	list := slices.Clone(t.definitions)
	for known > always {
		last := &list[len(list)-1]
		for at := known; ; {
			at = next.ceil(last.ceil(at))
			if at == last.start(at) {
				next.since = at
				break
			}
		}
		if last.since < next.since {
			if last.equal(&next) {
				t.definitions = list
				return
			}
			break
		}
		list = list[:len(list)-1]
	}
	if known == always {
		list = nil
	}
	t.definitions = append(list, next)
}

// drop ends a tier; its rows stay.
func (s *shadow) drop(t *tier) {
	t.frozen, t.live = s.rows(t), false
}

// create makes a tier, or makes it again.
func (s *shadow) create(t *tier, d definition, known int64) {
	s.tiers = slices.DeleteFunc(s.tiers, func(o *tier) bool { return o == t })
	s.tiers = append(s.tiers, t)
	switch {
	case len(t.definitions) == 0:
		d.since = always
		t.definitions, t.begins = []definition{d}, s.expired[t.from]
	default:
		if s.follow(t, d, known); known == always {
			t.begins = 0
		}
	}
	t.live = true
	lost := s.lost(t)
	t.frozen = slices.DeleteFunc(slices.Clone(t.frozen), func(r *row) bool { return r.start >= lost })
}

// erase removes rows of raw and of targets that nothing can compute again.
func (s *shadow) erase(policies func(string) bool, gone func(of series, at int64) bool) {
	if policies(raw) {
		for at, p := range s.points {
			if gone(p.series, at) {
				delete(s.points, at)
			}
		}
	}
	for _, t := range s.tiers {
		if policies(t.into) {
			t.frozen = slices.DeleteFunc(slices.Clone(t.frozen), func(r *row) bool { return gone(r.series, r.start) })
		}
	}
}

// move gives series other names. An empty answer of to means that the tier leaves the series
// out. It returns a function that cannot be folded, and then changes nothing.
func (s *shadow) move(to func(of series, keeps [3]bool) series) (unfoldable string) {
	type key struct {
		series
		start int64
	}
	moved := map[*tier][]*row{}
	for _, t := range s.tiers {
		rows := map[key]*row{}
		for _, r := range t.frozen {
			k := key{to(r.series, t.keeps), r.start}
			d, _ := t.at(r.start)
			if rows[k] == nil {
				rows[k] = &row{k.series, r.start, map[string]*aggregate{}}
			}
			for field, a := range r.fields {
				if rows[k].fields[field] != nil {
					for _, c := range d.columns(field) {
						if _, ok := columnValue(c, field, a); ok && (c == "first" || c == "last") {
							unfoldable = c
						}
					}
				}
				rows[k].with(field, a)
			}
		}
		for _, r := range rows {
			moved[t] = append(moved[t], r)
		}
	}
	if unfoldable != "" {
		return unfoldable
	}
	for t, rows := range moved {
		t.frozen = rows
	}
	for _, p := range s.points {
		p.series = to(p.series, [3]bool{true, true, true})
	}
	return ""
}
