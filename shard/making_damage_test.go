package shard

import (
	"testing"

	"tsdbd/model"
	"tsdbd/model/point"
)

// damageOldest makes a shard whose oldest file has so many series with many rows each, and
// damages rows of the first of them.
func damageOldest(t *testing.T, n int) *bench {
	t.Helper()
	b := fixed(t)
	b.addSeries(n)
	for i := range n {
		b.put(i, 2000, 0, 1)
	}
	b.flush()
	name := testShard + b.s.mu.set.files[0].Name
	for at := int64(64); ; at += 64 {
		if at > int64(len(b.fs.Content(name))) {
			t.Fatal("no place has rows of the first series alone")
		}
		if err := b.fs.Flip(name, at, 1); err != nil {
			t.Fatal(err)
		}
		b.reopen()
		ok := len(b.s.Quarantine().List()) == 0
		for i := range b.series {
			_, err := b.rowsOf(b.series[i])
			ok = ok && (err != nil) == (i == 0)
		}
		if ok {
			return b
		}
		if err := b.fs.Flip(name, at, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMovesOfDamagedFileForgotten restarts a shard between moves of a damaged file. After the
// restart nobody knows of the damage. The file stays as long as it has a series.
func TestMovesOfDamagedFileForgotten(t *testing.T) {
	b := damageOldest(t, 4)
	b.move([]*point.Series{b.series[1]}, "x") // the file does not have this one
	b.reopen()
	if _, err := b.rowsOf(b.series[0]); err == nil {
		t.Fatal("the rows of the first series can be read")
	}
	b.compact(true)
	b.reopen()
	b.move([]*point.Series{b.series[2]}, "y")
	b.move([]*point.Series{b.series[3]}, "z")
	b.flush()
	for did := true; did; {
		var err error
		did, err = b.s.Compact(t.Context(), true)
		did = did || err != nil // it has found the damage
	}
	if moves := b.waiting(); moves > 0 {
		t.Errorf("%d moves wait", moves)
	}
	if _, err := b.rowsOf(b.series[0]); err == nil {
		t.Error("the file is gone that has the damaged rows of the first series")
	}
}

// TestMovesOfDeletedDamage deletes rows that cannot be read, of series of which a move waits
// for them: the move is made.
func TestMovesOfDeletedDamage(t *testing.T) {
	b := damageOldest(t, 4)
	b.move([]*point.Series{b.series[0]}, "x")
	b.move([]*point.Series{b.series[2]}, "y")
	b.reopen()
	if _, err := b.rowsOf(b.series[4]); err == nil {
		t.Fatal("the rows can be read")
	}
	b.compact(true)
	if moves := b.waiting(); moves != 1 {
		t.Fatalf("%d moves wait", moves)
	}
	b.hide(4, model.AllTime)
	b.flush()
	b.compact(true)
	if moves := b.waiting(); moves > 0 {
		t.Errorf("%d moves wait", moves)
	}
	b.checks()
}
