package codec

import (
	"fmt"
	"math/big"
	"strconv"
	"testing"
)

// TestChoice shows what a flush and the merge of a shard at rest write for 1,000
// values of each kind of data, and how many bytes that takes.
func TestChoice(t *testing.T) {
	const n = 1000
	rng := seeded(12)
	whole := func(at func(i int) int64) []int64 {
		v := make([]int64, n)
		for i := range v {
			v[i] = at(i)
		}
		return v
	}
	double := func(at func(i int) float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = at(i)
		}
		return v
	}
	sum := func(step func(i int) int64) func(int) int64 {
		x := int64(1e9)
		return func(i int) int64 { x += step(i); return x }
	}
	wander := func(most int64) func(int) int64 {
		return sum(func(int) int64 { return rng.Int64N(2*most+1) - most })
	}
	words := []string{"ok", "warning", "critical"}
	for _, c := range []struct {
		data        string
		values      any
		flush, rest string
	}{
		{"times, regular", grid(n, func(i int) int64 { return int64(i) * 10e9 }), "linear 8", "linear 8"},
		{"times, 1 in 100 missing", whole(sum(func(int) int64 { return 10e9 * (1 + rng.Int64N(100)/99) })), "packed delta 37", "packed delta 37"},
		{"times, jitter of 20 ms", grid(n, func(i int) int64 { return int64(i)*10e9 + rng.Int64N(20)*1e6 }), "simple8b trend 684", "packed trend 645"},
		{"times, jitter of 250 us in ns", grid(n, func(i int) int64 { return int64(i)*10e9 + rng.Int64N(250e3) }), "packed trend 2392", "packed trend 2392"},
		{"times, clock that drifts", drifting(rng, n, epoch, 10e9, 128), "packed delta-of-delta 1017", "packed delta-of-delta 1017"},
		{"integer, constant", whole(func(int) int64 { return 16 << 30 }), "const 7", "const 7"},
		{"integer, 5 changes", whole(func(i int) int64 { return int64(i/200) * 17 }), "runs 10", "runs 10"},
		{"integer, gauge of small steps", whole(wander(2)), "simple8b delta 417", "packed delta 384"},
		{"integer, pages of memory", whole(sum(func(int) int64 { return 4096 * (rng.Int64N(1800) - 900) })), "packed delta 1388", "packed delta 1388"},
		{"integer, counter of packets", whole(sum(func(int) int64 { return 300 + rng.Int64N(40) })), "simple8b delta 794", "packed delta 760"},
		{"integer, counter of bytes", whole(sum(func(int) int64 { return 1e6 + rng.Int64N(5e5) })), "packed delta 2384", "packed delta 2384"},
		{"integer, counter that is mostly idle", whole(sum(func(int) int64 { return max(rng.Int64N(20)-18, 0) * rng.Int64N(3000) })), "runs 116", "runs 116"},
		{"integer, counter whose rate drifts", drifting(rng, n, 1e9, 5000, 3), "simple8b delta-of-delta 419", "packed delta-of-delta 386"},
		{"integer, accelerating", whole(func(i int) int64 { return 3 * int64(i) * int64(i) }), "packed delta-of-delta 6", "packed delta-of-delta 6"},
		{"integer, random", whole(func(int) int64 { return int64(rng.Uint64()) }), "raw 8001", "raw 8001"},
		{"double, 2 decimals", double(func(int) float64 { return float64(rng.Int64N(10000)) / 100 }), "alp packed 1756", "alp packed 1756"},
		{"double, 1 decimal, repeats after 32", double(func(i int) float64 { return float64(i*i%32) / 10 }), "alp packed 631", "alp packed 631"},
		{"double, slow, 1 decimal", tenth(whole(wander(1))), "alp packed delta 261", "alp packed delta 261"},
		{"double, percent of 1,000 ticks", double(func(int) float64 { return 100 * float64(rng.Int64N(60)+900) / float64(rng.Int64N(5)+997) }), "gorilla 6690", "quotient 1144"},
		{"double, four values of 17 digits", double(func(int) float64 { return float64(1+rng.Int64N(4)) / 3 }), "gorilla 5270", "quotient 394"},
		{"double, 17 digits, mostly the same", double(func(i int) float64 { return float64(1000+i/3) / 7 }), "gorilla 2285", "gorilla 2285"},
		{"double, was a 32-bit float", double(func(int) float64 { return float64(float32(1e6+rng.Int64N(1e6)) / 7e6) }), "packed 2892", "packed 2892"},
		{"double, random", double(func(int) float64 { return (float64(rng.Int64N(1<<40)) - 1<<39) / 977 }), "raw 8001", "alp-rd 7241"},
		{"string, states", texts(n, func(int) string { return words[rng.IntN(3)] }), "dict raw 284", "dict raw 284"},
		{"string, log lines", texts(n, func(i int) string { return "GET /items/" + strconv.Itoa(rng.IntN(1e6)) + " 200" }), "snappy 7768", "snappy 7768"},
		{"string, ids", texts(n, func(int) string { return fmt.Sprintf("%016x", rng.Uint64()) }), "raw 16004", "raw 16004"},
		{"double, sum of 6 of 2 decimals", double(func(int) float64 {
			sum := new(big.Float).SetPrec(100)
			for range 6 {
				sum.Add(sum, big.NewFloat(float64(rng.Int64N(10000))/100))
			}
			f, _ := sum.Float64()
			return f
		}), "alp packed 2914", "alp packed 2914"},
	} {
		var block []byte
		kind := Integers
		switch v := c.values.(type) {
		case []int64:
			block = AppendIntegers(nil, v)
		case []float64:
			block, kind = AppendFloats(nil, v), Floats
		case []string:
			block, kind = AppendStrings(nil, v), Strings
		}
		if got := fmt.Sprint(EncodingName(block, n, kind), " ", len(block)); got != c.flush {
			t.Errorf("%s: a flush writes %s, want %s", c.data, got, c.flush)
		}
		if dense, ok, err := AppendDense(nil, block, n, kind); err != nil {
			t.Error(err)
		} else if ok {
			block = dense
		}
		if got := fmt.Sprint(EncodingName(block, n, kind), " ", len(block)); got != c.rest {
			t.Errorf("%s: at rest it is %s, want %s", c.data, got, c.rest)
		}
	}
}
