package load

import (
	"bytes"
	"hash/fnv"
	"testing"
)

// TestSeedShape makes the whole workload and counts what it must consist of.
func TestSeedShape(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 8.4 million lines")
	}
	g := NewSeed()
	series := map[uint64]int{}
	rows := 0
	var buf []byte
	for {
		var n int
		buf, n = g.Next(buf[:0], 10_000)
		if n == 0 {
			break
		}
		if lines := bytes.Count(buf, []byte{'\n'}); lines != n {
			t.Fatalf("%d lines, said %d", lines, n)
		}
		rows += n
		for line := range bytes.Lines(buf) {
			h := fnv.New64a()
			h.Write(line[:bytes.IndexByte(line, ' ')])
			series[h.Sum64()]++
		}
	}
	if rows != SeedRows || len(series) != SeedSeries {
		t.Fatalf("%d rows of %d series, want %d of %d", rows, len(series), SeedRows, SeedSeries)
	}
	once := 0
	for _, n := range series {
		if n == 1 {
			once++
		}
	}
	if once != seedDirty {
		t.Errorf("%d series seen once, want %d", once, seedDirty)
	}
	var total int64
	for p, n := range g.Counts {
		total += n
		if n == 0 {
			t.Errorf("period %d is empty", p)
		}
	}
	if total != SeedRows {
		t.Errorf("counts add up to %d", total)
	}
}

func TestDeterministic(t *testing.T) {
	a, _ := NewSeed().Next(nil, 50_000)
	b, _ := NewSeed().Next(nil, 50_000)
	if !bytes.Equal(a, b) {
		t.Error("seed workload differs between runs")
	}
	x, _ := NewTelegraf(5, 10, 1_700_000_000).Next(nil)
	y, _ := NewTelegraf(5, 10, 1_700_000_000).Next(nil)
	if !bytes.Equal(x, y) {
		t.Error("telegraf workload differs between runs")
	}
}
