package main

import (
	"fmt"
	"testing"

	"tsdbd/store"
)

// BenchmarkScaleLimit asks for the first rows of all series of a store, five
// rows each.
func BenchmarkScaleLimit(b *testing.B) {
	for _, series := range []int{4_000, 40_000, 400_000} {
		s := openScaled(b, store.Options{})
		s.fill(series, 5*series, 1)
		for _, q := range []struct{ name, text string }{
			{"first", `SELECT v FROM m LIMIT 3`},
			{"offset", `SELECT v FROM m LIMIT 3 OFFSET 500`},
			{"last", `SELECT v FROM m ORDER BY time DESC LIMIT 3`},
			{"bounds", `SELECT v FROM m WHERE time >= 5s AND time < 1h LIMIT 3`},
			{"filter", `SELECT v FROM m WHERE v > 21 LIMIT 3`},
			{"by dc", `SELECT v FROM m GROUP BY dc LIMIT 3`},
			{"by all slimit", `SELECT v FROM m GROUP BY * LIMIT 3 SLIMIT 3`},
		} {
			b.Run(fmt.Sprintf("%s of %d", q.name, series), func(b *testing.B) {
				b.ReportAllocs()
				perUnit(b, "query", 1, func() error { return s.ask(q.text) })
			})
		}
	}
}
