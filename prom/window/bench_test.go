package window

import (
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkKernels computes an hour of a series with a sample each 15 seconds: whole
// numbers, decimals, and decimals at times that are no whole seconds.
func BenchmarkKernels(b *testing.B) {
	const n = 360
	for _, data := range []struct {
		name   string
		offset int64
		scale  float64
	}{{"whole", 0, 1}, {"decimals", 0, 100}, {"jitter", 1, 100}} {
		r := rand.New(rand.NewPCG(1, 1))
		t, v, at := make([]int64, n), make([]float64, n), 0.0
		for i := range t {
			at += float64(r.IntN(2000) - 990)
			t[i] = int64(i)*15_000 + data.offset*int64(r.IntN(9))
			v[i] = math.Abs(at) / data.scale
		}
		for _, f := range []string{"sum_over_time", "avg_over_time", "stddev_over_time", "deriv", "predict_linear", "max_over_time"} {
			b.Run(f+"/"+data.name, func(b *testing.B) {
				k := newKernel(spec{Grid: Grid{Start: 1_800_000, End: 5_400_000, Step: 60_000}, Func: f, Range: 1_800_000, Param: 3600})
				dst := make([]float64, k.spec.Steps())
				for b.Loop() {
					if _, err := k.Run(dst, t, v); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(dst)), "ns/step")
			})
			b.Run(f+"/"+data.name+"/instant", func(b *testing.B) {
				k := newKernel(spec{Grid: Grid{Start: 5_400_000, End: 5_400_000, Step: 1}, Func: f, Range: 5_400_000, Param: 3600})
				dst := make([]float64, 1)
				for b.Loop() {
					if _, err := k.Run(dst, t, v); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/sample")
			})
		}
	}
}
