package promapi

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestPoints compares points with how Prometheus prints them.
func TestPoints(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	var c clock
	check := func(ms int64, v float64) {
		t.Helper()
		time := strconv.FormatInt(ms/1000, 10)
		if ms < 0 && ms > -1000 {
			time = "-0"
		}
		if f := max(ms%1000, -(ms % 1000)); f != 0 {
			time += fmt.Sprintf(".%03d", f)
		}
		format := byte('f')
		if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		want := "[" + time + `,"` + strconv.FormatFloat(v, format, -1, 64) + `"]`
		if got := string(c.appendPoint(nil, ms, v)); got != want {
			t.Errorf("seed %d: %s, want %s", seed, got, want)
		}
	}
	for _, v := range []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1e21, 1e-6, 9.9e-7, 5e-324, math.MaxFloat64, -1.5} {
		check(1_700_000_000_000, v)
	}
	for _, ms := range []int64{0, 1, -1, 999, -999, -1000, 9_999_999, 10_000_000, 10_000_001, -10_000_001, math.MaxInt64} {
		check(ms, 1)
	}
	at := int64(1_699_990_000_000)
	for range 5000 {
		at += r.Int64N(30_000)
		check(at, math.Float64frombits(r.Uint64()))
		check(-at, float64(r.IntN(1e9))/1000)
	}
}
