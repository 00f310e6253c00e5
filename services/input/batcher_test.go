package input_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/model"
	"tsdbd/services/input"
	"tsdbd/services/input/inputtest"
)

// busy is a failure that goes away.
type busy struct{}

func (busy) Error() string   { return "busy" }
func (busy) Temporary() bool { return true }

// partly is a write of which some was refused.
type partly struct{}

func (partly) Error() string               { return "partial write: too old dropped=1" }
func (partly) PartialWrite() (string, int) { return "too old", 1 }

func points(from, to int) []input.Point {
	var list []input.Point
	for i := from; i < to; i++ {
		list = append(list, input.Point{Measurement: "m", Fields: []input.Field{{Key: "v", Value: float64(i)}}, Time: int64(i)})
	}
	return list
}

func counts(b *input.Batcher) string {
	c := b.Counts()
	return fmt.Sprintf("points %d bad %d dropped %d written %d refused %d failed %d batches %d", c.Points.Load(), c.BadPoints.Load(),
		c.Dropped.Load(), c.Written.Load(), c.Refused.Load(), c.Failed.Load(), c.Batches.Load())
}

func TestBatchesBySizeAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &inputtest.Store{}
		b := input.NewBatcher(input.Options{Writer: s, Database: "d", BatchSize: 10, BatchTimeout: time.Second})
		check := func(wantPoints, wantBatches int) {
			t.Helper()
			synctest.Wait()
			if p, n := s.Count(); p != wantPoints || n != wantBatches {
				t.Errorf("%d points in %d batches, want %d in %d", p, n, wantPoints, wantBatches)
			}
		}
		b.Add(points(0, 9))
		check(0, 0)
		b.Offer(points(9, 25))
		check(20, 2)
		time.Sleep(999 * time.Millisecond)
		check(20, 2)
		time.Sleep(time.Millisecond)
		check(25, 3)
		b.AddLines([]byte("m v=1\nbad\nm v=2 7"), int64(time.Second), time.Unix(5, 1))
		b.AddLines([]byte("m v=3"), int64(time.Second), time.Unix(6, 1))
		b.Close(t.Context())
		check(28, 4)
		for _, want := range []string{"m v=1 5000000000", "m v=2 7000000000", "m v=3 6000000000"} {
			if !strings.Contains(s.Points(), want) {
				t.Errorf("no %s in %s", want, s.Points())
			}
		}
		if got := counts(b); got != "points 28 bad 1 dropped 0 written 28 refused 0 failed 0 batches 4" {
			t.Error(got)
		}
		if b.Add(points(0, 1)) {
			t.Error("a closed batcher takes points")
		}
	})
}

// What is temporary is tried again and the queue in front of it is bounded:
// Offer drops, Add waits.
func TestAFullStoreHoldsTheSendersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		s := &inputtest.Store{Fail: func() error {
			if full.Load() {
				return busy{}
			}
			return nil
		}}
		b := input.NewBatcher(input.Options{Writer: s, Database: "d", BatchSize: 10, BatchPending: 3})
		b.Offer(points(0, 100)) // 4 batches of 10
		if got := counts(b); got != "points 40 bad 0 dropped 60 written 0 refused 0 failed 0 batches 0" {
			t.Error(got)
		}
		b.AddLines([]byte("m v=1\nm v=2\n"), 1, time.Now())
		if got := b.Counts().Dropped.Load(); got != 62 {
			t.Errorf("%d points dropped, want 62", got)
		}
		var added atomic.Bool
		go func() { b.Add(points(100, 120)); added.Store(true) }()
		time.Sleep(time.Hour)
		if added.Load() {
			t.Error("Add does not wait")
		}
		full.Store(false)
		time.Sleep(time.Minute)
		if !added.Load() {
			t.Error("Add waits for ever")
		}
		b.Close(t.Context())
		if got, _ := s.Count(); got != 60 {
			t.Errorf("%d points written, want 60", got)
		}
	})
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &inputtest.Store{Fail: func() error { return busy{} }}
		b := input.NewBatcher(input.Options{Writer: s, Database: "d", BatchSize: 10, BatchPending: 1})
		var senders sync.WaitGroup
		senders.Go(func() { b.Add(points(0, 50)) }) // one: the bubble's clock stands while several wait for a lock
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		b.Close(ctx)
		senders.Wait()
		if d := time.Since(begin); d != time.Minute {
			t.Errorf("closed after %v", d)
		}
		if got := counts(b); got != "points 20 bad 0 dropped 30 written 0 refused 0 failed 20 batches 0" {
			t.Error(got)
		}
	})
}

func TestTheDatabaseIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &inputtest.Store{}
		b := input.NewBatcher(input.Options{Writer: s, Database: "d", RetentionPolicy: "p", BatchSize: 2})
		if _, err := s.Table("d"); err != nil {
			t.Error("not at the start:", err)
		}
		b.Add(points(0, 1))
		s.Drop("d", "p")
		b.Add(points(1, 2))
		synctest.Wait()
		if got, _ := s.Count(); got != 2 {
			t.Errorf("a policy that is gone is not made: %d points", got)
		}
		s.Drop("d", "")
		b.Add(points(2, 4))
		b.Close(t.Context())
		if got, _ := s.Count(); got != 4 {
			t.Errorf("a database that is gone is not made: %d points", got)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := error(partly{})
		s := &inputtest.Store{Fail: func() error { return fail }}
		b := input.NewBatcher(input.Options{Writer: s, Database: "d", BatchSize: 2})
		b.Add(points(0, 2))
		synctest.Wait()
		fail = errors.New("for good")
		b.Add(points(0, 2))
		b.Close(t.Context())
		if got := counts(b); got != "points 4 bad 0 dropped 0 written 1 refused 1 failed 2 batches 1" {
			t.Error(got)
		}
	})
}

func TestPoints(t *testing.T) {
	f := func(want string, p input.Point) {
		t.Helper()
		s := &inputtest.Store{}
		b := input.NewBatcher(input.Options{Writer: s, Database: "d"})
		bad, err := b.WritePoints(t.Context(), []input.Point{p})
		if err != nil {
			t.Fatal(err)
		}
		b.Close(t.Context())
		if bad != nil {
			if want == "" || !strings.Contains(bad.Error(), want) {
				t.Errorf("%+v: %v, want %s", p, bad, want)
			}
			return
		}
		if got := s.Points(); got != want {
			t.Errorf("%+v: %s, want %s", p, got, want)
		}
	}
	one := []input.Field{{Key: "v", Value: 1.5}}
	f("m v=1.5 7", input.Point{Measurement: "m", Fields: one, Time: 7})
	f(`a\ b,c=d\,e,z=1 v=1.5 7`, input.Point{Measurement: "a b", Tags: model.Tags{{Key: "z", Value: "1"}, {Key: "y"}, {Key: "c", Value: "d,e"}}, Fields: one, Time: 7})
	f("m v=1.5,w=2 0", input.Point{Measurement: "m", Fields: []input.Field{{Key: "v", Value: 1.5}, {Key: "w", Value: 2}}})
	f("occurs twice", input.Point{Measurement: "m", Fields: []input.Field{{Key: "v", Value: 1.5}, {Key: "v", Value: 2}}})
	f("without a measurement", input.Point{Fields: one})
	f("without fields", input.Point{Measurement: "m"})
	f("time outside range", input.Point{Measurement: "m", Fields: one, Time: math.MaxInt64})
	f("contains a newline", input.Point{Measurement: "m\nx", Fields: one})
	f("begins as a comment", input.Point{Measurement: "#m", Fields: one})
	f("duplicate tag", input.Point{Measurement: "m", Tags: model.Tags{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}}, Fields: one})
	f("not a number", input.Point{Measurement: "m", Fields: []input.Field{{Key: "v", Value: math.NaN()}}})
	f("infinite", input.Point{Measurement: "m", Fields: []input.Field{{Key: "v", Value: math.Inf(-1)}}})
	f("is empty", input.Point{Measurement: "m", Fields: []input.Field{{Key: "", Value: 1}}})
	f("backslash", input.Point{Measurement: "m", Fields: []input.Field{{Key: `a\`, Value: 1}}})
	f("max key length", input.Point{Measurement: strings.Repeat("m", 65530), Fields: []input.Field{{Key: "abc", Value: 1}}})
}
