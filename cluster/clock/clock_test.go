package clock

import (
	"math"
	"testing"
	"time"
)

func TestOffset(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	f := func(read, sent, received, want float64) {
		t.Helper()
		if got := Offset(at(read).UnixMicro(), at(sent), at(received)); got.Seconds() != want {
			t.Errorf("%v between %v and %v: %v", read, sent, received, got)
		}
	}
	f(1, 0, 2, 0)
	f(2, 0, 2, 0) // the answer was at once
	f(10, 0, 2, 8)
	f(-10, 0, 2, -10)
	f(5, 0, 0, 5)
	f(5, 9000, 0, 5) // the clock of this node was set back meanwhile
	for _, read := range []int64{0, math.MinInt64, math.MaxInt64} {
		for _, now := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			if got := Offset(read, now, now); got.Abs() > farthest {
				t.Errorf("%d at %v: %v", read, now, got)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	const h = time.Hour
	f := func(want string, voters int, ahead ...time.Duration) {
		t.Helper()
		clocks := []Reading{{"n1", 0, true}}
		for i, a := range ahead {
			clocks = append(clocks, Reading{"n" + string(rune('2'+i)), a, i < voters-1})
		}
		if got := Judge(clocks, voters, time.Minute); got.Text != want {
			t.Errorf("%v of %d: %q, want %q", ahead, voters, got.Text, want)
		}
	}
	f("", 1)
	f("", 3, time.Second, -time.Minute)
	f("", 3, h, 0)
	f("", 3, 45*time.Second, 90*time.Second) // the middle one agrees with all
	f("its clock is 1h0m0s behind that of most voters: set it (NTP)", 3, h, h)
	f("its clock is 30m0s ahead of that of most voters: set it (NTP)", 3, -h/2, -h/2)
	f("its clock is 20454 days ahead of that of most voters: set it (NTP)", 3, -20454*24*h, -20454*24*h)
	f("its clock is decades behind that of most voters: set it (NTP)", 3, farthest, farthest)
	f("its clock is 1h0m0s behind that of n2, and no majority tells which is right: set both (NTP)", 2, h)
	f("its clock is 1h0m0s ahead of that of n2, and no majority tells which is right: set both (NTP)", 3, -h)
	f("its clock is 1h0m0s behind that of n2, and no majority tells which is right: set both (NTP)", 3, h, -h)
	f("", 5, 0, 0, h, h)
	f("its clock is 1h0m0s behind that of most voters: set it (NTP)", 5, h, h, h, 0)
	f("", 2, 0, h) // who has no vote does not count
	f("its clock is 1h0m0s behind that of most voters: set it (NTP)", 3, h, h, 0)
}
