package shard

import (
	"fmt"
	"testing"
)

func TestPlan(t *testing.T) {
	f := func(cold bool, want string, files ...fact) {
		t.Helper()
		lo, hi, level := plan(files, cold)
		if got := fmt.Sprintf("%d-%d L%d", lo, hi, level); got != want {
			t.Errorf("plan = %s, want %s", got, want)
		}
	}
	l := func(level int) fact { return fact{size: 1 << 20, level: level} }
	big := fact{size: maxFileBytes, level: fullLevel}
	f(false, "0-0 L0")
	f(false, "0-0 L0", l(0), l(0), l(0))
	f(false, "0-4 L1", l(0), l(0), l(0), l(0))
	f(false, "1-6 L1", l(1), l(0), l(0), l(0), l(0), l(0))
	f(false, "0-4 L2", l(1), l(1), l(1), l(1), l(0))
	f(false, "0-0 L0", l(0), l(0), l(1), l(0), l(0))
	f(false, "0-0 L0", l(0), l(0), fact{damaged: true}, l(0), l(0))
	f(true, "0-0 L0")
	f(true, "0-0 L0", l(0))
	f(true, "0-1 L9", fact{size: 1, masked: true})
	f(true, "0-2 L9", l(fullLevel), l(0))
	f(true, "1-3 L9", big, l(0), l(3))
	f(true, "0-0 L0", big, big)
	f(true, "2-4 L9", l(0), fact{damaged: true}, l(0), l(0))
}

// TestPlanEnds merges by plan until it has nothing more to say: it must, in a
// number of steps bounded by the number of files.
func TestPlanEnds(t *testing.T) {
	for n := range 100 {
		for _, cold := range []bool{false, true} {
			files := make([]fact, n)
			for i := range files {
				files[i] = fact{size: int64(1+i%7) << 20, level: i % 3}
			}
			steps := 0
			for {
				lo, hi, level := plan(files, cold)
				if lo == hi {
					break
				}
				merged := fact{level: level}
				for _, f := range files[lo:hi] {
					merged.size += f.size
				}
				files = append(append(append([]fact{}, files[:lo]...), merged), files[hi:]...)
				if steps++; steps > n {
					t.Fatalf("%d files, cold %v: still merging after %d steps", n, cold, steps)
				}
			}
			if cold && len(files) > 1 {
				t.Fatalf("%d files left of %d after full compaction", len(files), n)
			}
		}
	}
}
