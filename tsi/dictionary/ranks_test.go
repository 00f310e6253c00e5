package dictionary

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestRanks compares the places of ids with a search, near and far apart. Ids
// that are spread over a million series are not searched for one by one.
func TestRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	for range testseed.Rounds(300) {
		span := []uint32{100, 1 << 20, rankSpan - 1, rankSpan + 1, math.MaxUint32}[r.IntN(5)]
		base := r.Uint32N(math.MaxUint32 - span + 1)
		ids := []uint32{base}
		for range r.IntN(1000) {
			ids = append(ids, base+r.Uint32N(span))
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		ranks := NewRanks(ids)
		probes := append(slices.Clone(ids), 0, math.MaxUint32, base-1, ids[len(ids)-1]+1)
		for range 300 {
			probes = append(probes, base+r.Uint32N(span))
		}
		for _, id := range probes {
			want, ok := slices.BinarySearch(ids, id)
			if !ok {
				want = -1
			}
			if got := ranks.Of(id); got != want {
				t.Fatalf("%d ids from %d over %d: %d is at %d, want %d", len(ids), base, span, id, got, want)
			}
		}
		if len(ranks.dense) > 8*len(ids)+1<<16 || len(ranks.words) > rankSpan/64 {
			t.Fatalf("%d ids over %d take %d places and %d words", len(ids), span, len(ranks.dense), len(ranks.words))
		}
	}
	var wide []uint32
	for id := uint32(1); id <= 1_000_000; id += 100 {
		wide = append(wide, id)
	}
	if ranks := NewRanks(wide); ranks.words == nil {
		t.Error("10,000 ids of a million are searched for")
	}
}
