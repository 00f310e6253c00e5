package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/aside"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/store/move"
	"tsdbd/wal/entry"
)

// openHours opens a store with a downsample of autogen into hours. The source has a shard
// group from 1970 on, so rows of hours before it cannot be computed again.
func openHours(t *testing.T, opt Options, functions ...string) *testStore {
	s := openTest(t, opt.FS, opt)
	s.create("db")
	hours := meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours"}}
	down := meta.CreateDownsample{Database: "db", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: functions}}}
	s.must(errors.Join(s.Apply(t.Context(), hours), s.Apply(t.Context(), down)))
	s.must(s.write("db", fmt.Sprintf("m,h=a v=1 %d", time.Hour*24*365)))
	return s
}

// lost is lines of hours, n hours before 1970.
func lost(series, fields string, hours ...int) (lines string) {
	for _, n := range hours {
		lines += fmt.Sprintf("%s %s %d\n", series, fields, -int64(n)*int64(time.Hour))
	}
	return lines
}

// hours returns what the policy hours has, as lines without times of hours, and whether some
// of it is staged.
func (s *testStore) hours() (text string, staged bool) {
	got, err := readPolicy(s.Store, "db", "hours", false)
	s.must(err)
	var lines []string
	for key, value := range got {
		series, at, field := splitKey(key)
		staged = staged || meta.Staged(series)
		lines = append(lines, fmt.Sprintf("%s %s=%s -%dh", series, field, value, -at/int64(time.Hour)))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", "), staged
}

// stageLog is a log that counts entries with staged rows, and calls a function before them and
// before moves.
type stageLog struct {
	Log
	before func(staged int) error // how many entries with staged rows there are; 0: a move
	staged int
}

func (l *stageLog) Append(e *entry.Entry) error {
	n := -1
	if len(e.Writes) > 0 && meta.Staged(e.Writes[0].Rows[0].Layout.Measurement) {
		l.staged++
		n = l.staged
	} else if e.Move != nil {
		n = 0
	}
	if n >= 0 && l.before != nil {
		if err := l.before(n); err != nil {
			return err
		}
	}
	return l.Log.Append(e)
}

// besides is a context of a move, which calls a function each time that rows were staged. The
// move holds no lock then.
type besides struct {
	context.Context
	log  *stageLog
	seen int
	call func(staged int)
}

func (c *besides) Err() error {
	if c.seen < c.log.staged {
		c.seen = c.log.staged
		c.call(c.seen)
	}
	return c.Context.Err()
}

// meeting writes rows of series that become one by "UPDATE m DROP TAG h".
func (s *testStore) meeting() {
	s.must(s.writeTo("hours", lost("m,h=a", "count_v=1i,sum_v=10", 1)+lost("m,h=b", "count_v=2i,sum_v=20", 1)+lost("m,h=a", "count_v=5i", 2)))
}

var dropTag = scan.MoveRequest{Database: "db", Change: model.Change{Measurement: "m", To: "m", Drop: []string{"h"}}}

// What meeting writes, and what becomes of it.
const (
	apart    = "m,h=a count_v=1i -1h, m,h=a count_v=5i -2h, m,h=a sum_v=10 -1h, m,h=b count_v=2i -1h, m,h=b sum_v=20 -1h"
	together = "m count_v=3i -1h, m count_v=5i -2h, m sum_v=30 -1h"
)

// TestFoldBeside changes rows between the time that they are folded and the time that the
// move is logged. The move folds them again, or leaves all as it is.
func TestFoldBeside(t *testing.T) {
	for _, c := range []struct {
		what   string
		beside func(s *testStore, n int) error
		staged int // entries with staged rows
		answer string
		want   string
	}{
		{"nothing", func(*testStore, int) error { return nil }, 1, "2 series, 1 merged", together},
		{"rows that can be computed again", func(s *testStore, n int) error {
			return s.writeTo("hours", fmt.Sprintf("m,h=b count_v=7i %d", time.Hour*24*365))
		}, 1, "2 series, 1 merged", "m count_v=3i -1h, m count_v=5i -2h, m count_v=7i --8760h, m sum_v=30 -1h"},
		{"rows of the source", func(s *testStore, n int) error { return s.write("db", fmt.Sprintf("m,h=b v=1 %d", time.Hour*24*365)) }, 1, "3 series, 2 merged", together},
		{
			"rows of the source where it had none", func(s *testStore, n int) error { return s.write("db", "m,h=b v=1 1") }, 1, "2 series, 1 merged",
			"m count_v=2i -1h, m count_v=5i -2h, m sum_v=20 -1h",
		}, // to be computed again
		{"a row that has expired", func(s *testStore, n int) error {
			if n > 1 {
				return nil
			}
			return s.writeTo("hours", lost("m,h=c", "count_v=7i", 2))
		}, 2, "3 series, 2 merged", "m count_v=12i -2h, m count_v=3i -1h, m sum_v=30 -1h"},
		{"a delete", func(s *testStore, n int) error {
			if n == 1 {
				s.statement(fmt.Sprintf("DELETE m -%d", 2*time.Hour))
			}
			return nil
		}, 2, "2 series, 1 merged", "m count_v=3i -1h, m sum_v=30 -1h"},
		{"a delete of all that meets", func(s *testStore, n int) error {
			s.statement(fmt.Sprintf("DELETE m -%d", time.Hour))
			return nil
		}, 1, "1 series, 0 merged", "m count_v=5i -2h"},
		{"a delete of staged rows", func(s *testStore, n int) error {
			if n == 1 {
				s.statement(fmt.Sprintf("DELETE _fold:m -%d", time.Hour))
			}
			return nil
		}, 2, "2 series, 1 merged", together},
		{"another move", func(s *testStore, n int) error {
			if n == 1 {
				s.statement("UPDATE m SET h = 'c' WHERE h = 'b'")
			}
			return nil
		}, 2, "2 series, 1 merged", together},
		{"a drop of the downsample", func(s *testStore, n int) error {
			if n > 1 {
				return nil
			}
			return s.Apply(context.Background(), meta.DropDownsample{Database: "db", From: "autogen", Into: "hours"})
		}, 2, "2 series, 1 merged", together},
		{"rows all the time", func(s *testStore, n int) error {
			return s.writeTo("hours", lost("m,h=c", "x=1", 9))
		}, 3, move.ErrFoldBusy.Error(), apart + ", m,h=c x=1 -9h"},
	} {
		s := openHours(t, testOptions(vfstest.New()), "count", "sum")
		s.meeting()
		log := &stageLog{Log: s.log}
		s.log = log
		moved, err := s.Move(&besides{t.Context(), log, 0, func(n int) { s.must(c.beside(s, n)) }}, dropTag)
		answer := fmt.Sprintf("%d series, %d merged", moved.Series, moved.Merged)
		if err != nil {
			answer = err.Error()
		}
		if got, _ := s.hours(); got != c.want || answer != c.answer || log.staged != c.staged {
			t.Errorf("%s: %s, staged %d times: %s\nwant %s, %d: %s", c.what, answer, log.staged, got, c.answer, c.staged, c.want)
		}
		s.must(s.Close())
	}
}

// TestFoldRefused has a move fail at its staged rows, or at its entry. Nothing is changed, and
// no staged rows are left, but if the log takes nothing more. They go with the next move then, or
// when a node begins to lead.
func TestFoldRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		at   int // entry with staged rows that fails, 0: the move
		err  error
		want string
	}{
		{"a full disk", 1, syscall.ENOSPC, "refused: stage rows of series that become one: disk full: no space left on device"},
		{"a full disk for the entry", 0, syscall.ENOSPC, "refused: disk full: no space left on device"},
		{"a leader that no longer leads", 1, ErrNotLeader, "refused: stage rows of series that become one: " + ErrNotLeader.Error()},
	} {
		s := openHours(t, testOptions(vfstest.New()), "count", "sum")
		s.meeting()
		s.log = &stageLog{Log: s.log, before: func(n int) error {
			if n == c.at {
				return c.err
			}
			return nil
		}}
		if answer := s.statement("UPDATE m DROP TAG h")[0]; answer != c.want {
			t.Errorf("%s: %s, want %s", c.what, answer, c.want)
		}
		if got, _ := s.hours(); got != apart {
			t.Errorf("%s: %s, want %s", c.what, got, apart)
		}
		s.must(s.Close())
	}
	for _, next := range []string{"UPDATE m DROP TAG h", "lead"} {
		s := openHours(t, testOptions(vfstest.New()), "count", "sum")
		s.meeting()
		working := s.log
		s.log = &stageLog{Log: working, before: func(n int) error {
			if n == 0 {
				s.following.Store(true) // deletes are refused, too
				return ErrNotLeader
			}
			return nil
		}}
		s.statement("UPDATE m DROP TAG h")
		if got, staged := s.hours(); !staged {
			t.Fatalf("no staged rows: %s", got)
		}
		s.following.Store(false)
		s.log = working
		want := apart
		if next == "lead" {
			s.must(s.RemoveStaged(t.Context()))
		} else {
			s.must(s.writeTo("hours", lost("m,h=b", "count_v=4i", 1)))
			s.statement(next)
			want = strings.Replace(together, "3i", "5i", 1)
		}
		if got, _ := s.hours(); got != want {
			t.Errorf("%s: %s, want %s", next, got, want)
		}
		s.must(s.Close())
	}
}

// TestFoldEnds ends a move while it folds.
func TestFoldEnds(t *testing.T) {
	s := openHours(t, testOptions(vfstest.New()), "count", "sum")
	s.meeting()
	ctx, cancel := context.WithCancel(t.Context())
	log := &stageLog{Log: s.log}
	s.log = log
	if _, err := s.Move(&besides{ctx, log, 0, func(int) { cancel() }}, dropTag); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got, _ := s.hours(); got != apart {
		t.Errorf("%s, want %s", got, apart)
	}
	s.must(s.Close())
}

// TestFoldWaitsWithoutTurn has a move wait for another one that folds. It gives its turn of queries
// away meanwhile: the other one may have given its own away for a read of the cold store, and
// must get one to go on.
func TestFoldWaitsWithoutTurn(t *testing.T) {
	s := openHours(t, testOptions(vfstest.New()), "count", "sum")
	s.meeting()
	s.folding <- struct{}{}
	waited := false
	ctx := aside.With(t.Context(), func(_ context.Context, f func() error) error {
		if len(s.folding) == 1 && !waited {
			waited = true
			<-s.folding
		}
		return f()
	})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := s.Move(ctx, dropTag); err != nil || !waited {
		t.Errorf("%v, gave its turn away: %t", err, waited)
	}
	if got, _ := s.hours(); got != together {
		t.Errorf("%s, want %s", got, together)
	}
	s.must(s.Close())
}

// TestFoldHasNoLimits folds rows in a database that has as many series as it may, in a policy
// that takes no writes of their time.
func TestFoldHasNoLimits(t *testing.T) {
	opt := testOptions(vfstest.New())
	opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = 2, 2
	s := openHours(t, opt, "count", "sum")
	s.meeting()
	past := time.Hour
	s.must(s.Apply(t.Context(), meta.AlterRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours", PastWriteLimit: &past}}))
	if answer := s.statement("UPDATE m DROP TAG h")[0]; answer != "2 series, 1 merged" {
		t.Error(answer)
	}
	if got, _ := s.hours(); got != together {
		t.Errorf("%s, want %s", got, together)
	}
	s.must(s.Close())
}

// TestFoldMany folds more rows than are folded at once, of more series than are read at once.
func TestFoldMany(t *testing.T) {
	if testseed.Race {
		t.Skip("one goroutine folds much, which takes minutes")
	}
	for _, c := range []struct{ series, rows, fields int }{{3, 20_000, 1}, {100, 30, 2}, {2, 60, 6_000}} {
		s := openHours(t, testOptions(vfstest.New()), "sum", "max")
		want := points{}
		sums := map[string][2]int{}
		for k := range c.series {
			var lines strings.Builder
			for n := 1; n <= c.rows; n++ {
				if (n+k)%3 == 0 { // series have other hours
					continue
				}
				var fields []string
				for f := range c.fields {
					v := (n*7+k*5+f)%100 - 50
					fields = append(fields, fmt.Sprintf("sum_%d=%di,max_%d=%di", f, v, f, v))
					cell := fmt.Sprintf("%d %d", n, f)
					old, ok := sums[cell]
					if !ok {
						old[1] = v
					}
					sums[cell] = [2]int{old[0] + v, max(old[1], v)}
				}
				lines.WriteString(lost(fmt.Sprintf("m,h=%d", k), strings.Join(fields, ","), n))
				if lines.Len() > 1<<20 {
					s.must(s.writeTo("hours", lines.String()))
					lines.Reset()
				}
			}
			s.must(s.writeTo("hours", lines.String()))
			if k == c.series/2 {
				for _, e := range s.entries() {
					s.flush(t.Context(), e)
				}
			}
		}
		for cell, v := range sums {
			var n, f int
			_, _ = fmt.Sscan(cell, &n, &f)
			for i, function := range []string{"sum", "max"} {
				want[pointKey("m", -int64(n)*int64(time.Hour), fmt.Sprintf("%s_%d", function, f))] = fmt.Sprintf("%di", v[i])
			}
		}
		if answer := s.statement("UPDATE m DROP TAG h")[0]; answer != fmt.Sprintf("%d series, %d merged", c.series+1, c.series) {
			t.Errorf("%+v: %s", c, answer)
		}
		got, err := readPolicy(s.Store, "db", "hours", false)
		s.must(err)
		if text := diff(got, want); text != "" {
			t.Errorf("%+v:\n%.1000s", c, text)
		}
		s.must(s.Close())
	}
}
