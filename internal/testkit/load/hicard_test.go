package load

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestHicardLines(t *testing.T) {
	const series, rounds = 1250, 3
	pattern := regexp.MustCompile(`^m,app=app-(\d+),dc=dc(\d),host=(host_\d{7}),rack=rack-\d+,region=(region-\d+),service=svc-\d+ value=(\d+\.\d\d) (\d+)\n$`)
	g := NewHicard(series, rounds)
	sums, counts := map[string]float64{}, map[string]int{}
	row := 0
	for {
		text, n := g.Next(nil, 500)
		if n == 0 {
			break
		}
		if (row+n-1)/series != row/series {
			t.Fatalf("a request of two rounds at row %d", row)
		}
		for line := range strings.Lines(string(text)) {
			round, i := row/series, row%series
			m := pattern.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("line %q", line)
			}
			v, _ := strconv.ParseFloat(m[5], 64)
			if v != g.Value(round, i) || m[6] != fmt.Sprint(HicardTime(round)) || m[3] != HicardHost(i) || m[3] != fmt.Sprintf("host_%07d", i) {
				t.Fatalf("row %d: %q", row, line)
			}
			if m[2] == "3" {
				sums[m[4]] += v
				counts[m[4]]++
			}
			row++
		}
	}
	if row != series*rounds {
		t.Fatalf("%d rows, want %d", row, series*rounds)
	}
	means := g.MeanByRegion(3)
	if len(means) != len(sums) || len(means) != 4 {
		t.Fatalf("%d regions, want %d", len(means), len(sums))
	}
	for region, want := range means {
		if got := sums[region] / float64(counts[region]); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: mean %v, want %v", region, got, want)
		}
	}
}

func TestHicardDeterministic(t *testing.T) {
	a, _ := NewHicard(100, 2).Next(nil, 100)
	b, _ := NewHicard(100, 2).Next(nil, 100)
	if !bytes.Equal(a, b) {
		t.Error("hicard workload differs between runs")
	}
}

func BenchmarkHicard(b *testing.B) {
	g := NewHicard(10_000, 1)
	var buf []byte
	for b.Loop() {
		g.row = 0
		buf, _ = g.Next(buf[:0], 10_000)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e4, "ns/row")
	b.SetBytes(int64(len(buf)))
}
