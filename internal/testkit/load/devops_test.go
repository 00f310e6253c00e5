package load

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// parseDevops splits a line into tags, values and time.
func parseDevops(t *testing.T, line string) (tags map[string]string, fields map[string]int64, ns int64) {
	t.Helper()
	parts := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if len(parts) != 3 {
		t.Fatalf("line %q has %d parts", line, len(parts))
	}
	tags, fields = map[string]string{}, map[string]int64{}
	for i, kv := range strings.Split(parts[0], ",") {
		k, v, ok := strings.Cut(kv, "=")
		if i == 0 {
			if kv != DevopsMeasurement {
				t.Fatalf("measurement %q", kv)
			}
			continue
		}
		if !ok || v == "" {
			t.Fatalf("tag %q in %q", kv, line)
		}
		tags[k] = v
	}
	for _, kv := range strings.Split(parts[1], ",") {
		k, v, _ := strings.Cut(kv, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(v, "i"), 10, 64)
		if err != nil || !strings.HasSuffix(v, "i") {
			t.Fatalf("field %q in %q", kv, line)
		}
		fields[k] = n
	}
	ns, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return tags, fields, ns
}

// TestDevopsLines reads the lines back and holds them against what the
// generator says it made.
func TestDevopsLines(t *testing.T) {
	const hosts, steps = 7, 50
	g := NewDevops(hosts, steps)
	var text []byte
	for {
		var n int
		if text, n = g.Next(text, 33); n == 0 {
			break
		}
	}
	row := 0
	for line := range strings.Lines(string(text)) {
		host, step := row%hosts, row/hosts
		tags, fields, ns := parseDevops(t, line)
		if len(tags) != len(DevopsTags) || len(fields) != len(DevopsFields) {
			t.Fatalf("%d tags, %d fields in %q", len(tags), len(fields), line)
		}
		if want := fmt.Sprintf("host_%d", host); tags["hostname"] != want {
			t.Fatalf("row %d is of %s, want %s", row, tags["hostname"], want)
		}
		for k, v := range tags {
			if w, ok := g.Tag(host, k); !ok || w != v {
				t.Fatalf("row %d: tag %s is %s, want %s", row, k, v, w)
			}
		}
		for f, name := range DevopsFields {
			if fields[name] != g.Value(host, step, f) || fields[name] < 0 || fields[name] > 100 {
				t.Fatalf("row %d: %s is %d, want %d", row, name, fields[name], g.Value(host, step, f))
			}
		}
		if ns != DevopsTime(step) {
			t.Fatalf("row %d: time %d, want %d", row, ns, DevopsTime(step))
		}
		row++
	}
	if row != hosts*steps {
		t.Fatalf("%d rows, want %d", row, hosts*steps)
	}
}

func TestDevopsDeterministic(t *testing.T) {
	a, _ := NewDevops(5, 20).Next(nil, 50)
	b, _ := NewDevops(5, 40).Next(nil, 50)
	if !bytes.Equal(a, b) {
		t.Error("a longer workload begins with other rows")
	}
}

// TestDevopsWalk looks whether neighbours of a walk differ like normal steps.
func TestDevopsWalk(t *testing.T) {
	g := NewDevops(10, 3000)
	n, squares, far := 0, 0.0, 0
	for h := range 10 {
		for f := range DevopsFields {
			for s := 1; s < g.Steps(); s++ {
				d := g.Value(h, s, f) - g.Value(h, s-1, f)
				squares += float64(d * d)
				n++
				if d > 7 || d < -7 {
					far++
				}
			}
		}
	}
	// 1 of the walk and 1/6 of rounding, less where it is clamped.
	if v := squares / float64(n); v < 0.9 || v > 1.2 || far > 0 {
		t.Errorf("variance of steps %.3f, %d far ones", v, far)
	}
}

func TestDevopsBetween(t *testing.T) {
	g := NewDevops(1, 10)
	at := DevopsTime
	for _, tt := range []struct {
		from, to    int64
		first, last int
	}{
		{0, at(100), 0, 10},
		{at(0), at(1), 0, 1},
		{at(0) + 1, at(1) + 1, 1, 2},
		{at(3), at(3), 3, 3},
		{at(3) + 1, at(4), 4, 4},
		{at(9), at(10), 9, 10},
		{at(11), at(12), 10, 10},
		{0, at(0), 0, 0},
		{at(5), at(2), 5, 5},
	} {
		if first, last := g.Between(tt.from, tt.to); first != tt.first || last != tt.last {
			t.Errorf("[%d, %d): steps [%d, %d), want [%d, %d)", tt.from, tt.to, first, last, tt.first, tt.last)
		}
	}
}

func TestDevopsAnswers(t *testing.T) {
	g := NewDevops(3, 30)
	highest, sum := int64(-1), 0.0
	for s := 4; s < 20; s++ {
		highest = max(highest, g.Value(0, s, 2), g.Value(2, s, 2))
		sum += float64(g.Value(1, s, 5))
	}
	if v, ok := g.Max([]int{0, 2}, 2, 4, 20); !ok || v != highest {
		t.Errorf("max %d %v, want %d", v, ok, highest)
	}
	if _, ok := g.Max([]int{0}, 2, 4, 4); ok {
		t.Error("max of nothing")
	}
	if v, ok := g.Mean(1, 5, 4, 20); !ok || v != sum/16 {
		t.Errorf("mean %v %v, want %v", v, ok, sum/16)
	}
}

// TestDevopsStream takes requests of several sizes and wants every host and
// time once.
func TestDevopsStream(t *testing.T) {
	s := NewDevopsStream(3)
	seen := map[string]bool{}
	rows := 0
	for _, n := range []int{1, 9, 90, 900, 1000, 8000, 10_000, 10, 9990} {
		body, got := s.Next(n)
		if got != n || bytes.Count(body, []byte{'\n'}) != n || body[len(body)-1] != '\n' {
			t.Fatalf("asked for %d lines, got %d", n, got)
		}
		for line := range strings.Lines(string(body)) {
			tags, _, ns := parseDevops(t, line)
			if want := DevopsTime(rows / DevopsHosts); ns != want {
				t.Fatalf("row %d: time %d, want %d", rows, ns, want)
			}
			key := tags["hostname"] + strconv.FormatInt(ns, 10)
			if seen[key] || !strings.HasPrefix(key, "sender_3_") {
				t.Fatalf("row %d: %s again or wrong", rows, key)
			}
			seen[key] = true
			rows++
		}
	}
}

func BenchmarkDevops(b *testing.B) {
	g := NewDevops(DevopsHosts, 1000)
	var buf []byte
	for b.Loop() {
		g.row = 0
		buf, _ = g.Next(buf[:0], 10_000)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e4, "ns/row")
	b.SetBytes(int64(len(buf)))
}
