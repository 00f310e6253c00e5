package monitor_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/model"
	"tsdbd/query/show"
	"tsdbd/services/input/inputtest"
	"tsdbd/services/monitor"
)

// store is the inputs' with a policy of a length.
type store struct{ inputtest.Store }

func (s *store) EnsurePolicy(ctx context.Context, db, rp string, duration time.Duration) error {
	if duration != 7*24*time.Hour {
		return errors.New("it would be kept too long or not long enough")
	}
	return s.Ensure(ctx, db, rp)
}

func TestService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var broken atomic.Bool
		var log bytes.Buffer
		m := monitor.Start(monitor.Options{
			Writer: s, Logger: slog.New(slog.NewTextHandler(&log, nil)), Hostname: "h", Interval: 10 * time.Second,
			Statistics: func(context.Context) ([]show.Statistic, error) {
				if broken.Load() {
					return nil, errors.New("out of order")
				}
				return []show.Statistic{
					{Name: "a", Tags: model.Tags{{Key: "database", Value: "d d"}, {Key: "x"}}, Values: map[string]any{"i": int64(-1), "b": true, "s": "x", "f": 1.5, "u": uint64(1), "n": math.NaN()}},
					{Name: "empty"},
					{Name: "odd", Values: map[string]any{"v": struct{}{}}},
					{Name: `bad\`, Values: map[string]any{"v": int64(1)}},
				}, nil
			},
		})
		defer m.Close()
		time.Sleep(10 * time.Second) // the bubble begins at midnight
		synctest.Wait()
		const want = `a,database=d\ d,hostname=h b=1,f=1.5,i=18446744073709551615,s="x",u=1 946684810000000000`
		if got := s.Points(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		s.Drop("_internal", "") // it comes again
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n, _ := s.Count(); n != 2 {
			t.Errorf("%d points", n)
		}
		broken.Store(true)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		broken.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		m.Close()
		if text := log.String(); strings.Count(text, "statistics not written") != 1 || strings.Count(text, "written again") != 1 {
			t.Errorf("log: %s", text)
		}
		time.Sleep(time.Minute)
		if n, _ := s.Count(); n != 3 {
			t.Errorf("%d points after the end", n)
		}
	})
}
