package codec

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TextBytes knows, of every form of block, what the decoded texts take.
func TestTextBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	noise := func() string {
		b := make([]byte, 50+r.IntN(50))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		n     int
		value func(i int) string
		enc   byte
		once  bool // equal texts lie there once
	}{
		"constant":   {100, func(int) string { return "the same" }, encConst, true},
		"one":        {1, func(int) string { return "alone" }, encConst, true},
		"noise":      {100, func(int) string { return noise() }, encRaw, false},
		"compressed": {100, func(i int) string { return fmt.Sprint(strings.Repeat("text", 20), i) }, encSnappy, false},
		"dictionary": {100, func(i int) string { return fmt.Sprint(strings.Repeat("text", 20), i%5) }, encDict, true},
	} {
		var all []string
		want := 0
		seen := map[string]bool{}
		for i := range c.n {
			x := c.value(i)
			all = append(all, x)
			if !c.once || !seen[x] {
				want += len(x)
			}
			seen[x] = true
		}
		block := AppendStrings(nil, all)
		if got, err := TextBytes(block); block[0] != c.enc || got != want || err != nil {
			t.Errorf("%s: %d bytes %v in encoding %d, want %d in %d", name, got, err, block[0], want, c.enc)
		}
		// What cannot be decoded is refused, or of a size that its bytes allow.
		for range 2000 {
			damaged := append([]byte{}, block[:1+r.IntN(len(block))]...)
			damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
			if n, err := TextBytes(damaged); err == nil && (n < 0 || n > snappyRatio*len(damaged)) {
				t.Fatalf("%s: %d bytes of a block of %d", name, n, len(damaged))
			}
		}
	}
	if _, err := TextBytes(nil); err == nil {
		t.Error("no block has a size")
	}
}
