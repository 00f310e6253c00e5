package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// rangeFunction is a function of PromQL over a range. "" is a selector, which has the latest
// sample of a lookback.
type rangeFunction struct {
	name     string
	columns  []string // of a downsample
	function string   // of functions, that it is; "": it is always 1, or a quantile
	phi      float64  // of a quantile; 0: it is none
}

var rangeFunctions = []rangeFunction{
	{"", []string{"last"}, "last", 0},
	{"last_over_time", []string{"last"}, "last", 0},
	{"min_over_time", []string{"min"}, "min", 0},
	{"max_over_time", []string{"max"}, "max", 0},
	{"sum_over_time", []string{"sum"}, "sum", 0},
	{"avg_over_time", []string{"sum", "count"}, "mean", 0},
	{"count_over_time", []string{"count"}, "count", 0},
	{"present_over_time", []string{"count"}, "", 0},
	{"quantile_over_time", []string{"percentile"}, "", 0.25},
	{"quantile_over_time", []string{"percentile"}, "", 0.95},
}

// value returns the value of an aggregate, and how far it is off at most.
func (f *rangeFunction) value(a *aggregate) (v, within float64) {
	if f.phi > 0 {
		rank := f.phi * float64(len(a.all)-1)
		lower := int(rank)
		weight := rank - float64(lower)
		lo, hi := a.rank(lower), a.rank(min(lower+1, len(a.all)-1))
		if v = lo.number*(1-weight) + hi.number*weight; a.sketched {
			within = share(lo)*(1-weight) + share(hi)*weight
		}
		return v, within
	}
	for _, of := range functions {
		if of.name == f.function {
			v, _ = of.value(a)
			return v, 0
		}
	}
	return 1, 0
}

// Times of PromQL are milliseconds.
const (
	millisecond = int64(time.Millisecond)
	lookback    = int64(5 * time.Minute / time.Millisecond)
)

// expression is a query in PromQL.
type expression struct {
	rangeFunction
	measurement, field string
	where              condition
	span               int64 // range; the lookback of a selector
	offset             int64
	start, end, step   int64 // step 0: an instant query
	sum                bool  // by a
	use                string
}

// randomExpression returns a query about some of the times of spots.
func randomExpression(rnd *rand.Rand, measurements []string, spot func() int64) *expression {
	q := &expression{
		rangeFunction: rangeFunctions[rnd.IntN(len(rangeFunctions))], measurement: measurements[rnd.IntN(len(measurements))], field: []string{"f", "f", "i", "s"}[rnd.IntN(4)],
		where: conditions[rnd.IntN(6)], span: lookback, start: spot() / millisecond, sum: rnd.IntN(4) == 0, use: []string{"expired", "expired", "complete", "off"}[rnd.IntN(4)],
	}
	if q.name != "" {
		q.span = []int64{10, 60, 60, 70, 120, 300, 420, 840, 3600, 90 * 60, 8400, 86400}[rnd.IntN(12)] * 1000
	}
	q.end = q.start
	if rnd.IntN(4) > 0 {
		q.step = []int64{10, 30, 60, 70, 77, 120, 600, 3600, 3601}[rnd.IntN(9)] * 1000
		q.end += q.step * int64(rnd.IntN(20))
		if rnd.IntN(2) == 0 {
			q.start, q.end = q.start/1e5*1e5, q.end/1e5*1e5
		}
	}
	if rnd.IntN(4) == 0 {
		q.offset = int64(rnd.IntN(100)) * 1000
	}
	return q
}

func (q *expression) String() string {
	text := q.measurement + "_" + q.field + q.where.matchers
	if q.name != "" {
		text += fmt.Sprintf("[%ds]", q.span/1000)
	}
	if q.offset > 0 {
		text += fmt.Sprintf(" offset %ds", q.offset/1000)
	}
	if q.phi > 0 {
		text = fmt.Sprintf("%g, %s", q.phi, text)
	}
	if q.name != "" {
		text = q.name + "(" + text + ")"
	}
	if q.sum {
		text = "sum by (a) (" + text + ")"
	}
	return text
}

// steps returns the times of the query.
func (q *expression) steps() (out []int64) {
	for at := q.start; at <= q.end; at += max(q.step, 1) {
		out = append(out, at)
	}
	return out
}

// apart returns how far the steps are apart; 0: there is one.
func (q *expression) apart() int64 {
	if q.start+q.step > q.end {
		return 0
	}
	return q.step
}

// way is how a query is answered: by windows of single series, of groups, or by samples alone.
type way struct{ groups, samples bool }

// grouped reports whether windows of groups may answer the query: it sums over series what adds up
// over windows.
func (q *expression) grouped() bool {
	return q.sum && (q.name == "sum_over_time" || q.name == "count_over_time")
}

// ways returns how the query may be answered. Windows of groups do so where they stand for more
// time than those of single series; near that it is left open.
func (s *shadow) ways(q *expression) []way {
	out := []way{{}}
	if q.grouped() {
		single, longest := s.covered(q, way{})
		groups, _ := s.covered(q, way{groups: true})
		switch {
		case groups > single+2*longest:
			out = []way{{groups: true}}
		case groups+2*longest >= single:
			out = append(out, way{groups: true})
		}
	}
	if s.doubtful(q) {
		out = append(out, way{samples: true})
	}
	return out
}

// covered returns for how much of the time of a query windows stand, and how long the longest are.
func (s *shadow) covered(q *expression, by way) (covered, longest int64) {
	w, longest := q.want(s, by)
	if q.use == "off" {
		return 0, longest
	}
	segments, _ := s.segments(w)
	for _, g := range segments {
		covered += max(0, min(g.hi, w.hi)-max(g.lo, w.lo))
	}
	return covered, longest
}

// want returns what the query asks of tiers, and how long the longest of their windows is. A step
// may read a window that begins before its range, and the one before.
func (q *expression) want(s *shadow, by way) (w *wanted, longest int64) {
	for _, t := range s.tiers {
		for i := range t.definitions {
			if s.path(t) != nil {
				longest = max(longest, t.definitions[i].length())
			}
		}
	}
	w = &wanted{
		measurement: q.measurement, columns: q.columns, fields: []string{q.field}, tags: []int{0, 1, 2}, step: max(q.apart()*millisecond, 1), complete: q.use == "complete" && q.phi == 0,
		lo: (q.start-q.offset-q.span+1)*millisecond - 2*longest, hi: (q.end-q.offset+1)*millisecond + longest, rows: by.samples,
	}
	if by.groups {
		w.tags = append([]int{0}, q.where.tags...)
	}
	w.fits = func(d *definition) bool {
		switch {
		case d.months > 0 || d.zone != "":
			return false
		case q.name == "":
			return q.apart() == 0 || q.apart()*millisecond >= d.every
		}
		return q.span*millisecond%d.every == 0
	}
	return w, longest
}

// doubtful reports whether samples may answer as well as windows. Of a text only a count may be
// kept, which looks like that of a number. If no target has rows for a query, windows answer if the
// target has other series of the name: names are looked up by shards, not by rows.
func (s *shadow) doubtful(q *expression) bool {
	if q.field == "s" {
		return true
	}
	w, longest := q.want(s, way{})
	for _, c := range q.columns {
		has := false
		for _, t := range s.tiers {
			if s.path(t) == nil {
				continue
			}
			for _, r := range s.rows(t) {
				d, _ := t.at(r.start)
				has = has || q.counts(c, r) && slices.Contains(d.columns(q.field), c) && r.measurement == q.measurement && q.where.ok(r.tags) &&
					w.lo+longest <= r.start && r.start < w.hi-longest
			}
		}
		if !has {
			return true
		}
	}
	return false
}

// counts reports whether a row has a column of numbers.
func (q *expression) counts(column string, r *row) bool {
	_, ok := columnValue(column, q.field, r.fields[q.field])
	return ok && (q.field != "s" || column == "count")
}

// evaluate returns the values of a query by the values of the tags, and by time, in milliseconds; how
// far they are off at most; and the times of samples that are lost.
func (s *shadow) evaluate(q *expression, by way) (out, within map[string]map[int64]float64, lost []segment) {
	out, within = map[string]map[int64]float64{}, map[string]map[int64]float64{}
	var segments []segment
	want, _ := q.want(s, by)
	if q.use != "off" {
		segments, lost = s.segments(want)
	}
	whole := int64(1) // which all windows divide
	for _, g := range segments {
		d, _ := g.at(g.lo)
		for a, b := whole, d.every/millisecond; ; a, b = b, a%b {
			if b == 0 {
				whole = whole / a * (d.every / millisecond)
				break
			}
		}
	}
	contents := map[*tier][]*row{}
	for _, at := range q.steps() {
		from, to := at-q.offset-q.span+1, at-q.offset+1 // [from, to)
		if slices.ContainsFunc(segments, func(g segment) bool { return g.lo < to*millisecond && from*millisecond < g.hi }) {
			to = floor(to, whole)
			from = to - ceil(q.span, whole)
		}
		values := map[[3]string]*aggregate{}
		put := func(of series, a *aggregate) {
			if have := values[of.tags]; have != nil {
				have.add(a)
				return
			}
			values[of.tags] = a
		}
		reads := func(of series, ns int64) bool {
			return of.measurement == q.measurement && q.where.ok(of.tags) && from*millisecond <= ns && ns < to*millisecond
		}
		for _, g := range segments {
			if contents[g.tier] == nil {
				contents[g.tier] = s.rows(g.tier)
			}
			for _, r := range contents[g.tier] {
				if a := r.fields[q.field]; q.counts(q.columns[0], r) && reads(r.series, r.start) && g.lo <= r.start && r.start < g.hi {
					put(r.series, a.stored(r.start))
				}
			}
		}
		for ns, p := range s.points {
			v, ok := p.fields[q.field]
			stands := slices.ContainsFunc(segments, func(g segment) bool { return g.lo <= ns && ns < g.hi })
			if ok && !stands && q.field != "s" && reads(p.series, ns) {
				put(p.series, of(v, ns))
			}
		}
		for tags, a := range values {
			v, off := q.value(a)
			key := fmt.Sprintf("%q", tags)
			if q.sum {
				key = fmt.Sprintf("%q", tags[:1])
			}
			if out[key] == nil {
				out[key], within[key] = map[int64]float64{}, map[int64]float64{}
			}
			out[key][at] += v
			within[key][at] += off
		}
	}
	return out, within, lost
}

// expression compares the values of a query.
func (j *Judge) expression(q *expression) {
	j.t.Helper()
	j.counts["queries in PromQL"]++
	params := url.Values{"db": {"d"}, "query": {q.String()}, "downsamples": {q.use}, "time": {milliseconds(q.start)}}
	path := "/api/v1/query"
	if q.step > 0 {
		path = "/api/v1/query_range"
		params.Set("start", milliseconds(q.start))
		params.Set("end", milliseconds(q.end))
		params.Set("step", milliseconds(q.step))
	}
	status, body, err := j.server.Post(path, params, "")
	var doc struct {
		Warnings, Infos []string
		Data            struct {
			Result []struct {
				Metric map[string]string
				Value  []any
				Values [][]any
			}
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &doc)
	}
	if err != nil || status != 200 {
		j.fatalf("%s %v: %d %.500s %v", path, params, status, body, err)
	}
	has := map[string]map[int64]float64{}
	for _, r := range doc.Data.Result {
		key := fmt.Sprintf("%q", []string{r.Metric["a"], r.Metric["b"], r.Metric["c"]})
		if q.sum {
			key = fmt.Sprintf("%q", []string{r.Metric["a"]})
		}
		if r.Value != nil {
			r.Values = append(r.Values, r.Value)
		}
		if has[key] != nil {
			j.fatalf("%s %v: two series %s", path, params, key)
		}
		has[key] = map[int64]float64{}
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			has[key][int64(math.Round(at*1000))], _ = strconv.ParseFloat(text, 64)
		}
	}
	got := textOf(has)
	var want map[string]map[int64]float64
	var lost []segment
	ways := j.shadow.ways(q)
	for _, by := range ways {
		var within map[string]map[int64]float64
		want, within, lost = j.shadow.evaluate(q, by)
		j.counts["estimates in PromQL"] += accept(want, within, has)
		if got == textOf(want) {
			break
		}
	}
	if want := textOf(want); got != want {
		j.fatalf("%s %v\nhas\n%s\nwant\n%s\nby %+v of %+v, what expired %v, lost %v, warnings %v, infos %v", path, params, got, want, ways[len(ways)-1], ways, j.shadow.expired, lost, doc.Warnings, doc.Infos)
	}
	if q.grouped() {
		_, _, lost = j.shadow.evaluate(q, way{groups: true}) // what groups do not answer is told
	}
	if len(doc.Warnings) > 0 && len(lost) == 0 && !j.shadow.doubtful(q) {
		j.fatalf("%s %v: warnings %v, but nothing is lost", path, params, doc.Warnings)
	}
	if len(doc.Infos) > 0 {
		j.counts["queries in PromQL of downsamples"]++
	}
}

// accept gives estimates the values that are there, as far as these are near enough. It returns how
// many there are.
func accept(want, within, has map[string]map[int64]float64) (n int) {
	for key, values := range want {
		for at, v := range values {
			off := within[key][at]
			if off == 0 {
				continue
			}
			n++
			if near, ok := has[key][at]; ok && math.Abs(near-v) <= off*(1+1e-9) {
				values[at] = near
			}
		}
	}
	return n
}

// milliseconds returns a time as PromQL has it.
func milliseconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

func textOf(values map[string]map[int64]float64) string {
	var lines []string
	for key, values := range values {
		for at, v := range values {
			lines = append(lines, fmt.Sprintf("%s %.3f %.9g", key, float64(at)/1e3, v))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
