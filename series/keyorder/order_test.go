package keyorder

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

// TestOrder gives random runs of keys in their order, and fails at each read.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for _, runs := range []int{0, 1, 2, 3, 17, 400} {
		var keys []string // by id-1
		var ids []model.SeriesID
		for range runs {
			run := make([]string, 1+r.IntN(3*windowKeys))
			for i := range run {
				run[i] = fmt.Sprintf("m,host=%09d,n=%d", r.IntN(1e9), len(keys)+i) // no key is there twice
				if r.IntN(5) > 0 {                                                 // some ids are not asked for
					ids = append(ids, model.SeriesID(len(keys)+i+1))
				}
			}
			slices.Sort(run)
			keys = append(keys, run...)
		}
		calls, failAt := 0, -1
		failed := errors.New("not readable")
		read := func(ids []model.SeriesID, fn func(int, string) error) error {
			if calls++; calls == failAt {
				return failed
			}
			for i, id := range ids {
				if err := fn(i, keys[id-1]); err != nil {
					return err
				}
			}
			return nil
		}
		drain := func() (got []Series, err error) {
			o, err := New(read, ids)
			if err != nil {
				return nil, err
			}
			if len(o.runs) > runs {
				t.Fatalf("%d runs were found in %d", len(o.runs), runs)
			}
			for {
				n := len(got)
				if got, err = o.Next(got, 1+r.IntN(7)); err != nil || len(got) == n {
					return got, err
				}
			}
		}
		got, err := drain()
		if err != nil {
			t.Fatal(err)
		}
		var want []Series
		for _, id := range ids {
			want = append(want, Series{keys[id-1], id})
		}
		slices.SortStableFunc(want, func(a, b Series) int { return cmp.Compare(a.Key, b.Key) })
		if !slices.Equal(got, want) {
			t.Fatalf("%d runs: not in the order of the keys", runs)
		}
		for all, at := calls, 1; at <= all; at += 1 + all/7 {
			calls, failAt = 0, at
			if _, err := drain(); !errors.Is(err, failed) {
				t.Fatalf("%d runs, read %d failed: %v", runs, at, err)
			}
		}
	}
}

// TestLongKeys: of each run, little text is held at a time.
func TestLongKeys(t *testing.T) {
	const runs, each, size = 5, 100, 10_000
	var keys []string
	var ids []model.SeriesID
	for r := range runs {
		for i := range each {
			ids = append(ids, model.SeriesID(len(keys)+1))
			keys = append(keys, fmt.Sprintf("m,host=%0*d", size, i*runs+r))
		}
	}
	o, err := New(func(ids []model.SeriesID, fn func(int, string) error) error {
		for i, id := range ids {
			if err := fn(i, keys[id-1]); err != nil {
				return err
			}
		}
		return nil
	}, ids)
	if err != nil {
		t.Fatal(err)
	}
	sorted := slices.Sorted(slices.Values(keys))
	var got []Series
	for n := range sorted {
		held := 0
		for _, r := range o.runs {
			for _, s := range r.window {
				held += len(s.Key)
			}
		}
		if most := runs * (windowText + size + 7); held > most {
			t.Fatalf("%d bytes of keys are held, at most %d were to be", held, most)
		}
		if got, err = o.Next(got[:0], 1); err != nil || len(got) != 1 || got[0].Key != sorted[n] {
			t.Fatalf("key %d: %v", n, err)
		}
	}
}
