package load

import (
	"bytes"
	"strings"
	"testing"
)

// TestScrape checks that the series of a target, and only these, have the same times.
func TestScrape(t *testing.T) {
	const targets, steps = 3, 50
	g, again := NewScrape(targets, 2, steps, 1_700_000_000), NewScrape(targets, 2, steps, 1_700_000_000)
	series, times, of := map[string]int{}, map[string]string{}, map[string]bool{}
	var b, c []byte
	for more := true; more; {
		b, more = g.Next(b[:0])
		if c, _ = again.Next(c[:0]); !bytes.Equal(b, c) {
			t.Fatal("the lines differ between runs")
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			series[f[0]]++
			target := strings.Split(f[0], ",")[1]
			if have := times[f[2]]; have != "" && have != target {
				t.Fatalf("%s and %s have the time %s", have, target, f[2])
			}
			times[f[2]] = target
			of[target] = true
		}
	}
	if len(series) != targets*scrapeSeries || len(times) != targets*steps || len(of) != targets || g.Points != targets*steps*scrapeSeries {
		t.Errorf("%d series, %d times of %d targets, %d points", len(series), len(times), len(of), g.Points)
	}
	for key, n := range series {
		if n != steps {
			t.Fatalf("%s has %d points", key, n)
		}
	}
}
