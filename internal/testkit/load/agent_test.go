package load

import (
	"bytes"
	"strings"
	"testing"
)

// TestAgent counts what an hour of two hosts consists of.
func TestAgent(t *testing.T) {
	g, again := NewAgent(2, 360, 1_700_000_000), NewAgent(2, 360, 1_700_000_000)
	points, series := map[string]int64{}, map[string]bool{}
	var b, c []byte
	for more := true; more; {
		b, more = g.Next(b[:0])
		if c, _ = again.Next(c[:0]); !bytes.Equal(b, c) {
			t.Fatal("the lines differ between runs")
		}
		for line := range strings.Lines(string(b)) {
			f := strings.SplitN(line, " ", 2)
			series[f[0]] = true
			if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "%!") {
				t.Fatal(line)
			}
			if !strings.HasPrefix(f[1], "uptime") { // of the point of the line before
				points[strings.SplitN(line, ",", 2)[0]]++
			}
		}
	}
	intervals := points["kernel"]
	if intervals < 700 || intervals >= 720 {
		t.Errorf("%d intervals of 720, want few missed", intervals)
	}
	sum := int64(0)
	for name, each := range map[string]int64{"cpu": 3, "mem": 1, "disk": 2, "diskio": 2, "net": 2, "system": 1, "processes": 1, "kernel": 1} {
		if points[name] != each*intervals {
			t.Errorf("%s: %d points in %d intervals, want %d each", name, points[name], intervals, each)
		}
		sum += points[name]
	}
	if sum != g.Points || len(series) != 2*13 || len(points) != 8 {
		t.Errorf("%d points, told %d; %d series of %d measurements", sum, g.Points, len(series), len(points))
	}
}
