package recorder

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestHour records two counts for more than an hour: the last hour is kept, together with the
// figures of the moment.
func TestHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := New([]Figure{"seconds", "twice"}, func(values []float64) {
			values[0] = time.Since(begin).Seconds()
			values[1] = 2 * values[0]
		})
		check := func(want int) {
			t.Helper()
			all := s.Samples()
			if len(all.Times) != want || len(all.Figures) != 2 {
				t.Fatalf("%d samples of %d figures at %v, want %d", len(all.Times), len(all.Figures), time.Since(begin), want)
			}
			for i, at := range all.Times {
				sec := at.Sub(begin).Seconds()
				if all.Figures["seconds"][i] != sec || all.Figures["twice"][i] != 2*sec || i > 0 && i < want-1 && at.Sub(all.Times[i-1]) != Interval {
					t.Fatalf("sample %d is of %v: %v, %v", i, at.Sub(begin), all.Figures["seconds"][i], all.Figures["twice"][i])
				}
			}
			if !all.Times[want-1].Equal(time.Now()) {
				t.Fatalf("the last sample is of %v", all.Times[want-1].Sub(begin))
			}
		}
		check(2) // that of the start, and that of now
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		check(4)
		time.Sleep(65 * time.Minute)
		synctest.Wait()
		check(Rows + 1)
		if oldest := time.Since(s.Samples().Times[0]); oldest > time.Hour {
			t.Errorf("the oldest sample is of %v ago", oldest)
		}
		cancel()
		<-ended
	})
}
