package query

import (
	"context"
	"strings"
	"testing"

	"github.com/influxdata/influxql"
)

// TestMemoryIsShared holds one SELECT in the middle: another one that fits
// alone must not fit beside it, and fits again afterwards.
func TestMemoryIsShared(t *testing.T) {
	m := newMemStore()
	m.create("d", "rp")
	var lines strings.Builder
	for i := range 1000 {
		lines.WriteString("m,h=a v=1 ")
		lines.WriteString(strings.Repeat("1", 1+i%9))
		lines.WriteString("\n")
	}
	m.write(t, "d", "rp", "n", lines.String())
	run := func(shared *Memory, emit func(*Result) error) error {
		stmt, err := influxql.ParseStatement("SELECT v FROM d.rp.m")
		if err != nil {
			t.Fatal(err)
		}
		return runSelect(context.Background(), stmt.(*influxql.SelectStatement), m,
			SelectOptions{Database: "d", DefaultRP: m.defaultRP, Memory: shared}, emit)
	}
	// What one needs.
	probe := NewMemory(1 << 40)
	need := int64(0)
	if err := run(probe, func(*Result) error { need = probe.Used(); return nil }); err != nil {
		t.Fatal(err)
	}
	if need == 0 || probe.Used() != 0 {
		t.Fatalf("%d bytes at the end, %d afterwards", need, probe.Used())
	}
	shared := NewMemory(need * 3 / 2)
	inside := 0
	err := run(shared, func(*Result) error {
		inside++
		err := run(shared, func(*Result) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "query memory limit exceeded: all queries together") {
			t.Errorf("beside another: %v", err)
		}
		return nil
	})
	if err != nil || inside == 0 {
		t.Fatalf("alone: %v", err)
	}
	if err := run(shared, func(*Result) error { return nil }); err != nil || shared.Used() != 0 {
		t.Errorf("afterwards: %v, %d bytes held", err, shared.Used())
	}
}

// TestMemoryShort lets a SELECT start and then tells it to take no more.
func TestMemoryShort(t *testing.T) {
	m := NewMemory(1 << 40)
	x := exec{opt: SelectOptions{MemoryBytes: -1, Memory: m}}
	if err := x.grow(10); err != nil {
		t.Fatal(err)
	}
	m.SetShort(true)
	if err := x.grow(-5); err != nil {
		t.Errorf("giving back: %v", err)
	}
	if err := x.keep(10); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if err := x.keep(smallBytes); err == nil || !strings.Contains(err.Error(), "short of memory") {
		t.Errorf("taking more: %v", err)
	}
	m.SetShort(false)
	if err := x.grow(10); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	x.release()
	if m.Used() != 0 {
		t.Errorf("%d bytes left", m.Used())
	}
}
