package quantiles

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/store"

	"tsdbd/internal/testkit/testseed"
)

// values returns n values of a random kind.
func values(rnd *rand.Rand, n int) []float64 {
	edges := []float64{0, math.Copysign(0, -1), 1e-310, -1e-310, smallest, -smallest, 1e308, -1e308, 1, -1, math.MaxInt64, 1.01, 0.99}
	kind := rnd.IntN(4)
	out := make([]float64, n)
	for i := range out {
		switch kind {
		case 0:
			out[i] = float64(rnd.IntN(100))
		case 1:
			out[i] = math.Exp(rnd.NormFloat64() * 3)
		case 2:
			out[i] = rnd.NormFloat64() * 1000
		case 3:
			out[i] = edges[rnd.IntN(len(edges))]
		}
	}
	return out
}

// sketchOf returns a sketch of parts of the values, which are merged and pass through texts.
func sketchOf(t *testing.T, rnd *rand.Rand, all []float64) *Sketch {
	t.Helper()
	out := &Sketch{}
	for len(all) > 0 {
		n := 1 + rnd.IntN(len(all))
		part := &Sketch{}
		for _, v := range all[:n] {
			part.Add(v)
		}
		all = all[n:]
		switch rnd.IntN(3) {
		case 0:
			for _, v := range all {
				out.Add(v)
			}
			all = nil
		case 1:
			read, err := Parse(part.Text())
			if err != nil {
				t.Fatal(err)
			}
			part = read
		}
		out.Merge(part)
	}
	return out
}

// TestRanks holds estimates of all ranks against sorted values, and the text of a sketch
// against that of the same values in another order and in other parts. The library reads the
// same bins from it as it makes itself.
func TestRanks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 12))
	for range 300 {
		all := values(rnd, 1+rnd.IntN(1<<rnd.IntN(13)))
		s := sketchOf(t, rnd, all)
		theirs := ddsketch.NewDDSketchFromStoreProvider(logarithmic, store.SparseStoreConstructor)
		for _, v := range all {
			if err := theirs.Add(v); err != nil {
				t.Fatal(err)
			}
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if a, b := s.Text(), sketchOf(t, rnd, all).Text(); a != b {
			t.Fatalf("two texts of the same %d values: %s %s", len(all), a, b)
		}
		slices.Sort(all)
		if s.Count() != uint64(len(all)) {
			t.Fatalf("%d values of %d", s.Count(), len(all))
		}
		for rank, want := range all {
			got := s.At(uint64(rank))
			if off := math.Abs(got - want); off > Error*math.Abs(want)*(1+1e-9) && off > smallest {
				t.Fatalf("rank %d of %d: %v, want %v", rank, len(all), got, want)
			}
		}
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Text(), prefix))
		if err != nil {
			t.Fatal(err)
		}
		read, err := ddsketch.DecodeDDSketch(b[1:], store.SparseStoreConstructor, logarithmic)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := binsOf(read), binsOf(theirs); a != b {
			t.Fatalf("the library reads %s, and makes %s", a, b)
		}
	}
}

// binsOf lists the bins of a sketch of the library.
func binsOf(s *ddsketch.DDSketch) string {
	var out []string
	s.ForEach(func(v, n float64) bool {
		out = append(out, fmt.Sprint(v, " ", n))
		return false
	})
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestEdges: what has no bin counts as 0 or as the largest value, what is no number does not count.
func TestEdges(t *testing.T) {
	s := &Sketch{}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64} {
		s.Add(v)
	}
	if s.Count() != 4 || s.At(1) != 0 || s.At(3) != s.At(2) || s.At(0) != -s.At(3) || s.At(3) < 1e308 {
		t.Errorf("%d values: %v %v %v %v", s.Count(), s.At(0), s.At(1), s.At(2), s.At(3))
	}
}

// TestGolden holds the texts: sketches that were stored have them.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{[]float64{1, 2, 3}, "DDS_AQkDAEQo"},
		{[]float64{1, 1, 2}, "DDS_AQUCAANEAg=="},
		{[]float64{-1.5, 0, 0, 250}, "DDS_AQsBKAQDCQGoBA=="},
	} {
		s := &Sketch{}
		for _, v := range c.values {
			s.Add(v)
		}
		if got := s.Text(); got != c.want {
			t.Errorf("%v: %s, want %s", c.values, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	text := func(b ...byte) string { return prefix + base64.StdEncoding.EncodeToString(b) }
	for name, s := range map[string]string{
		"nothing":             "",
		"no prefix":           "HLL_AQkDAEQo",
		"no version":          prefix,
		"another version":     text(2, 9, 1, 0),
		"no values":           text(1),
		"no base64":           prefix + "A!",
		"a block of nothing":  text(1, 9, 0),
		"bins that are short": text(1, 9, 200, 1, 0),
		"the same bin twice":  text(1, 9, 2, 0, 0),
		"a count of 0":        text(1, 5, 1, 0, 0),
		"zeros after values":  text(1, 9, 1, 0, 4, 2),
		"blocks that repeat":  text(1, 9, 1, 0, 9, 1, 0),
		"an unknown block":    text(1, 13, 1, 0, 2, 2),
		"a bin out of range":  text(1, 9, 1, 0xfe, 0xff, 0xff, 0x0f),
		"half a varint":       text(1, 9, 1, 0x80),
	} {
		if _, err := Parse(s); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range [][]float64{{1, 2, 3}, {-1, 0, 1, 1}, {1e300, -1e-300}} {
		s := &Sketch{}
		for _, x := range v {
			s.Add(x)
		}
		f.Add(s.Text())
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if s.Bytes() > 64*int64(len(text))+1024 {
			t.Errorf("%d bytes of a text of %d", s.Bytes(), len(text))
		}
		if last := s.At(s.Count() - 1); last < s.At(0) || last != last {
			t.Errorf("values from %v to %v", s.At(0), last)
		}
		again, err := Parse(s.Text())
		if err != nil || !slices.Equal(again.bins, s.bins) {
			t.Errorf("%q: %v behind %v, %v", text, again, s, err)
		}
		twice := &Sketch{}
		twice.Merge(s)
		if twice.Merge(again); twice.Count() != 2*s.Count() {
			t.Errorf("%d values and as many are %d", s.Count(), twice.Count())
		}
	})
}

// latencies are n values of a few decades, in milliseconds.
func latencies(n int) []float64 {
	rnd := rand.New(rand.NewPCG(1, 2))
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Round(20*math.Exp(rnd.NormFloat64())*1e3) / 1e3
	}
	return out
}

// BenchmarkSketch times a sketch of a window by the number of its values, its text, and
// what it costs to put a stored one to others.
func BenchmarkSketch(b *testing.B) {
	for _, n := range []int{6, 60, 3600} {
		all := latencies(n)
		s := &Sketch{}
		for _, v := range all {
			s.Add(v)
		}
		text := s.Text()
		b.Run(fmt.Sprintf("add/%d", n), func(b *testing.B) {
			for b.Loop() {
				s := &Sketch{}
				for _, v := range all {
					s.Add(v)
				}
				s.settle()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/value")
		})
		b.Run(fmt.Sprintf("text/%d", n), func(b *testing.B) {
			for b.Loop() {
				s.Text()
			}
			b.ReportMetric(float64(len(text)), "bytes")
		})
		b.Run(fmt.Sprintf("merge/%d", n), func(b *testing.B) {
			sum := &Sketch{}
			for b.Loop() {
				o, err := Parse(text)
				if err != nil {
					b.Fatal(err)
				}
				sum.Merge(o)
			}
			b.ReportMetric(float64(s.Bytes()), "held")
		})
	}
}

// TestCountsOverflow doubles a sketch until 64 bits would not hold its counts.
func TestCountsOverflow(t *testing.T) {
	var s Sketch
	s.Add(1)
	s.Add(100)
	for range 70 {
		o := Sketch{bins: slices.Clone(s.bins)}
		s.Merge(&o)
	}
	if n := s.Count(); n != 2*most {
		t.Errorf("%d values, want %d", n, uint64(2*most))
	}
	if v := s.At(0); math.Abs(v-1) > Error {
		t.Errorf("the least value is %v", v)
	}
}
