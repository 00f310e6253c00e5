package codec

import (
	"slices"
	"testing"
)

// ratioGoals are bytes per value of blocks of 1000, from the project's goals.
var ratioGoals = map[string]float64{
	"regular": .02, "1% missing": .12, "ms jitter": .80, "ns jitter": 2.4, "poisson ns": 4.2, "drifting clock": 1.03,
	"int drifting rate": .42, "dense int drifting rate": .39, "int accelerating": .02, "drifting 2 dec": .41,
	"int const": .012, "int gauge 0-100": .42, "int counter": 1.65, "int mem 4 KiB": 1.39, "int spiky": .603, "int sparse 5%": .16, "int random64": 8.01,
	"const": .012, "int walk": .40, "gauge 2 dec": 1.30, "gauge 1 dec slow": .40, "gauge 6 dec": 2.89, "counter": 1.65,
	"sparse 5%": .16, "float32 walk": 3.3, "thirds of 4": 5.4, "percent 17 dig": 7.05, "walk 17 dig": 6.8, "random mantissa": 8.01,
	"dense percent 17 dig": 1.9, "dense thirds of 4": .38, "dense percent of clocks": 3.5, "dense walk 17 dig": 6.75, "dense random mantissa": 7.40,
	"dense int gauge 0-100": .302, "dense int walk": .304, "dense gauge 1 dec slow": .306, "dense int geometric": .465,
	"dense float32 walk": 2.62, "int bursts": 1.2, "status": .42, "version runs": .10, "access log": 26.5, "random hex": 32.1,
}

func bytesPerValue[T any](make func(seed uint64) []T, enc func([]byte, []T) []byte) (perValue float64, name string) {
	const blocks, n = 16, 1000
	size := 0
	for b := range uint64(blocks) {
		block := enc(nil, make(b))
		size, name = size+len(block), formOf(block).name
	}
	return float64(size) / (blocks * n), name
}

// dense is an encoder that goes on to the dense form where there is one.
func dense[T any](enc func([]byte, []T) []byte) func([]byte, []T) []byte {
	return func(dst []byte, v []T) []byte {
		block := enc(nil, v)
		if out, ok, err := AppendDense(dst, block, len(v), kindOf[T]()); ok && err == nil {
			return out
		}
		return append(dst, block...)
	}
}

func TestRatio(t *testing.T) {
	check := func(set string, got float64, name string) {
		t.Logf("%-18s %-9s %7.4f B/value, goal %v", set, name, got, ratioGoals[set])
		if goal, ok := ratioGoals[set]; ok && got > goal {
			t.Errorf("%s: %.4f B/value, goal %v", set, got, goal)
		}
	}
	for _, set := range timeSets {
		got, name := bytesPerValue(func(b uint64) []int64 { return set.make(seeded(b), 1000) }, AppendTimes)
		check(set.name, got, name)
	}
	for _, set := range intSets {
		got, name := bytesPerValue(func(b uint64) []int64 { return set.make(seeded(b), 1000) }, AppendIntegers)
		check("int "+set.name, got, name)
	}
	for _, set := range floatSets {
		got, name := bytesPerValue(func(b uint64) []float64 { return set.make(seeded(b), 1000) }, AppendFloats)
		check(set.name, got, name)
	}
	for _, set := range stringSets {
		got, name := bytesPerValue(func(b uint64) []string { return set.make(seeded(b), 1000) }, AppendStrings)
		check(set.name, got, name)
	}
	for _, set := range intSets {
		got, name := bytesPerValue(func(b uint64) []int64 { return set.make(seeded(b), 1000) }, dense(AppendIntegers))
		check("dense int "+set.name, got, name)
	}
	for _, set := range floatSets {
		got, name := bytesPerValue(func(b uint64) []float64 { return set.make(seeded(b), 1000) }, dense(AppendFloats))
		check("dense "+set.name, got, name)
	}
	for _, set := range timeSets {
		got, name := bytesPerValue(func(b uint64) []int64 { return set.make(seeded(b), 1000) }, dense(AppendTimes))
		check("dense "+set.name, got, name)
	}
	rare := func(b uint64) []bool {
		rng, v := seeded(b), make([]bool, 1000)
		for i := range v {
			v[i] = rng.IntN(50) == 0
		}
		return v
	}
	got, name := bytesPerValue(rare, AppendBooleans)
	check("booleans 2%", got, name)
	if b := AppendIntegers(nil, slices.Repeat([]int64{7}, 1000)); len(b) > 2 {
		t.Errorf("constant: %d bytes", len(b))
	}
}
