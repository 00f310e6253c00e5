package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"tsdbd/store"
)

// BenchmarkSelectStored asks for 12 hours of 100 hosts with a row every ten
// seconds, as files hold them, on one core and through the executor. Rows are
// those of the columns that a query reads, together.
func BenchmarkSelectStored(b *testing.B) {
	const hosts, rows = 100, 4320
	s := openScaled(b, store.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	walks := make([]float64, hosts*12)
	for i := range walks {
		walks[i] = 100 * rng.Float64()
	}
	w := &scaleWriter{s: s}
	for i := range rows {
		for h := range hosts {
			body := fmt.Appendf(w.body, "cpu,hostname=host_%d ", h)
			for f := range 12 {
				x := &walks[h*12+f]
				*x = min(max(*x+rng.NormFloat64(), 0), 100)
				name, v := fmt.Sprintf("usage_%d", f), math.Round(*x)
				switch f {
				case 10:
					name, v = "decimal", math.Round(*x*100)/100
				case 11:
					name, v = "double", *x
				}
				if f > 0 {
					body = append(body, ',')
				}
				body = append(append(body, name...), '=')
				body = strconv.AppendFloat(body, v, 'f', -1, 64)
				if f < 5 {
					body = append(body, 'i')
				}
			}
			w.body = fmt.Appendf(body, " %d\n", i*scaleStep)
		}
		if i%50 == 49 || i == rows-1 {
			if err := w.send(); err != nil {
				b.Fatal(err)
			}
		}
	}
	s.settle()
	means := ""
	for f := range 10 {
		means += fmt.Sprintf(", mean(usage_%d)", f)
	}
	const day = " FROM cpu WHERE time >= 0 AND time < 12h"
	for _, q := range []struct {
		name, text string
		columns    int
	}{
		{"four/1m/decimal", "SELECT sum(decimal), min(decimal), max(decimal), count(decimal)" + day + " GROUP BY time(1m)", 1},
		{"four/1h/decimal", "SELECT sum(decimal), min(decimal), max(decimal), count(decimal)" + day + " GROUP BY time(1h)", 1},
		{"four/1h/double", "SELECT sum(double), min(double), max(double), count(double)" + day + " GROUP BY time(1h)", 1},
		{"four/1h/integer", "SELECT sum(usage_1), min(usage_1), max(usage_1), count(usage_1)" + day + " GROUP BY time(1h)", 1},
		{"mean/1m/decimal", "SELECT mean(decimal)" + day + " GROUP BY time(1m)", 1},
		{"mean/1h/decimal", "SELECT mean(decimal)" + day + " GROUP BY time(1h)", 1},
		{"mean/1h/double", "SELECT mean(double)" + day + " GROUP BY time(1h)", 1},
		{"mean/1h/integer", "SELECT mean(usage_1)" + day + " GROUP BY time(1h)", 1},
		{"max/1h/decimal", "SELECT max(decimal)" + day + " GROUP BY time(1h)", 1},
		{"double-groupby-all", "SELECT " + means[2:] + day + " GROUP BY time(1h), hostname", 10},
		{"mean/12h/all", "SELECT " + means[2:] + day, 10},
		{"lastpoint", "SELECT * FROM cpu GROUP BY hostname ORDER BY time DESC LIMIT 1", 12},
	} {
		b.Run(q.name, func(b *testing.B) {
			perUnit(b, "row", hosts*rows*q.columns, func() error { return s.ask(q.text) })
		})
	}
}
