package judge

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
)

// function is a function that statements ask for. A new one is a line here.
type function struct {
	name    string
	texts   bool                                 // takes fields of texts
	rows    bool                                 // needs all rows
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
	{name: "median", rows: true, value: func(a *aggregate) (float64, string) {
		slices.Sort(a.all)
		n := len(a.all)
		return (a.all[(n-1)/2] + a.all[n/2]) / 2, ""
	}},
}

// columnValue returns the value of a column of a row.
func columnValue(column, field string, a *aggregate) (string, bool) {
	for _, f := range functions {
		if f.name == column && (field != "s" || f.texts) {
			if number, text := f.value(a); field != "s" || column == "count" {
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

// condition is a condition on tags.
type condition struct {
	text string
	tags []int
	ok   func(tags [3]string) bool
}

var conditions = []condition{
	{"", nil, func([3]string) bool { return true }},
	{"", nil, func([3]string) bool { return true }},
	{"a = 'x'", []int{0}, func(t [3]string) bool { return t[0] == "x" }},
	{"a != 'x'", []int{0}, func(t [3]string) bool { return t[0] != "x" }},
	{"b = ''", []int{1}, func(t [3]string) bool { return t[1] == "" }},
	{"a =~ /[xy]/", []int{0}, func(t [3]string) bool { return t[0] == "x" || t[0] == "y" }},
	{"(a = 'x' OR b = 'u')", []int{0, 1}, func(t [3]string) bool { return t[0] == "x" || t[1] == "u" }},
}

// ask is a statement.
type ask struct {
	calls        []call
	measurements []string
	lo, hi       int64 // [lo, hi); always and never: no bound
	every, shift int64 // of GROUP BY time; 0: none
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
		names = append(names, c.name+"("+c.field+")")
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
	if q.every > 0 {
		by = append(by, fmt.Sprintf("time(%dns, %dns)", q.every, q.shift))
	}
	for _, i := range q.by {
		by = append(by, tagNames[i])
	}
	if len(by) > 0 {
		text += " GROUP BY " + strings.Join(by, ", ")
	}
	if q.every > 0 {
		text += " fill(" + q.fill + ")"
	}
	if q.descending {
		text += " ORDER BY time DESC"
	}
	if q.limit > 0 {
		text += fmt.Sprintf(" LIMIT %d", q.limit)
	}
	return text
}

// randomAsk returns a statement about some of the times of spots.
func randomAsk(rnd *rand.Rand, measurements []string, spot func() int64) *ask {
	q := &ask{lo: always, hi: never, where: conditions[rnd.IntN(len(conditions))], fill: "none"}
	for range 1 + rnd.IntN(3) {
		f := functions[rnd.IntN(len(functions))]
		if rnd.IntN(2) == 0 { // a downsample is likely to have it
			f = functions[rnd.IntN(6)]
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
			if rnd.IntN(4) == 0 {
				q.shift = int64(rnd.IntN(4)) * 10 * second % q.every
			}
			texts := slices.ContainsFunc(q.calls, func(c call) bool { return c.field == "s" })
			if (q.hi-q.lo)/q.every < 300 && !texts {
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

// segment is windows of a tier that stand for rows of the source.
type segment struct {
	*tier
	lo, hi int64
}

// piece is the times for which a definition of a tier may answer.
type piece struct {
	segment
	every   int64
	lost    int64 // the source has all rows from there on
	foreign bool
	refused bool
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

// segments returns which tiers answer a call for a measurement, and the times that raw has lost
// and for which a tier does not answer.
func (s *shadow) segments(q *ask, c call, measurement string, complete bool) (out, silent []segment) {
	var pieces []piece
	for _, t := range s.tiers {
		path := s.path(t)
		if path == nil || slices.ContainsFunc(path, func(t *tier) bool { return !t.takesMeasurement(measurement) }) {
			continue
		}
		lost := int64(always)
		if at := s.expired[raw]; at != 0 {
			lost = t.ceil(at)
		}
		hi, begins, gone := lost, int64(always), int64(always)
		if complete {
			hi = ceil(never-10*t.current().every, t.current().every) // all windows are computed
		}
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
			refused := c.rows || slices.ContainsFunc(columnsOf(c.name), func(c string) bool { return !slices.Contains(d.columns(), c) }) ||
				q.every%d.every != 0 || q.shift%d.every != 0
			for _, o := range path {
				for _, i := range slices.Concat(q.by, q.where.tags) {
					refused = refused || !o.keeps[i]
				}
			}
			for k, part := range [][2]int64{{gone, min(begins, lost)}, {begins, hi}} {
				if lo, hi := max(part[0], d.since), min(part[1], next); lo < hi {
					pieces = append(pieces, piece{segment{t, lo, hi}, d.every, lost, k == 0, refused})
				}
			}
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int {
		if a.foreign != b.foreign {
			return map[bool]int{true: 1, false: -1}[a.foreign]
		}
		return cmp.Compare(b.every, a.every)
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
				lo = floor(lo, p.every)
			} else if lo > p.lo {
				lo = ceil(lo, p.every)
			}
			if hi == q.hi && hi < p.hi && ceil(hi, p.every) <= p.lost {
				hi = ceil(hi, p.every)
			} else if hi < p.hi {
				hi = floor(hi, p.every)
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
			segments, no := s.segments(q, c, m, complete)
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
				if q.every > 0 {
					w = floor(at-q.shift, q.every) + q.shift
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
					if a := r.fields[c.field]; r.measurement == m && a != nil && seg.lo <= r.start && r.start < seg.hi && q.where.ok(r.tags) {
						used[seg.into] = true
						put(r.series, r.start, a.stored(r.start))
					}
				}
			}
			for at, p := range s.points {
				v, ok := p.fields[c.field]
				stands := slices.ContainsFunc(segments, func(g segment) bool { return g.lo <= at && at < g.hi })
				if ok && p.measurement == m && q.lo <= at && at < q.hi && !stands && q.where.ok(p.tags) {
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
	return r.fields[field] != nil && slices.ContainsFunc(d.columns(), func(c string) bool {
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
	if q.every > 0 && q.fill != "none" {
		// Windows at the ends hold whole windows of tiers.
		first := floor(q.lo-q.shift, q.every) + q.shift
		times = nil
		for w := first; w < q.hi; w += q.every {
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
				if cell = number; c.field == "s" && c.name != "count" {
					cell = text
				}
				if q.every == 0 && len(q.calls) == 1 && c.selects != nil {
					r.at = c.selects(a)
				}
			case q.fill == "7":
				cell = 7.0
			case q.fill == "null" && c.name == "count" && len(calls[n]) > 0 && q.every > 0:
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
