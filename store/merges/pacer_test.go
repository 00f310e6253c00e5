package merges

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace holds merges to their rate, and lets them wait for flushes, but not
// for ever.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pacer
		f := func(what string, least, most time.Duration, pace func() error) {
			t.Helper()
			start := time.Now()
			if err := pace(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(start); took < least || took > most {
				t.Errorf("%s took %v", what, took)
			}
		}
		ctx := t.Context()
		p.Rate.Store(1 << 20)
		f("512 KiB at 1 MiB a second", 450*time.Millisecond, 500*time.Millisecond, func() error {
			for range 8 {
				if err := p.Pace(ctx, 64<<10); err != nil {
					return err
				}
			}
			return nil
		})
		p.Rate.Store(0)
		time.AfterFunc(50*time.Millisecond, p.Flush())
		f("a flush of 50 ms", 50*time.Millisecond, 50*time.Millisecond+paceTick, func() error { return p.Pace(ctx, 1<<30) })
		defer p.Flush()()
		f("a flush without end", flushWait, flushWait+paceTick, func() error { return p.Pace(ctx, 1) })
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(20*time.Millisecond, cancel)
		f("a merge that is canceled", 20*time.Millisecond, 20*time.Millisecond, func() error {
			if err := p.Pace(ctx, 1); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("ended with %w", err)
			}
			return nil
		})
	})
}
