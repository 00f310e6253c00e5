package point

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"tsdbd/model"
)

// TestKnown: a series is known by its fingerprint from its second row on, with its measurement,
// its key and the fields of its latest row. Others whose fingerprint is the same but for one byte are not.
func TestKnown(t *testing.T) {
	table := NewTable(3)
	var batch Batch
	b := NewBuilder(table, &batch)
	add := func(f Fingerprint, name string, fields ...string) {
		t.Helper()
		if !b.Known(f) {
			if err := b.Series(name, tags("id", fmt.Sprint(f[15]))); err != nil {
				t.Fatal(err)
			}
			defer b.Spell(f)
		}
		for _, field := range fields {
			b.Float(field, float64(f[15]))
		}
		if err := b.Row(1); err != nil {
			t.Fatal(err)
		}
	}
	same := table.Fingerprint([]byte("labels"))
	if same != table.Fingerprint([]byte("labels")) || same == table.Fingerprint([]byte("label")) || same == NewTable(3).Fingerprint([]byte("labels")) {
		t.Error("a fingerprint is not that of its bytes and table")
	}
	var want strings.Builder
	for round := range 5 {
		for i := range 200 { // all of one slot: their hashes collide
			f := same
			f[15] = byte(i)
			name := fmt.Sprint("m", i%3)
			fields := []string{"a", "b"}[:1+(i+round)%2]
			if b.Known(f) != (round > 1) {
				t.Fatalf("round %d: known %v", round, round <= 1)
			}
			add(f, name, fields...)
			if b.Measurement() != name {
				t.Errorf("measurement %q", b.Measurement())
			}
			fmt.Fprintf(&want, "%s,id=%d a=%d", name, i, i)
			if len(fields) > 1 {
				fmt.Fprintf(&want, " b=%d", i)
			}
			want.WriteString(" @1\n")
		}
	}
	if got := text(&batch); got != want.String() {
		t.Errorf("%s", got)
	}
}

// TestNotKnown: what has no entry of its own is never known: a long key, and whatever is beyond
// the bound on spellings.
func TestNotKnown(t *testing.T) {
	table := NewTable(3)
	b := NewBuilder(table, new(Batch))
	spell := func(f Fingerprint, value string) bool {
		t.Helper()
		for range 2 {
			_ = b.Series("m", tags("t", value))
			b.Float("f", 1)
			if err := b.Row(1); err != nil {
				t.Fatal(err)
			}
			b.Spell(f)
			_ = b.Series("another", nil)
		}
		return b.Known(f)
	}
	last := 0
	for i := range 2 * minSpellings {
		if spell(table.Fingerprint(fmt.Append(nil, i)), "x") {
			last = i
		}
	}
	if last != minSpellings-1 {
		t.Errorf("%d spellings of a series are known", last+1)
	}
	// A key that fills the memory for keys: the series has no entry.
	table = NewTable(3)
	b = NewBuilder(table, new(Batch))
	table.view.Store(&View{pieces: make([]piece, maxPieces)})
	if spell(table.Fingerprint([]byte("x")), "x") {
		t.Error("a series without an entry is known")
	}
	// A series that is refused takes no row, and so no spelling.
	if err := b.Series("m", tags("t", strings.Repeat("x", model.MaxKeyLength))); err == nil {
		t.Error("a long key is taken")
	}
	b.Float("f", 1)
	if b.Row(1) == nil {
		t.Error("a row of a refused series is taken")
	}
}

// TestKnownInParallel: builders of many requests share a table.
func TestKnownInParallel(t *testing.T) {
	table := NewTable(3)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			var batch Batch
			b := NewBuilder(table, &batch)
			for n := range 3000 {
				i := (n*(w+1) + w) % 1000
				f := table.Fingerprint(fmt.Append(nil, i))
				known := b.Known(f)
				if !known {
					_ = b.Series("m", tags("t", fmt.Sprint(i)))
				}
				b.Float("f", 1)
				if err := b.Row(int64(i)); err != nil {
					t.Error(err)
					return
				}
				if !known {
					b.Spell(f)
				}
			}
			for _, r := range batch.Rows {
				if r.Series.Key() != fmt.Sprintf("m,t=%d", r.Time) || r.Layout.Measurement != "m" {
					t.Errorf("%s @%d", r.Series.Key(), r.Time)
					return
				}
			}
		})
	}
	wg.Wait()
}
