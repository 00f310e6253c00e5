package lineproto

import (
	"fmt"
	"math"
	"math/rand"
	"strconv"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestScanFloat holds scanFloat against strconv over random decimals of all
// lengths, over shortest and exact forms of random floats, and near ties.
func TestScanFloat(t *testing.T) {
	seed := int64(testseed.Of(t))
	r := rand.New(rand.NewSource(seed))
	var undecided, total int
	check := func(text string) {
		t.Helper()
		for _, tail := range []string{"", ",", " 1", ",abcdefghijklmnop"} {
			line := []byte(text + tail)
			got, next := scanFloat(line, 0, load(line, 0))
			total++
			if next == 0 {
				undecided++
				return
			}
			want, err := strconv.ParseFloat(text, 64)
			if err != nil || math.Float64bits(got) != math.Float64bits(want) || next != len(text) {
				t.Fatalf("seed %d: scanFloat(%q) = %v to %d, want %v (%v)", seed, text+tail, got, next, want, err)
			}
		}
	}
	for i := 0; i < 200000; i++ {
		n := 1 + r.Intn(19)
		b := make([]byte, n)
		for j := range b {
			b[j] = byte('0' + r.Intn(10))
		}
		text := string(b)
		if cut := r.Intn(n); cut > 0 {
			text = text[:cut] + "." + text[cut:]
		}
		check(text)
		f := math.Float64frombits(r.Uint64()&(1<<52-1) | uint64(1023-20+r.Intn(70))<<52)
		if s := strconv.FormatFloat(f, 'f', -1, 64); len(s) < 19 {
			check(s)
		}
		check(fmt.Sprintf("%.*f", r.Intn(8), f))
		// Around 2^53..2^63 ties between floats are integers and halves.
		tie := uint64(1)<<(53+r.Intn(10)) + r.Uint64()>>12
		check(strconv.FormatUint(tie, 10))
		check(strconv.FormatUint(tie/10, 10) + ".5")
	}
	if undecided*4 > total {
		t.Fatalf("%d of %d left to the slow path", undecided, total)
	}
}

func TestScanFloatRefuses(t *testing.T) {
	for _, text := range []string{"", ".5", "1.", "-1", "x", "12345678901234567890", "1.2345678901234567890", "i"} {
		if f, next := scanFloat([]byte(text), 0, load([]byte(text), 0)); next != 0 {
			t.Errorf("scanFloat(%q) = %v, want refused", text, f)
		}
	}
}

func TestDigits(t *testing.T) {
	for n := 0; n <= 8; n++ {
		for c := 0; c < 256; c++ {
			if c >= '0' && c <= '9' {
				continue
			}
			for _, rest := range []byte{0, '7', 0xff, ':', '/'} {
				b := []byte("98765432")
				if n < 8 {
					b[n] = byte(c)
					for j := n + 1; j < 8; j++ {
						b[j] = rest
					}
				}
				x := load(b, 0)
				if d := digits(x); d != n {
					t.Fatalf("digits(%q) = %d, want %d", b, d, n)
				}
				want, _ := strconv.ParseUint("0"+string(b[:n]), 10, 64)
				if n == 0 {
					continue
				}
				if v := decimal(x, n); v != want {
					t.Fatalf("decimal(%q, %d) = %d, want %d", b, n, v, want)
				}
			}
		}
	}
}
