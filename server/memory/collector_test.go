package memory

import "testing"

func TestCollectorPercent(t *testing.T) {
	const mib = 1 << 20
	var got []int
	c := &collector{least: 64 * mib, set: func(percent int) int { got = append(got, percent); return 0 }}
	for _, k := range []struct {
		live, scanned uint64
		want          int // 0: as it was
	}{
		{0, 0, 1586},
		{2 * mib, mib, 1598 /* as it was: within a sixteenth */},
		{64 * mib, 0, 86},
		{64 * mib, 64 * mib, 136},
		{256 * mib, 0, 11},
		{1024 * mib, 10 * mib, 5},
		{1024 * mib, 11 * mib, 5},
		{1024 * mib, 4096 * mib, 54},
	} {
		if p := c.percentOf(k.live, k.scanned); p != k.want {
			t.Errorf("live %d, scanned %d: %d, want %d", k.live, k.scanned, p, k.want)
		}
		c.follow(k.live, k.scanned)
	}
	want := []int{1586, 86, 136, 11, 5, 54}
	if len(got) != len(want) {
		t.Fatalf("set %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("set %v, want %v", got, want)
		}
	}
}
