package judge

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
)

// function is a function that statements ask for. A new one is a line here.
type function struct {
	name    string
	call    string                               // of the field %s; "": the name is that of the call
	texts   bool                                 // takes fields of texts
	within  func(a *aggregate) float64           // how far an estimate is off at most; nil: there are none
	selects func(a *aggregate) int64             // the time of its value, if it stands alone
	value   func(a *aggregate) (float64, string) // of which the text counts, if the field has texts
}

var functions = []function{
	{name: "count", texts: true, value: func(a *aggregate) (float64, string) { return a.count, "" }},
	{name: "sum", value: func(a *aggregate) (float64, string) { return a.sum, "" }},
	{name: "mean", value: func(a *aggregate) (float64, string) { return a.sum / a.count, "" }},
	{name: "spread", value: func(a *aggregate) (float64, string) { return a.max.number - a.min.number, "" }},
	{name: "min", selects: func(a *aggregate) int64 { return a.minAt }, value: func(a *aggregate) (float64, string) { return a.min.number, "" }},
	{name: "max", selects: func(a *aggregate) int64 { return a.maxAt }, value: func(a *aggregate) (float64, string) { return a.max.number, "" }},
	{name: "first", texts: true, selects: func(a *aggregate) int64 { return a.firstAt }, value: func(a *aggregate) (float64, string) { return a.first.number, a.first.text }},
	{name: "last", texts: true, selects: func(a *aggregate) int64 { return a.lastAt }, value: func(a *aggregate) (float64, string) { return a.last.number, a.last.text }},
	{name: "increase", value: func(a *aggregate) (float64, string) { return a.increase, "" }},
	{name: "distinct", call: "count_hll(sum_hll(%s))", texts: true, value: func(a *aggregate) (float64, string) { return float64(len(a.distinct)), "" }},
	{name: "percentile", call: "percentile(%s, 95)", within: func(a *aggregate) float64 { return share(a.percentile(95)) }, selects: func(a *aggregate) int64 { return a.percentile(95).at }, value: func(a *aggregate) (float64, string) { return a.percentile(95).number, "" }},
	{name: "middle", call: "percentile(%s, 50)", within: func(a *aggregate) float64 { return share(a.percentile(50)) }, selects: func(a *aggregate) int64 { return a.percentile(50).at }, value: func(a *aggregate) (float64, string) { return a.percentile(50).number, "" }},
	{name: "median", within: func(a *aggregate) float64 {
		n := len(a.all)
		return share(a.rank((n-1)/2), a.rank(n/2))
	}, value: func(a *aggregate) (float64, string) {
		n := len(a.all)
		return (a.rank((n-1)/2).number + a.rank(n/2).number) / 2, ""
	}},
}

// percentile returns the sample that percentile() chooses. percent is 50 at least: of smaller ones
// few values have none.
func (a *aggregate) percentile(percent int) sample {
	return a.rank((2*len(a.all)*percent+100)/200 - 1)
}

// precision is how far an estimate of docs/downsamples.md is off at most, as a part of the value.
const precision = 0.01

// share returns how far the mean of estimates of some samples is off at most.
func share(of ...sample) (out float64) {
	for _, s := range of {
		out += precision * math.Abs(s.number) / float64(len(of))
	}
	return out
}

// estimate is a cell that follows from sketches.
type estimate struct{ exact, within float64 }

// unknown is a cell that is filled if some row of a shard has had the field, and else null: without
// values in the range nobody knows.
type unknown struct{ filled float64 }

// accept gives estimates the values that another answer has for them, as far as these are near
// enough, and cells of unknown fields null if it has that. It returns how many estimates there are.
func (a answer) accept(got answer) (n int) {
	for g, rows := range a {
		for i, r := range rows {
			for k, cell := range r.values {
				has := any("nothing")
				if i < len(got[g]) && k < len(got[g][i].values) {
					has = got[g][i].values[k]
				}
				switch c := cell.(type) {
				case estimate:
					n++
					r.values[k] = c.exact
					if v, ok := has.(float64); ok && math.Abs(v-c.exact) <= c.within {
						r.values[k] = v
					}
				case unknown:
					if r.values[k] = c.filled; has == nil {
						r.values[k] = nil
					}
				}
			}
		}
	}
	return n
}

// text returns the call of a field.
func (f *function) text(field string) string {
	if f.call != "" {
		return fmt.Sprintf(f.call, field)
	}
	return f.name + "(" + field + ")"
}

// number reports whether values of a field are numbers.
func (f *function) number(field string) bool {
	return field != "s" || f.name == "count" || f.name == "distinct"
}

// has reports whether there is a value: of one point there is no increase.
func (f *function) has(field string, a *aggregate) bool {
	return a != nil && (field != "s" || f.texts) && (f.name != "increase" || a.steps > 0)
}

// columnValue returns the value of a column of a row.
func columnValue(column, field string, a *aggregate) (string, bool) {
	for _, f := range functions {
		switch {
		case f.name != column || !f.has(field, a):
		case column == "percentile":
			return ranks(a), true
		default:
			if number, text := f.value(a); f.number(field) {
				return fmt.Sprintf("%.9g", number), true
			} else {
				return text, true
			}
		}
	}
	return "", false
}

// raw is the policy of the rows.
const raw = "raw"

var tagNames = [3]string{"a", "b", "c"}

// condition is a condition on tags, in InfluxQL and as matchers of PromQL.
type condition struct {
	text, matchers string
	tags           []int
	ok             func(tags [3]string) bool
}

var conditions = []condition{
	{"", "", nil, func([3]string) bool { return true }},
	{"", "", nil, func([3]string) bool { return true }},
	{"a = 'x'", `{a="x"}`, []int{0}, func(t [3]string) bool { return t[0] == "x" }},
	{"a != 'x'", `{a!="x"}`, []int{0}, func(t [3]string) bool { return t[0] != "x" }},
	{"b = ''", `{b=""}`, []int{1}, func(t [3]string) bool { return t[1] == "" }},
	{"a =~ /[xy]/", `{a=~"[xy]"}`, []int{0}, func(t [3]string) bool { return t[0] == "x" || t[0] == "y" }},
	{"(a = 'x' OR b = 'u')", "", []int{0, 1}, func(t [3]string) bool { return t[0] == "x" || t[1] == "u" }},
}

// ask is a statement.
type ask struct {
	calls        []call
	measurements []string
	lo, hi       int64 // [lo, hi); always and never: no bound
	period             // of GROUP BY time; a window of 0: none
	shift        int64
	by           []int // tags
	where        condition
	fill         string
	descending   bool
	limit        int
}

type call struct {
	function
	field string
}

func (q *ask) String() string {
	var names, where, by []string
	for _, c := range q.calls {
		names = append(names, c.text(c.field))
	}
	if q.lo != always {
		where = append(where, fmt.Sprintf("time >= %d", q.lo))
	}
	if q.hi != never {
		where = append(where, fmt.Sprintf("time < %d", q.hi))
	}
	if q.where.text != "" {
		where = append(where, q.where.text)
	}
	text := "SELECT " + strings.Join(names, ", ") + " FROM " + strings.Join(q.measurements, ", ")
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	if shift := fmt.Sprintf("%ds", q.shift/second); q.windows() && q.shift > 0 {
		by = append(by, "time("+q.text()+", "+shift+")")
	} else if q.windows() {
		by = append(by, "time("+q.text()+")")
	}
	for _, i := range q.by {
		by = append(by, tagNames[i])
	}
	if len(by) > 0 {
		text += " GROUP BY " + strings.Join(by, ", ")
	}
	if q.windows() {
		text += " fill(" + q.fill + ")"
	}
	if q.descending {
		text += " ORDER BY time DESC"
	}
	if q.limit > 0 {
		text += fmt.Sprintf(" LIMIT %d", q.limit)
	}
	return text + q.tz()
}

func (q *ask) windows() bool { return q.length() > 0 }

// window returns the start of the window of a time.
func (q *ask) window(at int64) int64 { return q.start(at-q.shift) + q.shift }

// after returns the start of the next one.
func (q *ask) after(at int64) int64 { return q.end(at-q.shift) + q.shift }

// near reports whether a step counts: its first value is near enough to the second one.
func (q *ask) near(p *step) bool {
	if !q.windows() {
		return p.before >= q.lo
	}
	return p.before >= q.window(q.window(p.at)-1)
}

// parted reports whether windows of a tier lie between the values of a step, which may begin in
// the last one of them. The windows have the steps up to there.
func parted(segments []segment, p *step) bool {
	return slices.ContainsFunc(segments, func(g segment) bool {
		d, _ := g.at(g.hi - 1)
		return p.before < g.hi-d.length() && g.hi <= p.at
	})
}

// randomAsk returns a statement about some of the times of spots.
func randomAsk(rnd *rand.Rand, measurements []string, spot func() int64) *ask {
	q := &ask{lo: always, hi: never, where: conditions[rnd.IntN(len(conditions))], fill: "none"}
	for range 1 + rnd.IntN(3) {
		f := functions[rnd.IntN(len(functions))]
		if rnd.IntN(2) == 0 { // a downsample is likely to have it
			f = functions[rnd.IntN(6)]
		} else if rnd.IntN(6) == 0 {
			f = functions[slices.IndexFunc(functions, func(f function) bool { return f.name == "increase" })]
		}
		c := call{f, []string{"f", "f", "i", "s"}[rnd.IntN(4)]}
		if c.field == "s" && !f.texts {
			c.field = "i"
		}
		if !slices.ContainsFunc(q.calls, func(o call) bool { return o.name == c.name && o.field == c.field }) {
			q.calls = append(q.calls, c)
		}
	}
	q.measurements = []string{measurements[rnd.IntN(len(measurements))]}
	if rnd.IntN(5) == 0 {
		q.measurements = measurements
	}
	for i := range tagNames {
		if rnd.IntN(3) == 0 {
			q.by = append(q.by, i)
		}
	}
	if rnd.IntN(6) > 0 {
		q.lo = spot()
		q.hi = spot()
		if q.lo > q.hi {
			q.lo, q.hi = q.hi, q.lo
		}
		q.hi++
		if rnd.IntN(2) == 0 {
			unit := []int64{10, 60, 120, 3600}[rnd.IntN(4)] * second
			q.lo, q.hi = floor(q.lo, unit), ceil(q.hi, unit)
		}
		if rnd.IntN(3) > 0 {
			q.every = []int64{10, 20, 30, 60, 70, 120, 140, 420, 1800, 3600, 7200, 86400}[rnd.IntN(12)] * second
			switch rnd.IntN(8) {
			case 0, 1:
				q.shift = int64(rnd.IntN(4)) * 10 * second % q.every
			case 2:
				q.period = calendars[rnd.IntN(len(calendars))]
			}
			texts := slices.ContainsFunc(q.calls, func(c call) bool { return c.field == "s" || c.name == "distinct" })
			if (q.hi-q.lo)/q.length() < 300 && !texts {
				q.fill = []string{"none", "null", "7", "previous"}[rnd.IntN(4)]
			}
			q.descending = rnd.IntN(4) == 0
			if rnd.IntN(5) == 0 {
				q.limit = 1 + rnd.IntN(3)
			}
		}
	}
	return q
}

// suit makes a statement one that a tier is likely to answer.
func (q *ask) suit(rnd *rand.Rand, t *tier) {
	d := &t.definitions[rnd.IntN(len(t.definitions))]
	var calls []call
	for _, f := range functions {
		for _, field := range []string{"f", "i", "s"} {
			if (field != "s" || f.texts && q.fill == "none") && containsAll(d.columns(field), columnsOf(f.name)) && (f.name != "distinct" || q.fill == "none") {
				calls = append(calls, call{f, field})
			}
		}
	}
	if len(calls) == 0 {
		return
	}
	q.calls = nil
	for _, i := range rnd.Perm(len(calls))[:min(len(calls), 1+rnd.IntN(3))] {
		q.calls = append(q.calls, calls[i])
	}
	q.by = slices.DeleteFunc(q.by, func(i int) bool { return !t.keeps[i] })
	if slices.ContainsFunc(q.where.tags, func(i int) bool { return !t.keeps[i] }) {
		q.where = conditions[0]
	}
	if q.windows() && q.fill == "none" { // with other fills, windows must not be too many
		q.period, q.shift = d.period, 0
		if d.every > 0 && d.zone == "" {
			q.every *= int64(1 + rnd.IntN(3))
		}
	}
}

// calendars are windows of the calendar. The rows have an end of a day and one of a month of
// Berlin, and between them the hour that summer takes.
var calendars = []period{{every: day}, {every: day, zone: "Europe/Berlin"}, {months: 1}, {months: 1, zone: "Europe/Berlin"}}

// segment is windows of a tier that stand for rows of the source.
type segment struct {
	*tier
	lo, hi int64
}

// piece is the times for which a definition of a tier may answer.
type piece struct {
	segment
	period
	lost    int64 // the source has all rows from there on
	foreign bool
	refused bool
}

// wanted is what is asked of tiers, for some times [lo, hi) of a measurement of raw.
type wanted struct {
	measurement string
	columns     []string
	fields      []string // that have the columns
	tags        []int    // that rows keep
	lo, hi      int64
	rows        bool                   // all rows are needed
	fits        func(*definition) bool // its windows will do
	step        int64                  // longer windows are for what is lost alone, if there are no others; 0: all will do
	complete    bool
}

// path returns a tier and those of whose rows its rows are; nil if one of them is not there.
func (s *shadow) path(t *tier) (out []*tier) {
	for ; t != nil && t.live; t = s.tier(t.from) {
		if out = append(out, t); t.from == raw {
			return out
		}
	}
	return nil
}

// segments returns which tiers answer, and the times that raw has lost and for which a tier does
// not answer.
func (s *shadow) segments(q *wanted) (out, silent []segment) {
	var pieces []piece
	for _, t := range s.tiers {
		path := s.path(t)
		if path == nil || slices.ContainsFunc(path, func(t *tier) bool { return !t.takesMeasurement(q.measurement) }) {
			continue
		}
		lost := int64(always)
		if at := s.expired[raw]; at != 0 {
			lost = t.ceil(at)
			if d, _ := t.at(lost); slices.Contains(q.columns, "increase") {
				lost = d.end(lost) // the rows before this window have gone
			}
		}
		begins, gone := int64(always), int64(always)
		if at := s.expired[t.into]; at != 0 {
			gone = t.ceil(at)
		}
		begins = gone
		for _, o := range path {
			if o.begins != 0 {
				begins = max(begins, t.ceil(o.begins))
			}
		}
		for i := range t.definitions {
			d := &t.definitions[i]
			_, next := t.at(d.since)
			refused := q.rows || !q.fits(d) || slices.ContainsFunc(q.fields, func(field string) bool { return !containsAll(d.columns(field), q.columns) })
			for _, o := range path {
				refused = refused || o.where.text != ""
				for _, i := range q.tags {
					refused = refused || !o.keeps[i]
				}
			}
			hi := lost
			if q.complete && !q.tooLong(d.period) {
				hi = never // all windows are computed
			}
			for k, part := range [][2]int64{{gone, min(begins, lost)}, {begins, hi}} {
				if lo, hi := max(part[0], d.since), min(part[1], next); lo < hi {
					pieces = append(pieces, piece{segment{t, lo, hi}, d.period, lost, k == 0, refused})
				}
			}
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int {
		if a.foreign != b.foreign {
			return map[bool]int{true: 1, false: -1}[a.foreign]
		}
		switch long := q.tooLong(a.period); {
		case long != q.tooLong(b.period):
			return map[bool]int{true: 1, false: -1}[long]
		case long:
			return cmp.Compare(a.length(), b.length())
		}
		return cmp.Compare(b.length(), a.length())
	})
	free := [][2]int64{{q.lo, q.hi}}
	for _, p := range pieces {
		if p.refused {
			continue
		}
		var rest [][2]int64
		for _, f := range free {
			lo, hi := max(f[0], p.lo), min(f[1], p.hi)
			if lo >= hi {
				rest = append(rest, f)
				continue
			}
			// Windows lie in the free time. At the ends of the range, those that the source
			// has lost may reach over it.
			if lo == q.lo && lo > p.lo && lo < p.lost {
				lo = p.start(lo)
			} else if lo > p.lo {
				lo = p.ceil(lo)
			}
			if hi == q.hi && hi < p.hi && p.ceil(hi) <= p.lost {
				hi = p.ceil(hi)
			} else if hi < p.hi {
				hi = p.start(hi)
			}
			if lo >= hi {
				rest = append(rest, f)
				continue
			}
			out = append(out, segment{p.tier, lo, hi})
			if f[0] < lo {
				rest = append(rest, [2]int64{f[0], lo})
			}
			if hi < f[1] {
				rest = append(rest, [2]int64{hi, f[1]})
			}
		}
		free = rest
	}
	if at := s.expired[raw]; at != 0 {
		for _, f := range free {
			for _, p := range pieces {
				if lo, hi := max(f[0], p.lo), min(f[1], p.hi, at); p.refused && lo < hi {
					silent = append(silent, segment{p.tier, lo, hi})
				}
			}
		}
	}
	return out, silent
}

func containsAll(list, some []string) bool {
	return !slices.ContainsFunc(some, func(v string) bool { return !slices.Contains(list, v) })
}

// tooLong reports whether windows are longer than they should be.
func (q *wanted) tooLong(p period) bool { return q.step > 0 && p.length() > q.step }

// want returns what a call asks of tiers.
func (q *ask) want(c call, measurement string, complete bool) *wanted {
	return &wanted{
		measurement: measurement, columns: columnsOf(c.name), fields: []string{c.field}, tags: slices.Concat(q.by, q.where.tags), lo: q.lo, hi: q.hi, complete: complete && c.within == nil,
		fits: func(d *definition) bool {
			return !q.windows() || d.fills(q.period) && (q.shift == 0 || q.shift%d.every == 0)
		},
	}
}

// answer is rows by series: the name, and the values of the tags of GROUP BY.
type answer map[string][]cells

// cells is a row: its time, and a cell of each call, nil for null.
type cells struct {
	at     int64
	values []any
}

// answers returns what a statement answers, which tiers have rows of it, which ones may, and
// whether a hint must say, or may, that rows are missing.
func (s *shadow) answers(q *ask, complete bool) (out answer, used, may map[string]bool, must, silent bool) {
	out, used, may = answer{}, map[string]bool{}, map[string]bool{}
	contents := map[*tier][]*row{}
	for _, m := range q.measurements {
		groups := map[string][]map[int64]*aggregate{} // by call and window
		for n, c := range q.calls {
			segments, no := s.segments(q.want(c, m, complete))
			silent = silent || len(no) > 0
			for _, seg := range no {
				must = must || slices.ContainsFunc(seg.frozen, func(r *row) bool {
					return r.measurement == m && seg.keepsSome(r, c.field) && q.where.ok(r.tags) && seg.lo <= r.start && r.start < seg.hi
				})
			}
			put := func(of series, at int64, a *aggregate) {
				g := m
				for _, i := range q.by {
					g += "," + of.tags[i]
				}
				w := q.lo
				if w == always {
					w = 0
				}
				if q.windows() {
					w = q.window(at)
				}
				if groups[g] == nil {
					groups[g] = make([]map[int64]*aggregate, len(q.calls))
				}
				if groups[g][n] == nil {
					groups[g][n] = map[int64]*aggregate{}
				}
				if have := groups[g][n][w]; have != nil {
					have.add(a)
				} else {
					groups[g][n][w] = a
				}
			}
			for _, seg := range segments {
				may[seg.into] = true
				if contents[seg.tier] == nil {
					contents[seg.tier] = s.rows(seg.tier)
				}
				for _, r := range contents[seg.tier] {
					if a := r.fields[c.field]; r.measurement == m && c.has(c.field, a) && seg.lo <= r.start && r.start < seg.hi && q.where.ok(r.tags) {
						used[seg.into] = true
						put(r.series, r.start, a.stored(r.start))
					}
				}
			}
			stands := func(at int64) bool {
				return slices.ContainsFunc(segments, func(g segment) bool { return g.lo <= at && at < g.hi })
			}
			if c.name == "increase" {
				for _, p := range s.steps() {
					if p.measurement == m && p.field == c.field && q.lo <= p.at && p.at < q.hi && !stands(p.at) && q.where.ok(p.tags) && q.near(&p) && !parted(segments, &p) {
						put(p.series, p.at, &aggregate{increase: p.rise, steps: 1})
					}
				}
				continue
			}
			for at, p := range s.points {
				v, ok := p.fields[c.field]
				if ok && p.measurement == m && q.lo <= at && at < q.hi && !stands(at) && q.where.ok(p.tags) {
					put(p.series, at, of(v, at))
				}
			}
		}
		for g, calls := range groups {
			out[g] = q.rows(calls)
		}
	}
	return out, used, may, must, silent
}

// keepsSome reports whether a row has a column of a field.
func (t *tier) keepsSome(r *row, field string) bool {
	d, _ := t.at(r.start)
	return r.fields[field] != nil && slices.ContainsFunc(d.columns(field), func(c string) bool {
		_, ok := columnValue(c, field, r.fields[field])
		return ok
	})
}

// rows returns the rows of a group.
func (q *ask) rows(calls []map[int64]*aggregate) (out []cells) {
	var times []int64
	for _, have := range calls {
		for w := range have {
			times = append(times, w)
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	if q.windows() && q.fill != "none" {
		// Windows at the ends hold whole windows of tiers.
		times = nil
		for w := q.window(q.lo); w < q.hi; w = q.after(w) {
			times = append(times, w)
		}
	}
	if q.descending {
		slices.Reverse(times)
	}
	for i, w := range times {
		r := cells{at: w}
		for n, c := range q.calls {
			var cell any
			a := calls[n][w]
			switch {
			case a != nil:
				number, text := c.value(a)
				estimated := c.within != nil && a.sketched
				if cell = number; !c.number(c.field) {
					cell = text
				} else if estimated {
					e := estimate{number, c.within(a) * (1 + 1e-9)}
					if c.field == "i" { // estimates are rounded
						e.within += 0.5
					}
					cell = e
				}
				if !q.windows() && len(q.calls) == 1 && c.selects != nil && !estimated {
					r.at = c.selects(a)
				}
			case q.fill == "7" && len(calls[n]) == 0:
				cell = unknown{7.0}
			case q.fill == "7":
				cell = 7.0
			case q.fill == "null" && c.name == "count" && len(calls[n]) > 0 && q.windows():
				cell = 0.0
			case q.fill == "previous" && i > 0:
				cell = out[i-1].values[n]
			}
			r.values = append(r.values, cell)
		}
		out = append(out, r)
	}
	if q.limit > 0 {
		out = out[:min(q.limit, len(out))]
	}
	return out
}

// text returns an answer in lines, in order.
func (a answer) text() string {
	var lines []string
	for g, rows := range a {
		for _, r := range rows {
			line := fmt.Sprintf("%s %d", g, r.at)
			for _, v := range r.values {
				switch v := v.(type) {
				case nil:
					line += " null"
				case float64:
					line += fmt.Sprintf(" %.9g", v)
				default:
					line += fmt.Sprintf(" %v", v)
				}
			}
			lines = append(lines, line)
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
