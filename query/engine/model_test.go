package engine

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// The model of a query: the rule written down once more, a value at a time,
// over the points as they were written.

type modelPoint struct {
	t    int64
	key  string
	host string
	f    float64
	i    int64
	hasF bool
	hasI bool
}

// modelData fills a store. With odd some floats are infinite and some are NaN, which
// the model does not have.
func modelData(rnd *rand.Rand, m *scantest.Store, odd bool) []modelPoint {
	m.Create("d", "autogen")
	var out []modelPoint
	base := int64(1500000000e9)
	for h := range 4 {
		t := base + rnd.Int64N(50e9)
		for range 80 {
			switch rnd.IntN(4) {
			case 0:
				t += 10e9
			case 1:
				t += 1 + rnd.Int64N(90e9)
			case 2:
				t += 3600e9 * rnd.Int64N(9)
			default:
				t += 10e9
			}
			if n := len(out); n > 0 && out[n-1].host == fmt.Sprintf("h%d", h) && out[n-1].t == t {
				continue
			}
			p := modelPoint{t: t, host: fmt.Sprintf("h%d", h), key: fmt.Sprintf("m,host=h%d", h)}
			p.hasF, p.hasI = rnd.IntN(5) > 0, rnd.IntN(3) > 0
			p.f, p.i = float64(rnd.IntN(2000))/8-100, rnd.Int64N(21)-10
			vals := map[string]scantest.Value{}
			if odd {
				switch n := rnd.IntN(40); {
				case n < 2:
					p.f = math.Inf(1 - 2*n)
				case n < 8:
					p.hasF = false
					nan := 0x7ff0_0000_0000_0001 | rnd.Uint64()&0x8007_ffff_ffff_fffe
					vals["f"] = scantest.Value{Type: model.Float, Bits: nan}
				}
			}
			if p.hasF {
				vals["f"] = scantest.Value{Type: model.Float, Bits: math.Float64bits(p.f)}
			}
			if p.hasI {
				vals["i"] = scantest.Value{Type: model.Integer, Bits: uint64(p.i)}
			}
			if len(vals) == 0 {
				continue
			}
			m.Put("d", "autogen", p.key, p.t, vals)
			out = append(out, p)
		}
	}
	return out
}

// modelAggregate computes one aggregate of values in order of time.
func modelAggregate(fn string, x []float64) (float64, bool) {
	if len(x) == 0 {
		return 0, false
	}
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	var sum float64
	for _, v := range x {
		sum += v
	}
	mean := sum / float64(len(x))
	switch fn {
	case "count":
		return float64(len(x)), true
	case "sum", "increase":
		return sum, true
	case "mean":
		return mean, true
	case "min":
		return sorted[0], true
	case "max":
		return sorted[len(x)-1], true
	case "spread":
		return sorted[len(x)-1] - sorted[0], true
	case "median":
		if n := len(x); n%2 == 0 {
			return (sorted[n/2-1] + sorted[n/2]) / 2, true
		}
		return sorted[len(x)/2], true
	case "stddev":
		if len(x) < 2 {
			return math.NaN(), true
		}
		var q float64
		for _, v := range x {
			q += (v - mean) * (v - mean)
		}
		return math.Sqrt(q / float64(len(x)-1)), true
	case "first":
		return x[0], true
	case "last":
		return x[len(x)-1], true
	case "distinct": // count(distinct())
		return float64(len(slices.Compact(sorted))), true
	case "percentile":
		i := int(math.Floor(float64(len(x))*90/100+0.5)) - 1
		if i < 0 || i >= len(x) {
			return 0, false
		}
		return sorted[i], true
	}
	return 0, false
}

var diffQueries = flag.Int("diff-queries", 240, "queries that TestSelectModel compares with the model")

func TestSelectModel(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for i := range max(2, *diffQueries/80) {
		m := scantest.New()
		m.ShardSpan = []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}[rnd.IntN(3)]
		m.ChunkRows = 1 + rnd.IntN(40)
		m.Stats, m.Steps = rnd.IntN(2) == 0, rnd.IntN(2) == 0
		points := modelData(rnd, m, i%2 == 1)
		for range testseed.Rounds(80) {
			modelQuery(t, rnd, m, points)
			if t.Failed() {
				return
			}
		}
	}
}

func modelQuery(t *testing.T, rnd *rand.Rand, m *scantest.Store, points []modelPoint) {
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	fn := pick("count", "sum", "mean", "min", "max", "spread", "median", "stddev", "percentile", "first", "last", "distinct", "increase")
	field := pick("f", "i")
	if fn == "increase" && slices.ContainsFunc(points, func(p modelPoint) bool { return math.IsInf(p.f, 0) }) {
		field = "i" // what rises to infinity and falls has no sum
	}
	byHost := rnd.IntN(2) == 0
	every := []int64{0, 7e9, 60e9, 3600e9, 86400e9}[rnd.IntN(5)]
	lo, hi := int64(1500000000e9), int64(1500000000e9)+rnd.Int64N(4*86400e9)
	if rnd.IntN(2) == 0 {
		lo += rnd.Int64N(86400e9)
	}
	threshold := rnd.IntN(100) - 50
	cond, ok := "", func(p *modelPoint) bool { return true }
	switch rnd.IntN(5) {
	case 0:
		cond, ok = fmt.Sprintf(" AND f > %d", threshold), func(p *modelPoint) bool { return p.hasF && p.f > float64(threshold) }
	case 1:
		cond, ok = " AND host != 'h1'", func(p *modelPoint) bool { return p.host != "h1" }
	case 2:
		cond, ok = " AND (host = 'h2' OR i >= 0)", func(p *modelPoint) bool { return p.host == "h2" || p.hasI && p.i >= 0 }
	case 3:
		cond, ok = " AND f * 2 < i", func(p *modelPoint) bool { return p.hasF && p.hasI && p.f*2 < float64(p.i) }
	}
	call := fn + "(" + field + ")"
	switch fn {
	case "percentile":
		call = "percentile(" + field + ", 90)"
	case "distinct":
		call = "count(distinct(" + field + "))"
	}
	q := fmt.Sprintf("SELECT %s FROM m WHERE time >= %d AND time <= %d%s", call, lo, hi, cond)
	var dims []string
	var shift int64
	fill, asc := "none", rnd.IntN(3) > 0
	if every > 0 {
		if rnd.IntN(3) == 0 {
			shift = rnd.Int64N(every)
		}
		if every >= 60e9 && fn != "stddev" {
			fill = pick("none", "null", "2.5", "previous", "linear")
		}
		dims = append(dims, fmt.Sprintf("time(%dns, %dns)", every, shift))
	}
	if byHost {
		dims = append(dims, "host")
	}
	if len(dims) > 0 {
		q += " GROUP BY " + strings.Join(dims, ", ")
	}
	if every > 0 {
		q += " fill(" + fill + ")"
	}
	if !asc {
		q += " ORDER BY time DESC"
	}
	limit, offset := 0, 0
	if rnd.IntN(4) == 0 {
		limit, offset = 1+rnd.IntN(6), rnd.IntN(4)
		if every == 0 {
			offset = 0
		}
		q += fmt.Sprintf(" LIMIT %d OFFSET %d", limit, offset)
	}
	// The model.
	groups := map[string]map[int64][]float64{}
	before := map[string]*modelPoint{} // of an increase
	value := func(p *modelPoint) float64 {
		if field == "i" {
			return float64(p.i)
		}
		return p.f
	}
	start := func(t int64) int64 {
		if every == 0 {
			return lo
		}
		return t - window.FloorMod(t-shift, every)
	}
	sort.SliceStable(points, func(a, b int) bool { return points[a].t < points[b].t })
	for i := range points {
		p := &points[i]
		if p.t > hi || !ok(p) || (field == "f" && !p.hasF) || (field == "i" && !p.hasI) {
			continue
		}
		last := before[p.host]
		before[p.host] = p
		if p.t < lo {
			continue
		}
		g, w, v := "", start(p.t), value(p)
		if byHost {
			g = p.host
		}
		if fn == "increase" {
			if last == nil || last.t < w-every {
				continue
			}
			if old := value(last); v >= old {
				v -= old
			}
		}
		if groups[g] == nil {
			groups[g] = map[int64][]float64{}
		}
		groups[g][w] = append(groups[g][w], v)
	}
	type row struct {
		g string
		t int64
		v float64
	}
	var want []row
	names := slices.Sorted(maps.Keys(groups))
	if !asc {
		slices.Reverse(names)
	}
	for _, g := range names {
		have := map[int64]float64{}
		for w, x := range groups[g] {
			if v, ok := modelAggregate(fn, x); ok {
				have[w] = v
			}
		}
		if len(have) == 0 {
			continue
		}
		times := slices.Sorted(maps.Keys(have))
		if fill != "none" {
			times = nil
			for w := lo - window.FloorMod(lo-shift, every); w <= hi; w += every {
				times = append(times, w)
			}
		}
		if !asc {
			slices.Reverse(times)
		}
		whole := fn == "count" || fn == "distinct" || field == "i" && fn != "mean" && fn != "median"
		var rows []row
		for _, r := range modelFill(fill, fn, whole, times, have) {
			rows = append(rows, row{g, times[r.at], r.v})
		}
		if limit > 0 {
			rows = rows[min(offset, len(rows)):min(offset+limit, len(rows))]
		}
		want = append(want, rows...)
	}
	res, err := collectSelect(context.Background(), m, q, Options{Workers: 1 + rnd.IntN(3)})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	var got []row
	for _, r := range res {
		for _, s := range r.Series {
			g := ""
			if byHost {
				g = s.Tags.Get("host")
			}
			for i := range s.Rows {
				o := expr.Operand{Vector: s.Values[1]}
				v := math.NaN()
				if !o.IsNull(i) {
					v = o.Floats()[i]
				}
				at := s.Values[0].Ints[i]
				if every == 0 {
					at = lo // selectors show the point's own time
				}
				got = append(got, row{g, at, v})
			}
		}
	}
	near := func(a, b float64) bool {
		return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1)
	}
	for i := range min(len(got), len(want)) {
		if a, b := got[i], want[i]; a.g != b.g || a.t != b.t || !near(a.v, b.v) {
			t.Errorf("%s\nrow %d: got %v, want %v", q, i, a, b)
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s\n%d rows, want %d", q, len(got), len(want))
	}
}

type modelCell struct {
	at int
	v  float64 // NaN: null
}

// modelFill gives each window its value, or what fill makes of a missing one.
func modelFill(fill, fn string, whole bool, times []int64, have map[int64]float64) []modelCell {
	var out []modelCell
	for i, w := range times {
		v, ok := have[w]
		if !ok {
			v = math.NaN()
			before, after := i-1, i+1
			for before >= 0 && !has(have, times[before]) {
				before--
			}
			for after < len(times) && !has(have, times[after]) {
				after++
			}
			switch {
			case fill == "null" && (fn == "count" || fn == "distinct"):
				v = 0
			case fill == "2.5":
				v = 2.5
			case fill == "previous" && before >= 0:
				v = have[times[before]]
			case fill == "linear" && before >= 0 && after < len(times):
				a, b := have[times[before]], have[times[after]]
				v = (b-a)/float64(after-before)*float64(i-before) + a // rounding as in InfluxDB
			}
			if whole {
				v = math.Trunc(v)
			}
		}
		out = append(out, modelCell{i, v})
	}
	return out
}

func has(m map[int64]float64, k int64) bool { _, ok := m[k]; return ok }
