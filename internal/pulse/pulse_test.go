package pulse

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTogether starts tickers at any time: they tick at the same times.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now() // a whole second
		time.Sleep(300 * time.Millisecond)
		a := NewTicker(time.Second)
		time.Sleep(900 * time.Millisecond)
		b := NewTicker(2 * time.Second)
		defer a.Stop()
		defer b.Stop()
		<-a.C
		<-b.C
		for range 3 {
			if at := (<-b.C).Sub(begin); at%(2*time.Second) != 0 {
				t.Errorf("a tick after %v", at)
			}
			if at := (<-a.C).Sub(begin); at%time.Second != 0 {
				t.Errorf("a tick after %v", at)
			}
		}
	})
}
