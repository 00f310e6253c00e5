package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Data sets of n values, the same in every run. block tells blocks of one
// series apart.

type intSet struct {
	name string
	make func(rng *rand.Rand, n int) []int64
}

type floatSet struct {
	name string
	make func(rng *rand.Rand, n int) []float64
}

const epoch = int64(1_700_000_000_000_000_000)

func walk(rng *rand.Rand, n int, start, step, lo, hi float64) []float64 {
	v := make([]float64, n)
	x := start
	for i := range v {
		x = min(max(x+rng.NormFloat64()*step, lo), hi)
		v[i] = x
	}
	return v
}

// steps is a walk with uniform steps up to most.
func steps(rng *rand.Rand, n int, start, most float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		start += (2*rng.Float64() - 1) * most
		v[i] = start
	}
	return v
}

func round(v []float64, decimals int) []float64 {
	p := math.Pow10(decimals)
	for i := range v {
		v[i] = math.Round(v[i]*p) / p
	}
	return v
}

func ints(v []float64) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(math.Round(x))
	}
	return out
}

var timeSets = []intSet{
	{"regular", func(rng *rand.Rand, n int) []int64 { return grid(n, func(i int) int64 { return int64(i) * 10e9 }) }},
	{"1% missing", func(rng *rand.Rand, n int) []int64 {
		at := int64(-1)
		return grid(n, func(i int) int64 {
			for at++; rng.IntN(100) == 0; at++ {
			}
			return at * 10e9
		})
	}},
	{"ms jitter", func(rng *rand.Rand, n int) []int64 {
		return grid(n, func(i int) int64 { return (int64(i)*10000 + rng.Int64N(24)) * 1e6 })
	}},
	{"ns jitter", func(rng *rand.Rand, n int) []int64 {
		return grid(n, func(i int) int64 { return int64(i)*10e9 + rng.Int64N(250e3) })
	}},
	{"poisson ns", func(rng *rand.Rand, n int) []int64 {
		at := int64(0)
		return grid(n, func(i int) int64 { at += int64(rng.ExpFloat64() * 1e9); return at })
	}},
	{"drifting clock", func(rng *rand.Rand, n int) []int64 {
		return drifting(rng, n, epoch, 10e9, 128)
	}},
}

// drifting is a counter whose rate changes by less than most at each value.
func drifting(rng *rand.Rand, n int, start, rate, most int64) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = start
		rate += rng.Int64N(2*most) - most
		start += rate
	}
	return v
}

func grid(n int, at func(i int) int64) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = epoch + at(i)
	}
	return v
}

var intSets = []intSet{
	{"const", func(rng *rand.Rand, n int) []int64 { return grid(n, func(int) int64 { return 0 }) }},
	{"gauge 0-100", func(rng *rand.Rand, n int) []int64 { return ints(walk(rng, n, 50, 1, 0, 100)) }},
	{"counter", func(rng *rand.Rand, n int) []int64 {
		x := int64(1e9)
		return grid(n, func(int) int64 { x += rng.Int64N(6000); return x - epoch })
	}},
	{"mem 4 KiB", func(rng *rand.Rand, n int) []int64 {
		x := int64(3e9) / 4096
		return grid(n, func(int) int64 { x += rng.Int64N(1800) - 900; return x*4096 - epoch })
	}},
	{"spiky", func(rng *rand.Rand, n int) []int64 {
		return grid(n, func(int) int64 {
			if rng.IntN(100) == 0 {
				return 1e9 + rng.Int64N(1e9) - epoch
			}
			return 100 + rng.Int64N(10) - epoch
		})
	}},
	{"sparse 5%", func(rng *rand.Rand, n int) []int64 {
		x := int64(5)
		return grid(n, func(int) int64 {
			if rng.IntN(20) == 0 {
				x = rng.Int64N(1000)
			}
			return x - epoch
		})
	}},
	{"geometric", func(rng *rand.Rand, n int) []int64 {
		return grid(n, func(int) int64 { return int64(rng.ExpFloat64()*rng.ExpFloat64()*3) - epoch })
	}},
	{"bursts", func(rng *rand.Rand, n int) []int64 {
		return grid(n, func(i int) int64 { return rng.Int64N(1<<(i/50%4*5)) - epoch })
	}},
	{"drifting rate", func(rng *rand.Rand, n int) []int64 { return drifting(rng, n, 1e9, 5000, 3) }},
	{"accelerating", func(_ *rand.Rand, n int) []int64 {
		return grid(n, func(i int) int64 { return 3*int64(i)*int64(i) - epoch })
	}},
	{"drifting, resets", func(rng *rand.Rand, n int) []int64 {
		v := drifting(rng, n, 1e9, 5000, 3)
		for i := 300; i < n; i += 300 {
			for j := range v[i:] {
				v[i+j] += 1e12
			}
		}
		return v
	}},
	{"random64", func(rng *rand.Rand, n int) []int64 { return grid(n, func(int) int64 { return int64(rng.Uint64()) }) }},
}

var floatSets = []floatSet{
	{"const", func(rng *rand.Rand, n int) []float64 { return walk(rng, n, 1.0/3, 0, 0, 1) }},
	{"int walk", func(rng *rand.Rand, n int) []float64 { return round(walk(rng, n, 50, 1, 0, 100), 0) }},
	{"gauge 2 dec", func(rng *rand.Rand, n int) []float64 { return round(steps(rng, n, 50, 5), 2) }},
	{"gauge 1 dec slow", func(rng *rand.Rand, n int) []float64 { return round(walk(rng, n, 20, .1, 0, 100), 1) }},
	{"gauge 6 dec", func(rng *rand.Rand, n int) []float64 { return round(walk(rng, n, 2, 1, 0, 4), 6) }},
	{"counter", func(rng *rand.Rand, n int) []float64 {
		x := 1e9
		v := make([]float64, n)
		for i := range v {
			x += float64(rng.Int64N(6000))
			v[i] = x
		}
		return v
	}},
	{"drifting 2 dec", func(rng *rand.Rand, n int) []float64 {
		v := make([]float64, n)
		for i, x := range drifting(rng, n, 1e6, 700, 3) {
			v[i] = float64(x) / 100
		}
		return v
	}},
	{"sparse 5%", func(rng *rand.Rand, n int) []float64 {
		x := 1.5
		v := make([]float64, n)
		for i := range v {
			if rng.IntN(20) == 0 {
				x = math.Round(rng.Float64()*1e4) / 100
			}
			v[i] = x
		}
		return v
	}},
	{"float32 walk", func(rng *rand.Rand, n int) []float64 {
		v := walk(rng, n, 20, .3, -50, 50)
		for i, x := range v {
			v[i] = float64(float32(x))
		}
		return v
	}},
	{"thirds of 4", func(rng *rand.Rand, n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(1+rng.IntN(4)) / 3
		}
		return v
	}},
	{"percent 17 dig", func(rng *rand.Rand, n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = 100 * float64(rng.IntN(400)+3000) / float64(rng.IntN(40)+3990)
		}
		return v
	}},
	{"percent of clocks", func(rng *rand.Rand, n int) []float64 {
		// The clocks count hundredths of a second since a boot ten days ago.
		v := make([]float64, n)
		busy, all := int64(864e5/4), int64(864e5)
		for i := range v {
			busyWas, allWas := float64(busy)/100, float64(all)/100
			busy, all = busy+300+rng.Int64N(60), all+998+rng.Int64N(5)
			v[i] = 100 * (float64(busy)/100 - busyWas) / (float64(all)/100 - allWas)
		}
		return v
	}},
	{"walk 17 dig", func(rng *rand.Rand, n int) []float64 { return walk(rng, n, 100, 1, 0, 1000) }},
	{"random mantissa", func(rng *rand.Rand, n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64() * 1e3
		}
		return v
	}},
}

var stringSets = []struct {
	name string
	make func(rng *rand.Rand, n int) []string
}{
	{"status", func(rng *rand.Rand, n int) []string {
		return texts(n, func(int) string {
			return []string{"ok", "warning", "critical", "unknown", "maintenance"}[min(4, int(rng.ExpFloat64()))]
		})
	}},
	{"version runs", func(rng *rand.Rand, n int) []string {
		return texts(n, func(i int) string { return fmt.Sprintf("1.%d.%d-linux-amd64", i/300, i/100) })
	}},
	{"access log", func(rng *rand.Rand, n int) []string {
		return texts(n, func(i int) string {
			return fmt.Sprintf("10.0.%d.%d - - GET /api/v1/items/%d HTTP/1.1 200 %d curl/8.5.0", rng.IntN(4), rng.IntN(250), rng.IntN(100000), rng.IntN(9000))
		})
	}},
	{"random hex", func(rng *rand.Rand, n int) []string {
		return texts(n, func(int) string { return fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()) })
	}},
}

func texts(n int, at func(i int) string) []string {
	v := make([]string, n)
	for i := range v {
		v[i] = at(i)
	}
	return v
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// appendFloatDict appends a dictionary of doubles, as earlier builds wrote it.
func appendFloatDict(dst []byte, v []float64) []byte {
	var distinct []float64
	ids := make([]uint64, len(v))
	for i, x := range v {
		at := slices.IndexFunc(distinct, func(y float64) bool { return sameBits(x, y) })
		if at < 0 {
			at, distinct = len(distinct), append(distinct, x)
		}
		ids[i] = uint64(at)
	}
	block := appendPlainWords(nil, ids, smallest)
	dst = binary.AppendUvarint(append(dst, encDict), uint64(len(distinct)))
	dst = append(binary.AppendUvarint(dst, uint64(len(block))), block...)
	for _, x := range words(distinct) {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	return dst
}
