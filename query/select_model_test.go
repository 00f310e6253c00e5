package query

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"tsdbd/model"
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

func modelData(rnd *rand.Rand, m *memStore) []modelPoint {
	m.create("d", "autogen")
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
			vals := map[string]memValue{}
			if p.hasF {
				vals["f"] = memValue{typ: model.Float, bits: math.Float64bits(p.f)}
			}
			if p.hasI {
				vals["i"] = memValue{typ: model.Integer, bits: uint64(p.i)}
			}
			if len(vals) == 0 {
				continue
			}
			m.put("d", "autogen", p.key, p.t, vals)
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
	case "sum":
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
	case "percentile":
		i := int(math.Floor(float64(len(x))*90/100+0.5)) - 1
		if i < 0 || i >= len(x) {
			return 0, false
		}
		return sorted[i], true
	}
	return 0, false
}

func TestSelectModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for range 6 {
		m := newMemStore()
		m.shardSpan = []int64{3600e9, 24 * 3600e9, week}[rnd.IntN(3)]
		m.chunkRows = 1 + rnd.IntN(40)
		m.stats, m.steps = rnd.IntN(2) == 0, rnd.IntN(2) == 0
		points := modelData(rnd, m)
		for range 60 {
			modelQuery(t, rnd, m, points)
			if t.Failed() {
				return
			}
		}
	}
}

func modelQuery(t *testing.T, rnd *rand.Rand, m *memStore, points []modelPoint) {
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	fn := pick("count", "sum", "mean", "min", "max", "spread", "median", "stddev", "percentile")
	field := pick("f", "i")
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
	arg := field
	if fn == "percentile" {
		arg += ", 90"
	}
	q := fmt.Sprintf("SELECT %s(%s) FROM m WHERE time >= %d AND time <= %d%s", fn, arg, lo, hi, cond)
	var dims []string
	if every > 0 {
		dims = append(dims, fmt.Sprintf("time(%dns)", every))
	}
	if byHost {
		dims = append(dims, "host")
	}
	if len(dims) > 0 {
		q += " GROUP BY " + strings.Join(dims, ", ")
	}
	if every > 0 {
		q += " fill(none)"
	}
	// The model.
	groups := map[string]map[int64][]float64{}
	sort.SliceStable(points, func(a, b int) bool { return points[a].t < points[b].t })
	for i := range points {
		p := &points[i]
		if p.t < lo || p.t > hi || !ok(p) || (field == "f" && !p.hasF) || (field == "i" && !p.hasI) {
			continue
		}
		g, w, v := "", lo, p.f
		if byHost {
			g = p.host
		}
		if every > 0 {
			w = p.t - floorMod(p.t, every)
		}
		if field == "i" {
			v = float64(p.i)
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
	for g, ws := range groups {
		for w, x := range ws {
			if v, ok := modelAggregate(fn, x); ok {
				want = append(want, row{g, w, v})
			}
		}
	}
	sort.Slice(want, func(a, b int) bool {
		if want[a].g != want[b].g {
			return want[a].g < want[b].g
		}
		return want[a].t < want[b].t
	})
	res, err := collectSelect(context.Background(), m, q, SelectOptions{Workers: 1 + rnd.IntN(3)})
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
				o := operand{v: s.Values[1]}
				v := math.NaN()
				if !o.isNull(i) {
					v = o.floats()[i]
				}
				at := s.Values[0].Ints[i]
				if every == 0 {
					at = lo // selectors show the point's own time
				}
				got = append(got, row{g, at, v})
			}
		}
	}
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		a, b := got[i], want[i]
		same = a.g == b.g && a.t == b.t && (a.v == b.v || math.IsNaN(a.v) && math.IsNaN(b.v) || math.Abs(a.v-b.v) <= 1e-9*max(math.Abs(a.v), math.Abs(b.v), 1))
	}
	if !same {
		t.Errorf("%s\n got %v\nwant %v", q, got, want)
	}
}
