package server

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

// BenchmarkScaleShow asks for the catalog of 100 series in so many shards.
func BenchmarkScaleShow(b *testing.B) {
	for _, shards := range []int{10, 100, 1000} {
		s := openScaled(b, store.Options{FlushBytes: 1 << 30})
		s.fill(100, 100*shards, shards)
		for _, q := range []struct{ name, text string }{
			{"measurements", `SHOW MEASUREMENTS`},
			{"field keys", `SHOW FIELD KEYS`},
			{"tag keys", `SHOW TAG KEYS`},
			{"tag values", `SHOW TAG VALUES WITH KEY = host`},
			{"tag values where", `SHOW TAG VALUES WITH KEY = host WHERE dc = 'dc1'`},
			{"series limit", `SHOW SERIES LIMIT 10`},
			{"series where", `SHOW SERIES WHERE host = 'h1000077'`},
			{"limit", `SELECT v FROM m LIMIT 3`},
		} {
			b.Run(fmt.Sprintf("%s of %d", q.name, shards), func(b *testing.B) {
				b.ReportAllocs()
				perUnit(b, "query", 1, func() error { return s.ask(q.text) })
			})
		}
	}
}

// BenchmarkScaleDrop drops one series of 1,000 in so many shards.
func BenchmarkScaleDrop(b *testing.B) {
	for _, shards := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("one of %d", shards), func(b *testing.B) {
			s := openScaled(b, store.Options{FlushBytes: 1 << 30})
			s.fill(1000, 1000*shards, shards)
			n := 0
			perUnit(b, "statement", 1, func() error {
				n++
				_, err := s.run(fmt.Sprintf(`DROP SERIES FROM m WHERE host = 'h%d'`, 1_000_000+n%1000))
				return err
			})
		})
	}
}
