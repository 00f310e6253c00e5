package dictionary

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// FuzzRoaring: what validRoaring passes, the library reads without a fault and
// finds valid.
func FuzzRoaring(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 10, 5000, 70000} {
		bm := roaring.New()
		for range n {
			bm.Add(r.Uint32N(uint32(n) * 3))
		}
		for range 2 {
			b, _ := bm.ToBytes()
			if len(b) < 1<<15 {
				f.Add(b)
			}
			if !validRoaring(b) {
				f.Fatalf("%d ids refused", n)
			}
			bm.AddRange(uint64(n), uint64(n)*2)
			bm.RunOptimize()
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !validRoaring(b) {
			return
		}
		bm := roaring.New()
		n, err := bm.ReadFrom(bytes.NewReader(b))
		if err != nil || n != int64(len(b)) {
			t.Fatalf("read %d of %d: %v", n, len(b), err)
		}
		if bm.GetCardinality() > 1<<20 {
			return // runs are short, what they stand for is not
		}
		ids := bm.ToArray()
		if len(ids) != int(bm.GetCardinality()) || !slices.IsSorted(ids) {
			t.Fatal("not a set")
		}
	})
}
