package match

import (
	"fmt"
	"regexp"
	"testing"

	"tsdbd/internal/keyblock"
)

// BenchmarkValues runs an expression over 100,000 sorted values, as a walk over a
// dictionary does, with the automaton and with package regexp.
func BenchmarkValues(b *testing.B) {
	values := make([][]byte, 100_000)
	shared := make([]int, len(values))
	for i := range values {
		values[i] = fmt.Appendf(nil, "host_%07d", i)
		if i > 0 {
			shared[i] = keyblock.SharedPrefix(values[i-1], values[i])
		}
	}
	for _, e := range []string{"7777", "[13]5.*9$", `^host_\d+5$`, "(?i)HOST_00[1-3]"} {
		re := regexp.MustCompile(e)
		per := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(values)), "ns/value")
		}
		b.Run(e+"/automaton", func(b *testing.B) {
			m, err := NewValues(re, NewWork(b.Context()))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for i, v := range values {
					m.Match(v, shared[i])
				}
			}
			per(b)
		})
		b.Run(e+"/regexp", func(b *testing.B) {
			for b.Loop() {
				for _, v := range values {
					re.Match(v)
				}
			}
			per(b)
		})
	}
}
