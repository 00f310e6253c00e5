package continuous

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
)

const head = "CREATE CONTINUOUS QUERY q ON d "

func TestDue(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("2006-01-02 15:04:05 -07", s+" +00")
		if err != nil {
			if v, err = time.Parse("2006-01-02 15:04:05 -07", s); err != nil {
				t.Fatal(err)
			}
		}
		return v
	}
	day := "2021-03-01 "
	for _, c := range []struct {
		q         string
		now, last string // last "": never ran
		want      string // "": not due
	}{
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:20:00", "", "12:00:00 13:00:00"},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:00:00", "12:00:00", "12:00:00 13:00:00"},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:59:59", "13:00:00", ""},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "15:30:00", "12:00:00", "12:00:00 15:00:00"}, // caught up
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h, 15m) END", "13:20:00", "", "12:15:00 13:15:00"},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h, 15m) END", "13:10:00", "12:15:00", ""},
		{"RESAMPLE FOR 2h BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:20:00", "", "11:00:00 13:00:00"},
		{"RESAMPLE EVERY 10m BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:20:00", "13:10:00", "13:00:00 14:00:00"},
		{"RESAMPLE EVERY 10m BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:00:00", "12:50:00", "12:00:00 13:00:00"},
		{"RESAMPLE EVERY 10m FOR 3h BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:20:00", "13:10:00", "11:00:00 14:00:00"},
		{"RESAMPLE EVERY 2h BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "14:20:00", "12:00:00", "12:00:00 14:00:00"},
		{"RESAMPLE EVERY 2h BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h) END", "13:20:00", "12:00:00", ""},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h), * END", "13:20:00", "", "12:00:00 13:00:00"},
		{"RESAMPLE EVERY 30m BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1h, 10m) END", "13:45:00", "13:10:00", "13:10:00 14:10:00"},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(31d, '1mo') END", "00:00:00", "", "2021-02-01 00:00:00 2021-03-01 00:00:00"},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(31d, '1mo') tz('Europe/Berlin') END", "00:00:00", "", "2021-01-31 23:00:00 2021-02-28 23:00:00"},
		{"RESAMPLE EVERY 1d BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(31d, '1mo') END", "13:00:00", "", "2021-02-01 00:00:00 2021-03-01 00:00:00"},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(93d, '1q 4d') END", "13:00:00", "", "2020-10-05 00:00:00 2021-01-05 00:00:00"},
		{"BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(1d) tz('Europe/Berlin') END", "23:30:00", "", "2021-02-28 23:00:00 2021-03-01 23:00:00"},
	} {
		p, err := parse(head + c.q)
		if err != nil {
			t.Errorf("%s: %v", c.q, err)
			continue
		}
		var last time.Time
		if c.last != "" {
			last = at(day + c.last)
		}
		start, end, _, ok := p.due(at(day+c.now), last)
		got := ""
		if ok {
			got = start.UTC().Format(time.TimeOnly) + " " + end.UTC().Format(time.TimeOnly)
			if len(c.want) > 20 {
				got = start.UTC().Format(time.DateTime) + " " + end.UTC().Format(time.DateTime)
			}
		}
		if got != c.want {
			t.Errorf("%s at %s after %s: %q, want %q", c.q, c.now, c.last, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, q := range []string{
		"SELECT v FROM m",
		"nonsense",
		head + "BEGIN SELECT v INTO o FROM m END",
	} {
		if _, err := parse(q); err == nil {
			t.Errorf("%s: no error", q)
		}
	}
}

// TestStatement: the range takes the place of all conditions on time, and of
// nothing else.
func TestStatement(t *testing.T) {
	p, err := parse(head + "BEGIN SELECT mean(v) INTO o FROM m WHERE (h = 'a' OR h = 'b') AND time > now() - 1h GROUP BY time(1h), * END")
	if err != nil {
		t.Fatal(err)
	}
	q, err := p.Over(time.Unix(3600, 0), time.Unix(7200, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := "SELECT mean(v) INTO o FROM m WHERE (h = 'a' OR h = 'b') AND time >= '1970-01-01T01:00:00Z' AND time < '1970-01-01T02:00:00Z' GROUP BY time(1h), *"
	if got := q.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// kept is a catalog that keeps how far queries have come.
type kept struct{ atomic.Pointer[meta.Data] }

func (k *kept) save(_ context.Context, runs []meta.QueryRun) error {
	next, err := meta.Apply(meta.SetContinuousRuns{Runs: runs}, k.Load())
	if err == nil {
		k.Store(next)
	}
	return err
}

// running is a Service that runs until Close.
type running struct {
	*Service
	Close func()
}

func start(opt Options) running {
	s := New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return running{s, func() { cancel(); <-done }}
}

// catalog returns data with continuous queries of the database d.
func catalog(t *testing.T, queries ...string) *meta.Data {
	t.Helper()
	db := &meta.Database{Name: "d"}
	for i, q := range queries {
		db.ContinuousQueries = append(db.ContinuousQueries, meta.ContinuousQuery{Name: fmt.Sprint("q", i), Query: head + q})
	}
	return &meta.Data{Databases: []*meta.Database{db}}
}

type partialError struct{ error }

func (partialError) PartialWrite() (string, int) { return "", 1 }

// recorder is an Execute that keeps the ranges asked for.
type recorder struct {
	mu     sync.Mutex
	ranges []string
	err    error
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *recorder) execute(_ context.Context, db string, q *influxql.Query) error {
	stmt := q.Statements[0].(*influxql.SelectStatement)
	_, tr, err := influxql.ConditionExpr(stmt.Condition, nil)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := tr.Min.Format("15:04") + "-" + tr.Max.Add(1).Format("15:04")
	if r.err != nil {
		text += " failed"
	}
	r.ranges = append(r.ranges, text)
	return r.err
}

// forget drops what ran so far.
func (r *recorder) forget() {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ranges = nil
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.ranges, want) {
		t.Errorf("ran %q, want %q", r.ranges, want)
	}
	r.ranges = nil
}

func TestService(t *testing.T) {
	// The clock of the bubble begins at 2000-01-01 00:00 UTC.
	synctest.Test(t, func(t *testing.T) {
		var data kept
		data.Store(catalog(t, "BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(10m) END"))
		r := &recorder{}
		opt := Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Catalog: data.Load, Execute: r.execute, Save: data.save}
		time.Sleep(65 * time.Minute)
		s := start(opt)
		r.expect(t, "00:50-01:00") // as soon as it is seen
		time.Sleep(10 * time.Minute)
		r.expect(t, "01:00-01:10")

		// A failure is tried again, over what has ended since.
		r.fail(errors.New("no"))
		time.Sleep(5 * time.Minute)
		r.expect(t, "01:10-01:20 failed")
		time.Sleep(time.Second)
		r.expect(t, "01:10-01:20 failed")
		r.fail(nil)
		time.Sleep(2 * time.Second)
		r.expect(t, "01:10-01:20")
		if ok, bad := s.Counts(); ok != 3 || bad != 2 {
			t.Errorf("counts %d %d", ok, bad)
		}

		// Points that cannot be stored do not hold it up.
		r.fail(partialError{errors.New("beyond")})
		time.Sleep(10 * time.Minute)
		r.expect(t, "01:20-01:30 failed")
		r.fail(nil)
		s.Close()

		// What ended while it was down is made up.
		time.Sleep(60 * time.Minute)
		s = start(opt)
		r.expect(t, "01:30-02:30")
		s.Close()

		// A query of another text begins anew; one that cannot run is left alone.
		data.Store(catalog(t, "BEGIN SELECT max(v) INTO o FROM m GROUP BY time(10m) END", "BEGIN SELECT v INTO o FROM m END"))
		time.Sleep(60 * time.Minute)
		s = start(opt)
		r.expect(t, "03:20-03:30")
		time.Sleep(20 * time.Minute)
		r.expect(t, "03:30-03:40", "03:40-03:50")
		if _, bad := s.Counts(); bad != 1 {
			t.Errorf("%d failures, want the one of the query that cannot run", bad)
		}
		s.Close()

		// Not further back than CatchUp, and not at all if it is negative.
		time.Sleep(5 * time.Hour)
		opt.CatchUp = time.Hour
		s = start(opt)
		r.expect(t, "07:50-08:50")
		s.Close()
		time.Sleep(5 * time.Hour)
		opt.CatchUp = -1
		s = start(opt)
		r.expect(t, "13:40-13:50")
		s.Close()
	})
}

// TestClockAhead sets the wall clock ahead for a while: once it is right again
// the query goes on at once, over all that ended since it last ran by a right
// clock, also if the server was restarted meanwhile.
func TestClockAhead(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var data kept
				data.Store(catalog(t, "BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(10m) END"))
				r := &recorder{}
				var ahead atomic.Int64
				var log strings.Builder
				opt := Options{
					Logger: slog.New(slog.NewTextHandler(&log, nil)), Catalog: data.Load, Execute: r.execute, Save: data.save,
					Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
				}
				var s running
				clock := func(d time.Duration) {
					time.Sleep(300 * time.Millisecond) // not while a visit is due: a stop would cut it off, and it would be repeated
					ahead.Store(int64(d))
					if restart {
						s.Close()
						s = start(opt)
					}
				}
				time.Sleep(65 * time.Minute)
				s = start(opt)
				r.expect(t, "00:50-01:00")

				// 01:05. Two hours ahead for 11 minutes: two runs.
				clock(2 * time.Hour)
				time.Sleep(11 * time.Minute)
				r.expect(t, "01:00-03:00", "03:00-03:10")
				clock(0)
				time.Sleep(2 * time.Second)
				r.expect(t, "01:00-01:10") // 01:16: computed before it had all its points
				time.Sleep(10 * time.Minute)
				r.expect(t, "01:10-01:20")
				if n := strings.Count(log.String(), "the wall clock was ahead"); n != 1 {
					t.Errorf("logged %d times:\n%s", n, log.String())
				}

				// A long rest is no jump: a small one after it brings nothing else back.
				s.Close()
				time.Sleep(65 * time.Minute) // 02:31
				s = start(opt)
				r.expect(t, "01:20-02:30")
				time.Sleep(8 * time.Minute)
				clock(2 * time.Minute)
				time.Sleep(2 * time.Second)
				r.expect(t, "02:30-02:40")
				clock(0)
				time.Sleep(2 * time.Second)
				r.expect(t)
				time.Sleep(time.Minute)
				r.expect(t, "02:30-02:40")

				// A failure while the clock is ahead is tried again when it is right.
				clock(24 * time.Hour)
				r.fail(errors.New("no"))
				time.Sleep(500 * time.Millisecond)
				r.forget()
				time.Sleep(10 * time.Second)
				r.fail(nil)
				r.forget()
				clock(0)
				time.Sleep(10 * time.Minute)
				r.expect(t, "02:40-02:50")
				s.Close()
			})
		})
	}
}

// TestSaveFails: what is not kept is kept by a later visit, and by one command for all
// queries that ran. A service that cannot keep it runs again what another ran.
func TestSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var data kept
		data.Store(catalog(t, "BEGIN SELECT mean(v) INTO o FROM m GROUP BY time(10m) END", "BEGIN SELECT max(v) INTO o FROM m GROUP BY time(10m) END"))
		r := &recorder{}
		var fail atomic.Bool
		var saves []int
		fail.Store(true)
		opt := Options{Catalog: data.Load, Execute: r.execute, Save: func(ctx context.Context, runs []meta.QueryRun) error {
			saves = append(saves, len(runs))
			if fail.Load() {
				return errors.New("no leader")
			}
			return data.save(ctx, runs)
		}}
		time.Sleep(65 * time.Minute)
		s := start(opt)
		r.expect(t, "00:50-01:00", "00:50-01:00")
		s.Close()
		s = start(opt)
		r.expect(t, "00:50-01:00", "00:50-01:00")
		fail.Store(false)
		time.Sleep(2 * time.Second)
		s.Close()
		if !slices.Equal(saves, []int{2, 2, 2}) {
			t.Errorf("saved %v", saves)
		}
		s = start(opt)
		r.expect(t)
		s.Close()
	})
}
