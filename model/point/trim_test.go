package point

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
)

// filled returns a table with series 0 to n, each with an id and a layout. Every third has another
// spelling, every seventh a fingerprint.
func filled(n int) *Table {
	t := NewTable(1)
	fill(t, 0, n)
	return t
}

func fill(t *Table, from, to int) {
	layout := t.Layout("m", []column.Field{{Key: "f", Type: model.Float}})
	b := NewBuilder(t, new(Batch))
	for i := from; i < to; i++ {
		s, n, v := t.Insert([]byte(nth(i)), nth(i))
		s.SetID(model.SeriesID(i + 1))
		v.Entry(n).SetLayout(layout)
		if i%3 == 0 {
			t.Insert([]byte(spelling(i)), nth(i))
		}
		if i%7 == 0 {
			_ = b.Series("m", model.Tags{{Key: "host", Value: host(i)}})
			b.Float("f", 1)
			_ = b.Row(1)
			b.Spell(t.Fingerprint([]byte(nth(i))))
		}
	}
}

func host(i int) string     { return fmt.Sprint("h", i, strings.Repeat("x", 40)) }
func nth(i int) string      { return "m,host=" + host(i) }
func spelling(i int) string { return nth(i) + ",empty=" }

// known returns the series that a table has of 0 to n, by number. Of each it checks its key and id,
// and what its spellings lead to.
func known(t *testing.T, table *Table, n int) map[int]*Series {
	t.Helper()
	out := map[int]*Series{}
	b := NewBuilder(table, new(Batch))
	for i := range n {
		number, v := table.Find([]byte(nth(i)))
		if number != 0 {
			out[i] = v.Series(v.Entry(number))
			if s := out[i]; s.Key() != nth(i) || s.ID() != model.SeriesID(i+1) || v.Layout(v.Entry(number)).Measurement != "m" {
				t.Fatalf("series %d is %q with id %d", i, s.Key(), s.ID())
			}
		}
		if other, v := table.Find([]byte(spelling(i))); other != 0 && v.Series(v.Entry(other)) != out[i] {
			t.Fatalf("series %d has a spelling of another series", i)
		}
		if b.Known(table.Fingerprint([]byte(nth(i)))) && b.series != out[i] {
			t.Fatalf("series %d has a fingerprint of another series", i)
		}
	}
	return out
}

// TestTrimForgetsTheUnused: series that were found since the last Trim stay, the same ones, with all
// that is known of them.
func TestTrimForgetsTheUnused(t *testing.T) {
	const n = 60_000
	table := filled(n)
	for _, p := range table.View().pieces {
		p.use.Store(0)
	}
	before := map[int]*Series{}
	for i := 10_000; i < 20_000; i++ {
		number, v := table.Find([]byte(nth(i)))
		before[i] = v.Series(v.Entry(number))
	}
	trimmed := table.Trim()
	if was, is := table.Bytes(), trimmed.Bytes(); is > was/8*7 {
		t.Errorf("%d bytes of %d are left", is, was)
	}
	after := known(t, trimmed, n)
	for i, s := range before {
		if after[i] != s {
			t.Fatalf("series %d, which was used, is forgotten", i)
		}
	}
	if trimmed.mu.series != len(after) || len(after) > n*7/8 {
		t.Errorf("the table has %d series and knows %d", trimmed.mu.series, len(after))
	}
	if again := trimmed.Trim(); again.Bytes() > trimmed.Bytes()/8*7 {
		t.Errorf("the next Trim leaves %d of %d bytes", again.Bytes(), trimmed.Bytes())
	}
}

// TestTrimOfTheUsed: where all series come in turn and a quarter more than there is room for, most of
// them are known when they come again.
func TestTrimOfTheUsed(t *testing.T) {
	const n = 80_000
	table := NewTable(1)
	for i := range n {
		table.Insert([]byte(nth(i)), nth(i))
	}
	most := table.Bytes() * 4 / 5
	for table.Bytes() > most {
		table = table.Trim()
	}
	found, rounds := 0, 6
	for range rounds {
		for i := range n {
			if number, _ := table.Find([]byte(nth(i))); number != 0 {
				found++
				continue
			}
			table.Insert([]byte(nth(i)), nth(i))
			if table.Bytes() > most {
				table = table.Trim()
			}
		}
	}
	if found < rounds*n/3 {
		t.Errorf("%d of %d were known", found, rounds*n)
	}
}

// TestTrimLeavesTheOld: what goes on with the table of before a Trim changes nothing in the new one.
func TestTrimLeavesTheOld(t *testing.T) {
	const n = 20_000
	old := filled(n)
	table := old.Trim()
	fill(old, n, 2*n)
	late := old.Layout("late", []column.Field{{Key: "f", Type: model.Float}})
	if late.Interned() || late.Measurement != "late" {
		t.Errorf("the old table keeps the layout of %q", late.Measurement)
	}
	mine := table.Layout("mine", []column.Field{{Key: "f", Type: model.Float}})
	if !mine.Interned() || old.FindLayout([]byte(mine.Signature())) != nil {
		t.Error("the old table knows a layout of the new one")
	}
	fill(table, 2*n, 3*n)
	for number := range old.mu.last + 10 { // an entry that both have may name any of them as the next
		v := table.View()
		e := v.Entry(number)
		if e == nil {
			continue
		}
		if s := &e.series; s.slot&isKey != 0 && s.id.Load() == 0 {
			t.Fatalf("entry %d has no id", number)
		}
		e.SetLayout(mine)
		if o := old.View().Entry(number); o == e && old.View().Layout(o) != nil {
			t.Fatalf("entry %d has a layout that the old table does not", number)
		}
		e.layout.Store(1)
	}
	known(t, table, 3*n)
	known(t, old, 2*n)
}

// TestTrimKilledSpellings: a spelling whose series is forgotten leads nowhere, also where an entry
// still says that it followed.
func TestTrimKilledSpellings(t *testing.T) {
	const n = 8000
	table := filled(n) // the keys of the first series lie in the first pieces
	numbers := map[string]uint32{}
	for i := range n {
		_, numbers[spelling(i)], _ = table.Insert([]byte(spelling(i)), nth(i))
	}
	fill(table, n, 6*n) // so that the newest piece has no spelling of these
	v := table.View()
	for i := range v.pieces {
		order := uint32(1)
		switch {
		case i < 3: // the keys
			order = 0
		case i < 8: // the spellings
			order = 2
		}
		v.pieces[i].use.Store(order)
	}
	table = table.Trim()
	v, killed := table.View(), 0
	for raw, number := range numbers {
		e := v.Entry(number)
		if e == nil || v.alive(e) {
			continue
		}
		killed++
		if found, _ := table.Find([]byte(raw)); found != 0 || v.Match(e, []byte(raw+" f=1")) != 0 {
			t.Fatalf("%s is spelled, and its series forgotten", raw)
		}
	}
	if killed == 0 {
		t.Error("every spelling has a series")
	}
}

// TestTrimEmpty: where little can be kept, the table is a new one.
func TestTrimEmpty(t *testing.T) {
	layouts := NewTable(1)
	for i := range maxLayouts/2 + 1 {
		layouts.Layout("m", []column.Field{{Key: fmt.Sprint(i), Type: model.Float}})
	}
	for name, table := range map[string]*Table{"empty": NewTable(1), "one series": filled(1), "layouts": layouts} {
		trimmed := table.Trim()
		if trimmed == table || trimmed.mu.series+trimmed.mu.chunks != 0 || trimmed.Database() != 1 {
			t.Errorf("%s: %d bytes are left", name, trimmed.Bytes())
		}
		fill(trimmed, 0, 10)
		if got := known(t, trimmed, 10); len(got) != 10 {
			t.Errorf("%s: %d series are known after", name, len(got))
		}
	}
}

// TestTrimFreesMemory: nothing holds the memory of what was forgotten.
func TestTrimFreesMemory(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	table := NewTable(1)
	for i := range 8 {
		fill(table, i*20_000, (i+1)*20_000)
		for table.Bytes() > 4<<20 {
			table = table.Trim()
		}
	}
	if used := heap() - before; used > 6<<20 {
		t.Errorf("%d bytes are in use, the table has %d", used, table.Bytes())
	}
	runtime.KeepAlive(table)
}

// TestTrimInParallel: many look up and add series while tables are trimmed.
func TestTrimInParallel(t *testing.T) {
	const n = 3000
	var current atomic.Pointer[Table]
	current.Store(NewTable(1))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for round := range 8 {
				table := current.Load()
				last := uint32(0)
				for k := range n {
					i := (k*(w+1) + w) % n
					line := []byte(nth(i) + " f=1")
					v := table.View()
					prev, number := v.Entry(last), uint32(0)
					if prev != nil {
						number = prev.Next()
					}
					e := v.Entry(number)
					if e == nil || v.Match(e, line) == 0 {
						if number, v = table.Find([]byte(nth(i))); number == 0 {
							_, number, v = table.Insert([]byte(nth(i)), nth(i))
							table.Insert([]byte(spelling(i)), nth(i))
						}
						e = v.Entry(number)
					}
					if s := v.Series(e); s.Key() != nth(i) {
						t.Errorf("series %d is %q", i, s.Key())
						return
					}
					if prev != nil {
						prev.SetNext(number)
					}
					last = number
				}
				if round%2 == 1 {
					current.CompareAndSwap(table, table.Trim())
				}
			}
		})
	}
	wg.Wait()
}
