package apptest

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestSetClock has a server stamp points by another clock, back and forth.
func TestSetClock(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Query("", "CREATE DATABASE db")
	for i, ahead := range []time.Duration{time.Hour, -time.Hour, 48 * time.Hour, 0} {
		if err := s.SetClock(ahead); err != nil {
			t.Skipf("no clock is set: %v", err)
		}
		s.Write("db", fmt.Sprintf("m%d v=1", i))
		now := time.Now()
		first, err := s.Count("db", fmt.Sprintf("SELECT count(v) FROM m%d WHERE time > %d AND time < %d", i, now.Add(ahead-2*time.Minute).UnixNano(), now.Add(ahead+2*time.Minute).UnixNano()))
		if err != nil || first != 1 {
			t.Errorf("%v: the point has another time: %d %v %s", ahead, first, err, s.Query("db", fmt.Sprintf("SELECT * FROM m%d WHERE time < %d", i, int64(math.MaxInt64-1))))
		}
	}
}
