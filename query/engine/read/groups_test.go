package read

import (
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model/scan"
)

// TestPartsCoverTheSet wants parts that are disjoint, make up the set and
// share the first ids, which are often the busy ones.
func TestPartsCoverTheSet(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 9))
	for range 60 {
		set := roaring.New()
		first, span := rnd.Uint32N(1<<20), []uint32{10, 3000, 70_000, 1 << 22}[rnd.IntN(4)]
		for range 1 + rnd.IntN(30_000) {
			set.Add(first + rnd.Uint32N(span))
		}
		if rnd.IntN(2) == 0 {
			set.AddRange(uint64(first), uint64(first)+uint64(rnd.IntN(100_000)))
		}
		n := 1 + rnd.IntN(5)
		ps := Parts(set, n)
		all, busy := roaring.New(), roaring.New()
		busy.AddRange(uint64(set.Minimum()), uint64(set.Minimum())+8192)
		busy.And(set)
		for _, p := range ps {
			if p.Intersects(all) {
				t.Fatalf("seed %d: parts overlap", seed)
			}
			all.Or(p)
			share := p.AndCardinality(busy)
			if total := set.GetCardinality(); total >= uint64(16*stripe*n) && n > 1 && busy.GetCardinality() == 8192 && share*uint64(n) < busy.GetCardinality()/2 {
				t.Fatalf("seed %d: one of %d parts has %d of the %d first series", seed, n, share, busy.GetCardinality())
			}
		}
		if !all.Equals(set) || len(ps) > n {
			t.Fatalf("seed %d: %d parts make up %d of %d series", seed, len(ps), all.GetCardinality(), set.GetCardinality())
		}
	}
}

// TestGroupKeys wants different keys of tuples that differ only in where they are cut.
func TestGroupKeys(t *testing.T) {
	seen := map[string]int{}
	for i, g := range [][]string{
		{"m", "x\xff", "y"},
		{"m", "x", "\xffy"},
		{"m", "x", "", "y"},
		{"m\xffx", "y"},
		{"m", "x\x00y", "z"},
		{"m", "x", "y\x00z"},
		{"m", "\x01x"},
		{"m\x01", "x"},
		{"m", "", "x"},
		{"m", "x", ""},
		{"mx"},
		{"m", "x"},
	} {
		key := string(scan.GroupKey(nil, g[0], g[1:]))
		if j, ok := seen[key]; ok {
			t.Errorf("groups %d and %d have one key", i, j)
		}
		seen[key] = i
	}
}
