package smallest

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestSetMatchesMap adds random numbers, some of them often. The set must have what a
// sorted map has, and charge for few elements more than it may return.
func TestSetMatchesMap(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		limit := []int{0, 1, 3, 64, 500}[r.IntN(5)]
		span := []int{1, 10, 300, 1 << 30}[r.IntN(4)]
		held, peak := int64(0), int64(0)
		s := New(limit, cmp.Compare[int], func(x int) int64 { return int64(x%7 + 1) }, func(bytes int64) error {
			held += bytes
			peak = max(peak, held)
			return nil
		})
		all := map[int]bool{}
		ascending := r.IntN(3) == 0
		for i := range r.IntN(5000) {
			x := r.IntN(span)
			if ascending { // but for a few
				x = min(i+x%7*(x%100/99), span)
			}
			all[x] = true
			if err := s.Add(x); err != nil {
				t.Fatal(err)
			}
		}
		want := slices.Sorted(maps.Keys(all))
		if limit > 0 {
			want = want[:min(limit, len(want))]
		}
		got := s.Sorted()
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, limit %d of %d: %d elements, want %d", seed, limit, span, len(got), len(want))
		}
		bytes := int64(0)
		for _, x := range want {
			bytes += int64(x%7 + 1)
		}
		if held != bytes || peak > int64(7*(2*len(want)+slack)+ahead) {
			t.Fatalf("seed %d, limit %d of %d: %d bytes are charged for %d, %d at most", seed, limit, span, held, bytes, peak)
		}
	}
}

func TestSetRefused(t *testing.T) {
	refused := errors.New("no memory")
	s := New(2, cmp.Compare[int], func(int) int64 { return 1 }, func(bytes int64) error {
		if bytes > 0 {
			return refused
		}
		return nil
	})
	if err := s.Add(1); !errors.Is(err, refused) || len(s.Sorted()) != 0 {
		t.Errorf("%v, %v", err, s.Sorted())
	}
}
