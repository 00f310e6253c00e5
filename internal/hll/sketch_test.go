package hll

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/testkit/testseed"
)

func hashOf(i int) uint64 {
	return xxhash.Sum64(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

func TestEstimates(t *testing.T) {
	s := &Sketch{}
	n := 0
	for _, upTo := range []int{0, 1, 2, 10, 100, 1000, 10_000, 30_000, 50_000, 100_000, 300_000, 1_000_000} {
		for ; n < upTo; n++ {
			s.Add(hashOf(n))
			s.Add(hashOf(n / 2))
		}
		got := s.Count()
		if off := math.Abs(float64(got) - float64(n)); off > 0.015*float64(n) || n <= 1000 && off > 0 {
			t.Errorf("%d values: estimate %d", n, got)
		}
		read, err := Parse(s.Text())
		if err != nil {
			t.Fatal(err)
		}
		if read.Count() != got || read.Text() != s.Text() {
			t.Errorf("%d values: read back %d, estimate %d", n, read.Count(), got)
		}
	}
	if s.dense == nil {
		t.Error("a million values are a list")
	}
}

// TestTextFollowsFromTheValues wants the same text in whatever order values come.
func TestTextFollowsFromTheValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 3))
	for _, n := range []int{0, 5, 5000, 21_000, 40_000} {
		perm := rnd.Perm(n)
		a, b := &Sketch{}, &Sketch{}
		for i := range n {
			a.Add(hashOf(i))
		}
		for k, i := range perm {
			b.Add(hashOf(i))
			if k%1000 == 0 {
				_ = b.Text()
			}
		}
		if a.Text() != b.Text() {
			t.Errorf("%d values: two texts", n)
		}
	}
}

// TestRegistersOfBothForms wants entries of the list to set the registers that
// the hashes themselves would.
func TestRegistersOfBothForms(t *testing.T) {
	listed, direct := &Sketch{}, &Sketch{dense: make([]uint8, registers)}
	for i := range 60_000 {
		h := hashOf(i)
		if i%7 == 0 {
			h &= 1<<40 - 1 | 0xffff<<48 // zeros behind the register's bits
		}
		listed.Add(h)
		direct.Add(h)
	}
	listed.settle()
	if !slices.Equal(listed.dense, direct.dense) {
		t.Error("registers differ")
	}
}

func TestTexts(t *testing.T) {
	s := &Sketch{}
	if got := s.Text(); got != "HLL_" {
		t.Errorf("nothing: %s", got)
	}
	s.Add(0xfedcba9876543210)
	s.Add(0x8000000000000001)
	if got, want := s.Text(), "HLL_ARABAAAAAAAAAAKAAABPAAAACerl7R/lmpLgBw=="; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, bad := range []string{"", "HLL", "hll_", "HLL_!", "HLL_AQ==", "HLL_AhABAAAAAAAAAAAAAAAAAAAAAA==", "HLLERROR x", s.Text()[:len(s.Text())-4]} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	s := &Sketch{}
	for i := range 40_000 {
		if i < 3 || i == 39_999 {
			f.Add(s.Text())
		}
		s.Add(hashOf(i))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		n := s.Count()
		again, err := Parse(s.Text())
		if err != nil || again.Count() != n {
			t.Errorf("%q: %d, then %v %v", text, n, again, err)
		}
	})
}

// TestMerge wants the same text however the values are split into sketches.
func TestMerge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 4))
	for _, n := range []int{0, 7, 5000, 40_000} {
		for range 4 {
			want, parts := &Sketch{}, make([]Sketch, 3)
			edge := rnd.IntN(n + 1) // the first part has up to all values
			for i := range n {
				want.Add(hashOf(i))
				part := &parts[0]
				if i > edge {
					part = &parts[1+rnd.IntN(2)]
				}
				part.Add(hashOf(i))
			}
			got := &Sketch{}
			for _, k := range rnd.Perm(len(parts)) {
				got.Merge(&parts[k])
			}
			if got.Text() != want.Text() {
				t.Errorf("%d values, split at %d: two texts", n, edge)
			}
		}
	}
}
