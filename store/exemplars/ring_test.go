package exemplars

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

// TestRing compares a ring with a list that drops its oldest element. What is deleted leaves
// its place there.
func TestRing(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range 50 {
		most, mostBytes := 1+r.IntN(20), int64(3000+r.IntN(3000))
		ring := New(most, mostBytes)
		var want []Exemplar // oldest first
		bytes := func() (n int64) {
			for _, e := range want {
				if e.Series != 0 {
					n += e.bytes()
				}
			}
			return n
		}
		kept := func() (n int) {
			for _, e := range want {
				if e.Series != 0 {
					n++
				}
			}
			return n
		}
		remove := func(match func(e Exemplar) bool) {
			for i := range want {
				if match(want[i]) {
					want[i] = Exemplar{}
				}
			}
		}
		for range 200 {
			db := uint32(1 + r.IntN(2))
			switch r.IntN(20) {
			case 0:
				ring.Drop(db, nil)
				remove(func(e Exemplar) bool { return e.Database == db })
			case 1:
				id, until := model.SeriesID(1+r.IntN(4)), int64(r.IntN(100))
				ring.Delete([]Deleted{{db, model.TimeRange{Min: model.MinTime, Max: until * 1e6}, roaring.BitmapOf(uint32(id))}})
				remove(func(e Exemplar) bool { return e.Database == db && e.Series == id && e.Time <= until })
			default:
				var list, good []Exemplar
				repeated, older := 0, 0
				for range 1 + r.IntN(3) {
					e := Exemplar{db, model.SeriesID(1 + r.IntN(4)), int64(r.IntN(100)), float64(r.IntN(2)), strings.Repeat("x", r.IntN(500))}
					list = append(list, e)
					same := func(o Exemplar) bool { return o.Database == db && o.Series == e.Series }
					before := slices.Concat(slices.DeleteFunc(slices.Clone(want), func(o Exemplar) bool { return !same(o) }), slices.DeleteFunc(slices.Clone(good), func(o Exemplar) bool { return !same(o) }))
					switch {
					case len(before) == 0 || e.order(&before[len(before)-1]) > 0:
						good = append(good, e)
					case e.order(&before[len(before)-1]) == 0:
						repeated++
					default:
						older++
					}
				}
				fresh, same, late := ring.Fresh(list)
				if !slices.Equal(fresh, good) || same != repeated || late != older {
					t.Fatalf("%v: fresh %v, %d repeated, %d older, want %v, %d, %d", list, fresh, same, late, good, repeated, older)
				}
				if err := ring.Apply(db, Append(nil, fresh)); err != nil {
					t.Fatal(err)
				}
				for _, e := range good {
					want = append(want, e)
					for len(want) > ring.Most() || bytes() > mostBytes {
						want = want[1:]
					}
				}
			}
			from := int64(r.IntN(50))
			for db := uint32(1); db <= 2; db++ {
				got := ring.Select(db, from, 90)
				expect := slices.DeleteFunc(slices.Clone(want), func(e Exemplar) bool { return e.Database != db || e.Time < from || e.Time > 90 })
				if fmt.Sprint(got) != fmt.Sprint(expect) {
					t.Fatalf("database %d: %v, want %v", db, got, expect)
				}
			}
			if n, b := ring.Held(); n != kept() || b != bytes() {
				t.Fatalf("held %d of %d bytes, want %d of %d", n, b, kept(), bytes())
			}
		}
	}
}

// A ring of no exemplars takes none.
func TestNoRing(t *testing.T) {
	ring := New(0, 1<<20)
	if err := ring.Apply(1, Append(nil, []Exemplar{{1, 2, 3, 4, ""}})); err != nil || ring.Most() != 0 || len(ring.Select(1, 0, 9)) != 0 {
		t.Error(err)
	}
	ring.Drop(1, nil)
}

// FuzzApply gives a ring any payload.
func FuzzApply(f *testing.F) {
	f.Add(Append(nil, []Exemplar{{1, 2, 3, 4.5, "labels"}, {1, 2, -3, 0, ""}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		ring := New(10, 1<<20)
		if err := ring.Apply(1, b); err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Fatal(err)
		}
		all := ring.Select(1, -1<<63, 1<<63-1)
		again := New(10, 1<<20)
		if err := again.Apply(1, Append(nil, all)); err != nil || fmt.Sprint(again.Select(1, -1<<63, 1<<63-1)) != fmt.Sprint(all) {
			t.Fatalf("%v is not what was applied, %v", all, err)
		}
	})
}
