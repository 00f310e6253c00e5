package judge

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
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
	all                           []float64 // numbers of points
}

func of(v value, at int64) *aggregate {
	return &aggregate{1, v.number, v, v, v, v, at, at, at, at, []float64{v.number}}
}

// stored returns what a row of a target says of its values: the time of all is that of the row.
func (a *aggregate) stored(at int64) *aggregate {
	out := *a
	out.minAt, out.maxAt, out.firstAt, out.lastAt, out.all = at, at, at, at, nil
	return &out
}

// add puts two aggregates together. Of values of the same time the larger is first, and last.
func (a *aggregate) add(o *aggregate) {
	a.count, a.sum, a.all = a.count+o.count, a.sum+o.sum, append(a.all, o.all...)
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

// definition is what a downsample keeps from a time on.
type definition struct {
	since     int64
	every     int64
	functions []string
}

func (d *definition) columns() (out []string) {
	for _, f := range d.functions {
		for _, c := range columnsOf(f) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// columnsOf returns the columns that a function is computed from.
func columnsOf(function string) []string {
	switch function {
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

func ceil(at, every int64) int64 {
	if start := floor(at, every); start < at {
		return start + every
	}
	return at
}

// tier is a downsample, or one that was dropped and whose rows are left.
type tier struct {
	into, from  string
	takes       string // text after FROM policy: "", ".m0" or "./regex/"
	tags        string // text after EVERY
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
	return floor(at, d.every)
}

func (t *tier) ceil(at int64) int64 {
	d, _ := t.at(at)
	return ceil(at, d.every)
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

// lost returns the start of the first window that can be computed.
func (s *shadow) lost(t *tier) int64 {
	if at := s.expired[t.from]; at != 0 {
		return t.ceil(at)
	}
	return always
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
				add(p.series, p.at, field, of(v, p.at))
			}
		}
	} else {
		for _, r := range s.rows(s.tier(t.from)) {
			for field, a := range r.fields {
				add(r.series, r.start, field, a.stored(r.start))
			}
		}
	}
	out := slices.Clone(t.frozen)
	for _, r := range rows {
		out = append(out, r)
	}
	return out
}

// expire drops the rows of the policy in [from, to) parts of time that have expired.
func (s *shadow) expire(policy string, groups [][2]int64) {
	end := s.expired[policy]
	for _, g := range groups {
		if end == 0 || g[1] > end {
			end = g[1]
		}
	}
	for _, t := range s.tiers {
		if t.from != policy || !t.live {
			continue
		}
		rows, lost := s.rows(t), t.ceil(end)
		t.frozen = slices.DeleteFunc(rows, func(r *row) bool { return r.start >= lost })
	}
	s.expired[policy] = end
	within := func(at int64) bool {
		return slices.ContainsFunc(groups, func(g [2]int64) bool { return g[0] <= at && at < g[1] })
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

// follow gives a tier one more definition.
func (s *shadow) follow(t *tier, next definition) {
	known := int64(always)
	if at := s.expired[t.from]; at != 0 {
		known = at
	}
	next.since = known
	list := slices.Clone(t.definitions)
	for known > always {
		last := &list[len(list)-1]
		for at := known; ; {
			at = ceil(ceil(at, last.every), next.every)
			if at == floor(at, last.every) {
				next.since = at
				break
			}
		}
		if last.since < next.since {
			if last.every == next.every && slices.Equal(last.functions, next.functions) {
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
func (s *shadow) create(t *tier, d definition) {
	s.tiers = slices.DeleteFunc(s.tiers, func(o *tier) bool { return o == t })
	s.tiers = append(s.tiers, t)
	switch {
	case len(t.definitions) == 0:
		d.since = always
		t.definitions, t.begins = []definition{d}, s.expired[t.from]
	default:
		s.follow(t, d)
		if s.expired[t.from] == 0 {
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
					for _, c := range d.columns() {
						if c == "first" || c == "last" {
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
