package engine

import (
	"fmt"
	"testing"

	"tsdbd/model/column"
)

// holed is a benchStore of which every field lacks a row in four, another one
// for each field.
func holed(b *benchStore) *benchStore {
	for _, list := range b.chunks {
		for _, c := range list {
			for f := range c.Cols {
				valid := column.NewBitmap(len(c.At))
				for i := range c.At {
					if i%4 != f%4 {
						valid.Set(i)
					}
				}
				c.Cols[f].Valid = valid
			}
		}
	}
	return b
}

// BenchmarkOperator times each operator by the stored rows that it takes in, in
// memory and decoded: 100 series of 4,320 rows. docs/bench/query.md has the
// figures.
func BenchmarkOperator(b *testing.B) {
	full := newBenchStore(100, 4320, 2, false)
	stats := newBenchStore(100, 4320, 2, true)
	holes := holed(newBenchStore(100, 4320, 2, false))
	span := fmt.Sprintf("time >= %d AND time < %d", benchStart, benchStart+4320*10e9)
	type operator struct {
		name, q string
		s       *benchStore
	}
	list := []operator{
		{"read/one", "SELECT f0 FROM cpu", full},
		{"read/by-series", "SELECT f0 FROM cpu GROUP BY host", full},
		{"filter/half", "SELECT count(f0) FROM cpu WHERE f1 > 50", full},
		{"filter/none", "SELECT count(f0) FROM cpu WHERE f1 > 99.99 OR f0 > 99.99", full},
		{"filter/by-statistics", "SELECT count(f0) FROM cpu WHERE f1 >= 0", stats},
		{"filter/expression", "SELECT count(f0) FROM cpu WHERE f0 + f1 * 2 > 150", full},
		{"filter/tag-and-field", "SELECT count(f0) FROM cpu WHERE host = 'h000001' OR f1 > 50", full},
		{"select/expression", "SELECT f0 + f1 * 2 FROM cpu GROUP BY host", full},
		{"select/function", "SELECT sqrt(f0) FROM cpu GROUP BY host", full},
	}
	for _, fn := range []string{"count(f0)", "sum(f0)", "mean(f0)", "min(f0)", "max(f0)", "first(f0)", "last(f0)", "spread(f0)", "stddev(f0)", "median(f0)", "mode(f0)", "distinct(f0)", "percentile(f0, 95)", "top(f0, 3)", "bottom(f0, 3)", "sample(f0, 3)", "integral(f0)"} {
		list = append(list,
			operator{fn + "/by-series", "SELECT " + fn + " FROM cpu WHERE " + span + " GROUP BY host", full},
			operator{fn + "/by-window", "SELECT " + fn + " FROM cpu WHERE " + span + " GROUP BY time(10m), host", full})
	}
	for _, fn := range []string{"derivative(f0)", "non_negative_difference(f0)", "cumulative_sum(f0)", "moving_average(f0, 10)", "elapsed(f0)", "exponential_moving_average(f0, 10)", "kaufmans_efficiency_ratio(f0, 10)"} {
		list = append(list, operator{fn, "SELECT " + fn + " FROM cpu GROUP BY host", full})
	}
	for _, fill := range []string{"null", "0", "previous", "linear"} {
		// One row in three windows has a value.
		list = append(list, operator{"fill/" + fill, "SELECT mean(f0) FROM cpu WHERE " + span + " GROUP BY time(3333ms), host fill(" + fill + ")", full})
	}
	list = append(list,
		operator{"window/calendar", "SELECT mean(f0) FROM cpu WHERE " + span + " GROUP BY time(31d, '1mo'), host", full},
		operator{"window/zone", "SELECT mean(f0) FROM cpu WHERE " + span + " GROUP BY time(10m), host tz('Europe/Berlin')", full},
		operator{"join/full", "SELECT f0, f1 FROM cpu GROUP BY host", full},
		operator{"join/holes", "SELECT f0, f1 FROM cpu GROUP BY host", holes},
		operator{"join/calls-holes", "SELECT mean(f0), mean(f1), mean(f0) / mean(f1) FROM cpu WHERE " + span + " GROUP BY time(10s), host fill(none)", holes},
		operator{"subquery/raw", "SELECT mean(x) FROM (SELECT f0 AS x FROM cpu)", full},
		operator{"subquery/aggregate", "SELECT max(x) FROM (SELECT mean(f0) AS x FROM cpu WHERE " + span + " GROUP BY time(1m), host) GROUP BY time(1h)", full},
		operator{"having", "SELECT x FROM (SELECT mean(f0) AS x FROM cpu WHERE " + span + " GROUP BY time(1m), host) WHERE x > 50 GROUP BY host", full},
	)
	for _, o := range list {
		b.Run(o.name, func(b *testing.B) { benchSelect(b, o.s, o.q) })
	}
}
