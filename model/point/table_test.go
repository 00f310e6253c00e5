package point

import (
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
)

func TestTableInterns(t *testing.T) {
	table := NewTable(7)
	if table.Database() != 7 || table.mu.series != 0 {
		t.Fatalf("database %d, %d series", table.Database(), table.mu.series)
	}
	seed := int64(testseed.Of(t))
	r := rand.New(rand.NewSource(seed))
	series := map[string]*Series{}
	numbers := map[string]uint32{}
	for i := 0; i < 30000; i++ {
		host := r.Intn(5000)
		key := fmt.Sprintf("m,host=h%d,region=%s", host, strings.Repeat("r", host%40))
		raw := key
		if r.Intn(2) == 0 {
			raw = fmt.Sprintf("m,region=%s,host=h%d", strings.Repeat("r", host%40), host)
		}
		var s *Series
		if r.Intn(3) == 0 {
			s = table.Series(key)
		} else {
			var n uint32
			var v *View
			buf := []byte(raw)
			s, n, v = table.Insert(buf, key)
			clear(buf) // the table must have its own copy
			e := v.Entry(n)
			if e == nil || v.Series(e) != s {
				t.Fatalf("seed %d: entry %d of %q lost", seed, n, raw)
			}
			if m, ok := numbers[raw]; ok && m != n {
				t.Fatalf("seed %d: %q has numbers %d and %d", seed, raw, m, n)
			}
			numbers[raw] = n
			if v.Match(e, []byte(raw+" v=1")) != len(raw) || v.Match(e, []byte(raw)) != 0 || v.Match(e, []byte(raw+"x v=1")) != 0 {
				t.Fatalf("seed %d: match of %q", seed, raw)
			}
		}
		if s.Key() != key {
			t.Fatalf("seed %d: series of %q has key %q", seed, key, s.Key())
		}
		if old := series[key]; old != nil && old != s {
			t.Fatalf("seed %d: two series of %q", seed, key)
		}
		series[key] = s
	}
	if table.mu.series != len(series) {
		t.Fatalf("Len %d, want %d", table.mu.series, len(series))
	}
	for raw, n := range numbers {
		if m, _ := table.Find([]byte(raw)); m != n {
			t.Fatalf("Find(%q) = %d, want %d", raw, m, n)
		}
	}
	if n, _ := table.Find([]byte("m,host=none")); n != 0 {
		t.Fatalf("found %d", n)
	}
}

func TestTableLongKeys(t *testing.T) {
	table := NewTable(1)
	for _, n := range []int{0, 1, 8, 65535, 65536, 300_000} {
		key := strings.Repeat("k", n)
		s := table.Series(key)
		if s.Key() != key || table.Series(key) != s {
			t.Errorf("key of %d bytes", n)
		}
		u, number, v := table.Insert([]byte(key), key)
		if u != s {
			t.Errorf("insert of %d bytes", n)
		}
		if remembered := number != 0; remembered != (n > 0 && n <= model.MaxKeyLength) {
			t.Errorf("insert of %d bytes: number %d", n, number)
		} else if remembered && v.Match(v.Entry(number), []byte(key+" ")) != n {
			t.Errorf("match of %d bytes", n)
		}
	}
}

// TestTableSpellings: the spellings of a series are bounded, the series is
// found all the same.
func TestTableSpellings(t *testing.T) {
	table := NewTable(1)
	s := table.Series("m,a=1")
	kept := 0
	for i := 0; i < 10000; i++ {
		u, n, _ := table.Insert(fmt.Appendf(nil, "m,x%d", i), "m,a=1")
		if u != s {
			t.Fatal("another series")
		}
		if n != 0 {
			kept++
		}
	}
	if kept != minSpellings {
		t.Fatalf("%d spellings kept", kept)
	}
}

func TestTableLayouts(t *testing.T) {
	table := NewTable(1)
	fields := func(keys ...string) (out []column.Field) {
		for i, k := range keys {
			out = append(out, column.Field{Key: k, Type: model.FieldType(1 + i%5)})
		}
		return out
	}
	a := table.Layout("m", fields("a", "b"))
	if table.Layout("m", fields("a", "b")) != a {
		t.Error("not interned")
	}
	for name, other := range map[string]*Layout{
		"measurement": table.Layout("m2", fields("a", "b")),
		"order":       table.Layout("m", fields("b", "a")),
		"prefix":      table.Layout("m", fields("a")),
		"type":        table.Layout("m", []column.Field{{Key: "a", Type: model.Float}, {Key: "b", Type: model.Float}}),
		"cut":         table.Layout("ma", fields("b")),
	} {
		if other == a {
			t.Errorf("other %s, same layout", name)
		}
	}
	signature := AppendLayoutMeasurement(nil, "m")
	for _, f := range a.Fields {
		signature = AppendLayoutField(signature, f.Type, []byte(f.Key))
	}
	if table.FindLayout(signature) != a || table.FindLayout(signature[1:]) != nil {
		t.Error("FindLayout")
	}
	for _, k := range []string{`a\b`, `a"b`, "a\tb", ""} {
		if table.Layout("m", fields(k)).Wire() != nil {
			t.Errorf("key %q is expected on lines", k)
		}
	}
	for _, k := range []string{"a", "abcdefg", "abcdefgh", "abcdefghijklmnopqr", "ключ"} {
		w := table.Layout("m", fields(k)).Wire()
		if len(w) != 1 || w[0].Prefix != k+"=" || w[0].Type != model.Float {
			t.Errorf("key %q: %+v", k, w)
		}
	}
	if w := table.Layout("m", fields(" a,b=")).Wire(); len(w) != 1 || w[0].Prefix != `\ a\,b\==` {
		t.Errorf("%+v", w)
	}
	long := strings.Repeat("k", 300)
	if l := table.Layout("m", fields(long)); l != table.Layout("m", fields(long)) || l.Fields[0].Key != long {
		t.Error("long key")
	}
}

// TestTableLayoutsBounded: beyond the limit layouts are right but not kept.
func TestTableLayoutsBounded(t *testing.T) {
	table := NewTable(1)
	for i := 0; i < maxLayouts+10; i++ {
		table.Layout("m", []column.Field{{Key: fmt.Sprint(i), Type: model.Float}})
	}
	f := []column.Field{{Key: "beyond", Type: model.Float}}
	a, b := table.Layout("m", f), table.Layout("m", f)
	if a == b || a.Fields[0] != b.Fields[0] || a.Measurement != "m" {
		t.Errorf("%+v %+v", a, b)
	}
	if n := table.Layout("m", []column.Field{{Key: "5", Type: model.Float}}); n != table.Layout("m", []column.Field{{Key: "5", Type: model.Float}}) {
		t.Error("kept layout lost")
	}
}

// TestTableParallel has many writers and readers on one table.
func TestTableParallel(t *testing.T) {
	table := NewTable(1)
	const hosts = 3000
	var wg sync.WaitGroup
	var got [4][hosts]*Series
	for g := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewSource(int64(g)))
			v := table.View()
			last := uint32(0)
			for _, h := range r.Perm(hosts) {
				key := fmt.Sprintf("m,host=%d", h)
				s, n, w := table.Insert([]byte(key), key)
				if e := v.Entry(n); e != nil {
					v.Match(e, []byte(key+" v=1")) // an old view must not break
				}
				e := w.Entry(n)
				e.SetLayout(table.Layout("m", []column.Field{{Key: fmt.Sprint(h % 50), Type: model.Float}}))
				if prev := w.Entry(last); prev != nil {
					prev.SetNext(n)
				}
				last = n
				if next := w.Entry(e.Next()); next != nil {
					w.Match(next, []byte("m,host=1 v=1"))
					w.Layout(next)
				}
				got[g][h] = s
				s.SetID(model.SeriesID(h + 1))
			}
		}()
	}
	wg.Wait()
	for h := range hosts {
		for g := range got {
			if s := got[g][h]; s == nil || s != got[0][h] || s.ID() != model.SeriesID(h+1) || s.Key() != fmt.Sprintf("m,host=%d", h) {
				t.Fatalf("host %d, goroutine %d: %+v", h, g, s)
			}
		}
	}
	if table.mu.series != hosts {
		t.Fatalf("Len %d", table.mu.series)
	}
}

// TestTableKeysAreNotSpellings: what a line spells is what the parser said, not
// what a key of the same bytes would be; and the key is found by its own bytes.
func TestTableKeysAreNotSpellings(t *testing.T) {
	for _, first := range []string{"key", "spelling"} {
		table := NewTable(1)
		const bytes = "m,a=1"
		var s *Series
		if first == "key" {
			s = table.Series(bytes)
			if n, _ := table.Find([]byte(bytes)); n != 0 {
				t.Fatalf("a key that no line has spelled is entry %d", n)
			}
		}
		other, n, v := table.Insert([]byte(bytes), "m,b=2")
		if n == 0 || other.Key() != "m,b=2" || v.Series(v.Entry(n)) != other {
			t.Fatalf("spelling of %q: entry %d", other.Key(), n)
		}
		if found := table.Series(bytes); found == other || s != nil && found != s || found.Key() != bytes {
			t.Fatalf("first the %s: key %q is the series %q", first, bytes, found.Key())
		}
		if m, _ := table.Find([]byte(bytes)); m != n {
			t.Fatalf("first the %s: entry %d, want %d", first, m, n)
		}
		if found, m, v := table.Insert([]byte("m,b=2"), "m,b=2"); found != other || m == 0 || v.Series(v.Entry(m)) != other {
			t.Fatalf("first the %s: key as a spelling: entry %d of %q", first, m, found.Key())
		}
		if table.mu.series != 2 {
			t.Fatalf("%d series", table.mu.series)
		}
	}
}

// TestSeriesKey: every series knows its key, wherever it lies.
func TestSeriesKey(t *testing.T) {
	if k := new(Series).Key(); k != "" {
		t.Errorf("zero series has key %q", k)
	}
	if s := NewSeries("m,a=1"); s.Key() != "m,a=1" || s.KeyLength() != 5 || s.ID() != 0 {
		t.Errorf("key %q of %d bytes, id %d", s.Key(), s.KeyLength(), s.ID())
	}
	table := NewTable(1)
	var all []*Series
	for i := range 3*chunkSize + 7 { // over the heads of chunks
		s := table.Series(fmt.Sprintf("m,n=%d", i))
		s.SetID(model.SeriesID(i + 1))
		all = append(all, s)
	}
	table = nil
	runtime.GC() // a series keeps its table's memory
	for i, s := range all {
		if want := fmt.Sprintf("m,n=%d", i); s.Key() != want || s.KeyLength() != len(want) || s.ID() != model.SeriesID(i+1) {
			t.Fatalf("series %d: key %q, id %d", i, s.Key(), s.ID())
		}
	}
}

// TestTableMemory: a series costs its key and at most 60 bytes.
func TestTableMemory(t *testing.T) {
	const n = 200_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	table := NewTable(1)
	keys := int64(0)
	var b []byte
	for i := range n {
		b = fmt.Appendf(b[:0], "cpu,host=host_%d,region=eu-central-1,datacenter=eu-central-1a", i)
		table.Insert(b, string(b))
		keys += int64(len(b))
	}
	used := heap() - before
	per := float64(used-keys) / n
	t.Logf("%.1f bytes a series beside the key; Bytes says %.1f", per, float64(table.Bytes()-keys)/n)
	if per > 60 {
		t.Errorf("%.1f bytes a series beside the key", per)
	}
	if b := table.Bytes(); b < used*9/10 || b > used*11/10 {
		t.Errorf("Bytes %d, heap %d", b, used)
	}
	runtime.KeepAlive(table)
}
