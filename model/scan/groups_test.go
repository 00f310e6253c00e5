package scan

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

func TestGroupsMatchMap(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	dense, sparse := 0, 0
	for range 500 {
		tuples := make([][]string, 1+r.IntN(10))
		span := []uint32{10, 1000, 1 << 20, math.MaxUint32}[r.IntN(4)]
		want := map[uint32]uint32{}
		for range r.IntN(300) {
			want[1+r.Uint32N(span)] = r.Uint32N(uint32(len(tuples)))
		}
		if r.IntN(4) == 0 {
			want[math.MaxUint32] = uint32(len(tuples) - 1)
		}
		ids := slices.Sorted(maps.Keys(want))
		group := make([]uint32, len(ids))
		for i, id := range ids {
			group[i] = want[id]
		}
		g := NewGroups(tuples, ids, group)
		for id, n := range want {
			if got := g.Of(model.SeriesID(id)); got != int(n) {
				t.Fatalf("seed %d: series %d is in group %d, want %d", seed, id, got, n)
			}
		}
		if g.dense != nil {
			dense++
			if len(g.dense) > 16*len(ids) {
				t.Fatalf("seed %d: %d slots for %d series", seed, len(g.dense), len(ids))
			}
		}
		if g.sparse != nil {
			sparse++
		}
	}
	if dense == 0 || sparse == 0 {
		t.Errorf("%d dense, %d sparse; want both", dense, sparse)
	}
	if NewGroups(nil, nil, nil).Of(7) != 0 || NewGroups([][]string{{""}}, []uint32{7}, []uint32{0}).Of(7) != 0 {
		t.Error("one group is group 0")
	}
}
