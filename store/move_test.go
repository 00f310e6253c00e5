package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/script"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
	"tsdbd/query/syntax"
	"tsdbd/store/move"
)

// TestMovesAgainstModel runs many moves among writes, deletes, flushes, merges and
// restarts, and compares every state with a map. Merges may read all of a shard, some
// of it, or the least that they can.
func TestMovesAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 31))
	for range testseed.Rounds(8) {
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.MergeBytes = []int64{0, 1, 2 << 10}[r.IntN(3)]
		s := openTest(t, fs, opt)
		s.create("db")
		d := newDriver(s, r)
		d.ddl, d.moves = r.IntN(2) == 0, true
		for i := range 120 {
			op := d.next()
			if err := op.run(); err != nil {
				t.Fatalf("step %d, %s: %v", i, op.name, err)
			}
			d.want = op.after
			if err := d.check(s); err != nil {
				t.Fatalf("step %d, %s: %v", i, op.name, err)
			}
			if i%30 == 29 {
				if err := d.restart(); err != nil {
					t.Fatal(err)
				}
				if err := d.check(s); err != nil {
					t.Fatalf("step %d, reopened: %v", i, err)
				}
			}
		}
		// Merges come to an end, and then no file needs the moves.
		s.makeMoves()
		if err := d.check(s); err != nil {
			t.Fatalf("merged: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMoveScripts runs testdata/move*.txt. "write" has lines of line protocol, "do"
// statements that move (or DELETE measurement time), "read" shows all points.
func TestMoveScripts(t *testing.T) {
	script.Run(t, "testdata/move*.txt", func(t *testing.T) func(script.Command) []string {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		t.Cleanup(func() { s.must(s.Close()) })
		return func(c script.Command) (out []string) {
			switch c.Name {
			case "write":
				s.must(s.write("db", strings.Join(c.Input, "\n")))
			case "do":
				for _, text := range c.Input {
					out = append(out, s.statement(text)...)
				}
			case "flush":
				for _, e := range s.entries() {
					s.flush(t.Context(), e)
				}
			case "merge":
				s.makeMoves()
			case "reopen":
				s.must(s.Close())
				again, err := Open("/data", s.opt)
				s.must(err)
				s.Store = again
			case "read":
				for key, value := range s.read("db") {
					series, at, field := splitKey(key)
					out = append(out, fmt.Sprintf("%s %s=%s %d", series, field, value, at))
				}
				slices.Sort(out)
			}
			return out
		}
	})
}

// TestMoveLimits has a limit of values of a tag: a move may replace values, but not add
// one too many. The number of series cannot grow.
func TestMoveLimits(t *testing.T) {
	opt := testOptions(vfstest.New())
	opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = 4, 2
	s := openTest(t, opt.FS, opt)
	s.create("db")
	s.must(s.write("db", "m,host=a v=1 1\nm,host=b v=1 1\nn,host=c v=1 1\nn,host=d v=1 1"))
	for _, c := range [][2]string{
		{"UPDATE m SET host = 'c' WHERE host = 'a'", "1 series, 0 merged"},
		{"ALTER MEASUREMENT m RENAME TO n", `refused: max-values-per-tag limit exceeded (3/2): measurement="n" tag="host"`},
		{"UPDATE m SET host = 'd' WHERE host = 'b'", "1 series, 0 merged"},
		{"UPDATE m SET rack = 'r1' WHERE host = 'c'", "1 series, 0 merged"},
		{"UPDATE m SET rack = 'r2' WHERE host = 'd'", "1 series, 0 merged"},
		{"UPDATE n SET rack = 'r3' WHERE host = 'd'", "1 series, 0 merged"},
		{"ALTER MEASUREMENT n RENAME TO m", `refused: max-values-per-tag limit exceeded (3/2): measurement="m" tag="rack"`},
		{"UPDATE m DROP TAG rack", "2 series, 0 merged"},
		{"ALTER MEASUREMENT n RENAME TO m", "2 series, 1 merged"},
	} {
		if got := s.statement(c[0]); len(got) != 1 || got[0] != c[1] {
			t.Errorf("%s: %q, want %s", c[0], got, c[1])
		}
	}
	s.must(s.Close())
}

// TestMoveOfGoneSeries deletes or moves series after they were selected to be moved. They
// are not moved then: no shard lists a series that it has no rows of.
func TestMoveOfGoneSeries(t *testing.T) {
	const late = int64(2_000_000_000_000_000_000) // in a shard of its own
	for _, c := range []struct {
		meanwhile string
		series    int
		want      []string // in both shards
	}{
		{"DELETE m 1", 2, []string{"m,h=b,t=x", "m,h=a,t=x"}},
		{fmt.Sprint("DELETE m ", late), 2, []string{"m,h=a,t=x m,h=b,t=x", ""}},
		{"UPDATE m SET h = 'c' WHERE h = 'a'", 2, []string{"m,h=b,t=x m,h=c,t=x", "m,h=c,t=x"}},
		{"ALTER MEASUREMENT m RENAME TO n", 0, []string{"n,h=a n,h=b", "n,h=a"}},
	} {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		s.must(s.write("db", fmt.Sprintf("m,h=a v=1 1\nm,h=b v=1 2\nm,h=a v=1 %d", late)))
		asked := 0
		moved, err := s.Move(t.Context(), scan.MoveRequest{
			Database: "db",
			Change:   model.Change{Measurement: "m", To: "m", Set: model.Tags{{Key: "t", Value: "x"}}},
			Where: func(string, []column.Field) (*model.TagExpr, error) {
				if asked++; asked == 2 { // the series of both shards are looked at as they were before
					s.statement(c.meanwhile)
				}
				return nil, nil
			},
		})
		s.must(err)
		if got := s.listed("m", "n"); moved.Series != c.series || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d series moved, shards list %q, want %d and %q", c.meanwhile, moved.Series, got, c.series, c.want)
		}
		s.must(s.Close())
	}
}

// TestMovesAmongNewSeries moves the series of a measurement again and again while others
// write new ones, and while claims are dropped. No point is lost or comes twice, and after the
// last move all have its tag.
func TestMovesAmongNewSeries(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	s.must(s.write("db", "m,host=h v=0 1"))
	const writers, each = 3, 150
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := s.writeTo("", fmt.Sprintf("m,host=h%d_%d v=%d %d", w, i, i, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	db, err := s.database("db")
	s.must(err)
	written := make(chan struct{})
	go func() { wg.Wait(); close(written) }()
	for i, done := 0, false; !done; i++ {
		select {
		case <-written:
			done = true
		default:
		}
		if i%3 == 0 {
			s.takeBack(db)
		}
		if got := s.statement(fmt.Sprintf("UPDATE m SET gen = '%d'", i))[0]; strings.HasPrefix(got, "refused") {
			t.Fatal(got)
		}
		if i%20 == 19 {
			s.makeMoves()
		}
	}
	s.must(agree(s.Store))
	got := s.read("db")
	if len(got) != writers*each+1 {
		t.Errorf("%d points, want %d", len(got), writers*each+1)
	}
	gens := map[string]bool{}
	for key := range got {
		series, _, _ := splitKey(key)
		_, tags := model.ParseSeriesKey(series, nil)
		gens[tags.Get("gen")] = true
	}
	if len(gens) != 1 || gens[""] {
		t.Errorf("generations %v", gens)
	}
	s.must(s.Close())
}

// TestMoveBesideNewShard writes to a shard that is made while a move is worked out. Its series
// are moved too: they were acknowledged before the move.
func TestMoveBesideNewShard(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	s.must(s.write("db", "m,h=a v=1 1"))
	write := sync.OnceFunc(func() { s.must(s.write("db", "m,h=b v=2 2000000000000000000")) })
	req := scan.MoveRequest{Database: "db", Change: model.Change{Measurement: "m", To: "m", Set: model.Tags{{Key: "g", Value: "x"}}}}
	req.Where = func(string, []column.Field) (*model.TagExpr, error) { write(); return nil, nil }
	_, err := s.Move(t.Context(), req)
	s.must(err)
	for key := range s.read("db") {
		if !strings.Contains(key, "g=x") {
			t.Errorf("%s was not moved", key)
		}
	}
	s.must(s.Close())
}

// TestMovesWaiting makes as many moves as may wait, while no cache is flushed: one more is
// refused, where it concerns the shard. Then the moves that wait are made at once, without
// a write or a flush that anybody asks for, and moves go on.
func TestMovesWaiting(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	s.must(s.write("db", "m,h=a v=1 1\no,h=a v=1 2000000000000000000")) // two shards
	e := s.entries()[0]
	s.flushing.Lock()
	for i := range 1024 {
		if got := s.statement(fmt.Sprintf("UPDATE m SET h = '%d'", i%2)); got[0] != "1 series, 0 merged" {
			t.Fatalf("move %d: %s", i, got)
		}
	}
	refused := "refused: 1024 moves wait for merges of shard 1, and at most 1024 may: repeat the statement later"
	for text, want := range map[string]string{
		"UPDATE m SET h = '2'":                    refused,
		"ALTER MEASUREMENT m RENAME TO n":         refused,
		"ALTER MEASUREMENT m RENAME FIELD v TO w": refused,
		"UPDATE m SET h = '2' WHERE h = 'x'":      "0 series, 0 merged",
		"ALTER MEASUREMENT o RENAME TO p":         "1 series, 0 merged",
	} {
		if got := s.statement(text); got[0] != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	want := points{"m,h=1 1 v": "1", "p,h=a 2000000000000000000 v": "1"}
	s.wants("1024 moves wait", want)
	s.flushing.Unlock()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if l, _ := e.Moves(); l.Len() == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d moves still wait", l.Len())
		}
	}
	s.wants("the moves are made", want)
	if got := s.statement("UPDATE m SET h = '2'"); got[0] != "1 series, 0 merged" {
		t.Errorf("after the merge: %s", got)
	}
	s.must(s.Close())
}

// TestMovesFlushTheirShard makes so many moves in one shard that it is flushed: another shard
// with older rows is not.
func TestMovesFlushTheirShard(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	s.must(s.write("db", "o,h=a v=1 2000000000000000000"))
	other := s.entries()[0]
	s.must(s.write("db", "m,h=a v=1 1"))
	i := slices.IndexFunc(s.entries(), func(e *shardEntry) bool { return e != other })
	e := s.entries()[i]
	for i := range move.FlushAt {
		s.statement(fmt.Sprintf("UPDATE m SET h = '%d'", i%2))
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, waiting := e.Moves(); waiting == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d moves wait for a flush", waiting)
		}
	}
	if first, dirty := other.FirstUnflushed(); !dirty {
		t.Errorf("the other shard was flushed too: %d", first)
	}
	s.wants("flushed", points{fmt.Sprintf("m,h=%d 1 v", (move.FlushAt-1)%2): "1", "o,h=a 2000000000000000000 v": "1"})
	s.must(s.Close())
}

// movesWait opens a store whose merges make moves of one series after another, with a shard
// of moves that wait, and returns what it holds.
func movesWait(t *testing.T) (*testStore, points) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.MergeBytes = 1
	s := openTest(t, fs, opt)
	s.create("db")
	for round := range 2 {
		for i := range 5 {
			s.must(s.write("db", fmt.Sprintf("m,host=h%d i=%di,f=%d %d\nm,host=h%d i=1i 7", i, i, round, i, i)))
		}
		s.flush(t.Context(), s.entries()[0])
	}
	s.must(s.write("db", "n,host=h1 i=9i 3"))
	for _, text := range []string{
		"UPDATE m SET host = 'h1' WHERE host = 'h0'", "ALTER MEASUREMENT m RENAME FIELD f TO g",
		"ALTER MEASUREMENT m RENAME TO n", "UPDATE n SET host = 'h9' WHERE host = 'h2'",
	} {
		s.statement(text)
	}
	s.must(s.write("db", "m,host=h3 i=5i 3\nn,host=h3 i=6i 3"))
	s.flush(t.Context(), s.entries()[0])
	want, err := state(s.Store)
	s.must(err)
	return s, want
}

// holds opens what a crash or a backup has left of a store, and compares it with what it
// must hold, before and after the merges that make the moves which are left. It returns the
// number of these.
func (s *testStore) holds(left *vfstest.FS, want points) (waiting int, err error) {
	opt := s.opt
	opt.FS = left
	store, err := Open("/data", opt)
	if err != nil {
		return 0, err
	}
	again := &testStore{Store: store, t: s.t}
	l, _ := again.entries()[0].Moves()
	for range 2 {
		got, err := state(store)
		if err != nil {
			return 0, err
		}
		if text := diff(got, want); text != "" {
			return 0, errors.New(text)
		}
		if err := errors.Join(agree(store), orphans(left, store.Catalog())); err != nil {
			return 0, err
		}
		again.makeMoves()
	}
	return l.Len(), store.Close()
}

// TestMovesCrash cuts the power at each file operation of the merges that make moves of one
// series after another: every crash leaves all points under their new names, and merges
// that go on from there make the rest of the moves.
func TestMovesCrash(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 32))
	s, want := movesWait(t)
	fs := s.opt.FS.(*vfstest.FS)
	points, between := 0, 0
	var failed error
	fs.SetHook(func(op vfstest.Op) error {
		if points++; failed == nil && points%min(testseed.Stride(), 5) == 0 {
			keep := []float64{0, 0.5, 1}[r.IntN(3)]
			done := make(chan error) // by a goroutine that holds none of the other store's locks
			go func() {
				waiting, err := s.holds(fs.Crash(r, keep), want)
				if waiting > 0 && waiting < 4 {
					between++
				}
				done <- err
			}()
			if err := <-done; err != nil {
				failed = fmt.Errorf("crash at %s %s, keep %v: %w", op.Kind, op.Path, keep, err)
			}
		}
		return nil
	})
	s.makeMoves()
	fs.SetHook(nil)
	s.must(failed)
	s.wants("merged", want)
	if points < 60 || between == 0 {
		t.Errorf("%d crash points, %d of them when some moves were made", points, between)
	}
	s.must(s.Close())
}

// TestMovesBackup takes backups, as nodes of a cluster copy each other's state, when moves
// are made of some series: each has all points under their new names.
func TestMovesBackup(t *testing.T) {
	s, want := movesWait(t)
	between := 0
	for did := true; did; {
		set, err := s.Backup(t.Context(), nil)
		s.must(err)
		left, err := copyOf(set, s.fs)
		s.must(err)
		set.Release()
		waiting, err := s.holds(left, want)
		s.must(err)
		if waiting > 0 && waiting < 4 {
			between++
		}
		did, err = s.entries()[0].Compact(t.Context(), true)
		s.must(err)
	}
	if between == 0 {
		t.Error("no backup was taken when some moves were made")
	}
	s.must(s.Close())
}

// listed returns the series that the index of each shard has of some measurements.
func (s *testStore) listed(measurements ...string) (out []string) {
	v, err := s.View("db", "", model.AllTime)
	s.must(err)
	defer v.Release()
	for _, sh := range v.Shards() {
		var keys []string
		for _, m := range measurements {
			set, err := sh.Select(context.Background(), m, nil)
			s.must(err)
			for it := set.Iterator(); it.HasNext(); {
				key, err := s.entries()[0].db.file().Key(model.SeriesID(it.Next()))
				s.must(err)
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		out = append(out, strings.Join(keys, " "))
	}
	return out
}

func splitKey(key string) (series string, at int64, field string) {
	parts := strings.Split(key, " ")
	_, _ = fmt.Sscan(parts[1], &at)
	return parts[0], at, parts[2]
}

// statement runs one that moves, or a delete of a measurement at a time.
func (s *testStore) statement(text string) []string {
	var measurement string
	var at int64
	if n, _ := fmt.Sscanf(text, "DELETE %s %d", &measurement, &at); n == 2 {
		s.must(s.Delete(context.Background(), scan.DeleteRequest{
			Database: "db", Measurement: func(name string) bool { return name == measurement }, Range: model.TimeRange{Min: at, Max: at},
		}))
		return nil
	}
	q, err := syntax.Parse(text, nil)
	s.must(err)
	st := q.Statements[0].(*syntax.Move)
	req := scan.MoveRequest{Database: "db", Change: st.Change}
	if st.Condition != nil {
		req.Where = func(_ string, fields []column.Field) (*model.TagExpr, error) {
			tags, _ := expr.SplitTags(st.Condition, expr.FieldTest(fields))
			return tags, nil
		}
	}
	moved, err := s.Move(context.Background(), req)
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	return []string{fmt.Sprintf("%d series, %d merged", moved.Series, moved.Merged)}
}

// makeMoves flushes and merges until no file needs a move any more.
func (s *testStore) makeMoves() {
	for _, e := range s.entries() {
		s.flush(context.Background(), e)
		for did := true; did; {
			var err error
			did, err = e.Compact(context.Background(), true)
			s.must(err)
		}
		if l, _ := e.Moves(); l.Len() > 0 {
			s.t.Errorf("shard %d keeps %d moves", e.ID(), l.Len())
		}
	}
}
