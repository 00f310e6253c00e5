package tsi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/tsi/paged"
)

// TestTagValuesAtBothEnds compares the first and the last values with those
// ends of all, in dictionaries of many pages, of several files and in memory.
func TestTagValuesAtBothEnds(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 3))
	v := manyValues(t, r, 3, 6000)
	defer v.Release()
	all, err := v.Series("m")
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		set := roaring.New()
		for _, id := range all.ToArray() {
			if r.IntN(50) < 1+r.IntN(50) {
				set.Add(id)
			}
		}
		switch r.IntN(4) {
		case 0:
			set = nil
		case 1: // few, and far from either end
			set = roaring.New()
			for range 1 + r.IntN(20) {
				id, err := all.Select(uint32(r.Uint64N(all.GetCardinality())))
				if err != nil {
					t.Fatal(err)
				}
				set.Add(id)
			}
		}
		key := []string{"host", "dc", "none"}[r.IntN(3)]
		values, err := v.Charged(nil).TagValues("m", key, set)
		if err != nil {
			t.Fatal(err)
		}
		limit := []int{1, 2, 10, 64, 65, 500, 1 << 30}[r.IntN(7)]
		first, err := v.Charged(nil).FirstTagValues("m", key, set, limit)
		if err != nil {
			t.Fatal(err)
		}
		last, err := v.Charged(nil).LastTagValues("m", key, set, limit)
		if err != nil {
			t.Fatal(err)
		}
		n := min(limit, len(values))
		if !slices.Equal(first, values[:n]) || !slices.Equal(last, values[len(values)-n:]) {
			t.Fatalf("seed %d: %d of %d values of %s: first %.200q, last %.200q", seed, limit, len(values), key, first, last)
		}
	}
}

// manyValues returns a view of an index of so many files, and of memory, with
// series of as many values of host each, some of which are in several and some
// deleted.
func manyValues(t testing.TB, r *rand.Rand, files, series int) *View {
	t.Helper()
	fs := newFS()
	x, err := NewIndex(IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	id := uint32(0)
	for layer := range files + 1 {
		for range series {
			id++
			x.AddSeries(model.SeriesID(id), fmt.Sprintf("m,dc=%c,host=h%07d", 'a'+id%5, r.IntN(3*series)))
		}
		if layer == files {
			break
		}
		snap, path := x.Freeze(), fmt.Sprintf("%d.tsi", layer)
		if _, err := snap.WriteFile(fs, path); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		x.Publish(snap, f)
	}
	gone := roaring.New()
	for range series / 4 {
		gone.Add(1 + r.Uint32N(id))
	}
	if _, err := x.RemoveSeries(gone); err != nil {
		t.Fatal(err)
	}
	return x.View()
}

// Lists of texts are charged before they are made, and end with the charge that
// is refused.
func TestTextsAreCharged(t *testing.T) {
	v := manyValues(t, rand.New(rand.NewPCG(1, 1)), 2, 3000)
	defer v.Release()
	refused := errors.New("too much")
	lists := map[string]func(v Charged) (texts []string, err error){
		"values": func(v Charged) ([]string, error) { return v.TagValues("m", "host", nil) },
		"first":  func(v Charged) ([]string, error) { return v.FirstTagValues("m", "host", nil, 2000) },
		"last":   func(v Charged) ([]string, error) { return v.LastTagValues("m", "host", nil, 2000) },
		"groups": func(v Charged) (texts []string, err error) {
			set, err := v.Series("m")
			if err != nil {
				return nil, err
			}
			groups, err := v.GroupBy("m", set, []string{"host"})
			if err != nil {
				return nil, err
			}
			for _, tuple := range groups.Tuples {
				texts = append(texts, tuple...)
			}
			return texts, nil
		},
	}
	for name, list := range lists {
		charged := int64(0)
		texts, err := list(v.Charged(func(n int64) error { charged += n; return nil }))
		if err != nil {
			t.Fatal(name, err)
		}
		want := int64(0)
		for _, text := range texts {
			want += int64(paged.TextHeaderBytes + len(text))
		}
		// The last values are looked for more than once.
		if len(texts) < 1000 || charged < want || charged > want+paged.ArenaBytes && name != "last" {
			t.Errorf("%s: %d bytes are charged for %d texts of %d", name, charged, len(texts), want)
		}
		left := charged / 2
		if _, err := list(v.Charged(func(n int64) error {
			if left -= n; left < 0 {
				return refused
			}
			return nil
		})); !errors.Is(err, refused) || left < -paged.ArenaBytes-paged.TextHeaderBytes {
			t.Errorf("%s: %v, with %d bytes too many", name, err, -left)
		}
	}
}
