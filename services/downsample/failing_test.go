package downsample

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/store/touched"
)

// TestOrder: each window of the spans is computed once or rests, with the tries of its
// failure.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 7))
	now := time.Unix(1000, 0)
	for range testseed.Rounds(200) {
		var f failures
		var spans []touched.Span
		want, got := map[string]int{}, map[string]int{} // tries by window, negative: it rests
		for _, name := range []string{"a", "b"} {
			tries := make([]int, 40)
			for at := int64(0); at < 40; {
				to := min(at+1+r.Int64N(4), 40)
				if n := r.IntN(7) - 3; n != 0 {
					x := failure{measurement: name, from: at, to: to, tries: max(n, -n), err: fmt.Sprint(at)}
					if n < 0 {
						x.again = now.Add(time.Minute)
					}
					f = f.with(x)
					for i := at; i < to; i++ {
						tries[i] = n
					}
				}
				at = to
			}
			for at := r.Int64N(4); at < 40; at += 1 + r.Int64N(4) {
				to := min(at+1+r.Int64N(9), 40)
				spans = append(spans, touched.Span{Measurement: name, From: at, To: to})
				for ; at < to; at++ {
					want[fmt.Sprint(name, at)] = tries[at]
				}
			}
		}
		r.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
		note := func(name string, from, to int64, tries int) {
			for at := from; at < to; at++ {
				key := fmt.Sprint(name, at)
				if _, twice := got[key]; twice {
					t.Fatalf("window %s twice", key)
				}
				got[key] = tries
			}
		}
		pieces, left := f.order(spans, now)
		for _, p := range pieces {
			note(p.measurement, p.from, p.to, p.tries)
		}
		for _, x := range left {
			if now.Before(x.again) {
				note(x.measurement, x.from, x.to, -x.tries)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("spans %v: got %v, want %v", spans, got, want)
		}
	}
}
