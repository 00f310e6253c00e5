package encode

import (
	"io"
	"math/rand/v2"
	"testing"

	"tsdbd/query/result"
)

func BenchmarkJSON(b *testing.B) {
	const rows = 10_000
	times, two, full := make([]int64, rows), make([]float64, rows), make([]float64, rows)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		times[i] = 1500000000e9 + int64(i)*10e9
		two[i] = float64(r.Int64N(1e5)) / 100
		full[i] = r.Float64() * 100
	}
	for _, c := range []struct {
		name string
		unit int64
		v    []float64
	}{{"rfc3339/2-decimals", 0, two}, {"rfc3339/17-digits", 0, full}, {"epoch-ns/2-decimals", 1, two}, {"epoch-ms/2-decimals", 1e6, two}} {
		b.Run(c.name, func(b *testing.B) {
			res := &result.Result{Series: []*result.Series{table("m", nil, []string{"time", "mean"}, 0, ints(times...), floats(c.v...))}}
			out := &Output{w: io.Discard, buf: make([]byte, 0, 2<<20)}
			enc := newJSONEncoder(out, c.unit, true)
			b.ReportAllocs()
			n := int64(0)
			for b.Loop() {
				if err := enc.Result(res); err != nil {
					b.Fatal(err)
				}
				n += int64(len(out.buf))
				if err := out.Flush(); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(n / int64(b.N))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}

// BenchmarkMsgpack renders rows of a time, a float, an integer and a text.
func BenchmarkMsgpack(b *testing.B) {
	const rows = 10_000
	times, floating, whole, text := make([]int64, rows), make([]float64, rows), make([]int64, rows), make([]string, rows)
	for i := range rows {
		times[i], floating[i], whole[i], text[i] = 1500000000e9+int64(i)*10e9, float64(i)/8, int64(i*i*i), "some text"
	}
	res := &result.Result{Series: []*result.Series{table("m", nil, []string{"time", "f", "i", "s"}, 0, ints(times...), floats(floating...), ints(whole...), texts(text...))}}
	out := &Output{w: io.Discard, limit: maxDocument, buf: make([]byte, 0, 2<<20)}
	b.ReportAllocs()
	for b.Loop() {
		enc := New(out, Format{Media: MediaMsgpack})
		if err := enc.Result(res); err != nil {
			b.Fatal(err)
		}
		if err := enc.Finish(); err != nil {
			b.Fatal(err)
		}
		out.buf = out.buf[:0]
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
