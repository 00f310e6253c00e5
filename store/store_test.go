package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// TestAgainstModel runs random writes, deletes, flushes, compactions and
// restarts and compares every state with a map.
func TestAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range 5 {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		d := newDriver(s, r)
		d.ddl = true
		for i := range 150 {
			if err := d.step(); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				if err := d.check(s); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			if i%40 == 39 {
				if err := d.restart(); err != nil {
					t.Fatal(err)
				}
				if err := d.check(s); err != nil {
					t.Fatalf("step %d, reopened: %v", i, err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFaults fails the n-th file operation with an error, for every n: the
// request is refused or right, and after reopening everything acknowledged is
// there.
func TestFaults(t *testing.T) {
	base := testseed.Of(t)
	for n := 1; n < 400; n += testseed.Stride() {
		r := rand.New(rand.NewPCG(base, 11))
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		d := newDriver(s, r)
		start, hit := fs.Ops(), false
		fs.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				hit = true
				return errors.New("input/output error")
			}
			return nil
		})
		for range 40 {
			_ = d.step()
		}
		_ = s.Close()
		fs.SetHook(nil)
		again := openTest(t, fs, testOptions(fs))
		if err := d.check(again); err != nil {
			t.Fatalf("fault at operation %d, seed %d: %v", n, base, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if !hit {
			return
		}
	}
}

func TestPartialWrites(t *testing.T) {
	fs := vfstest.New()
	now := time.Unix(1_700_000_000, 0)
	opt := testOptions(fs)
	opt.Now = func() time.Time { return now }
	s := openTest(t, fs, opt)
	defer s.Close()
	s.create("db")
	day := 24 * time.Hour
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: "short", Policy: &meta.RetentionPolicySpec{Name: "day", Duration: &day}}); err != nil {
		t.Fatal(err)
	}
	f := func(db, lines, want string, stored int) {
		t.Helper()
		before := len(s.read(db))
		err := s.write(db, lines)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: error %q, want %q", lines, got, want)
		}
		if n := len(s.read(db)) - before; n != stored {
			t.Errorf("%q: %d values stored, want %d", lines, n, stored)
		}
	}
	where := func(db, rp string) string { return " for database: " + db + " for retention policy: " + rp }
	f("db", "m,h=a v=1 1\nm,h=b v=2 1", "", 2)
	f("db", "m,h=a v=1i 2\nm,h=a w=1i,v=2 3", `partial write: field type conflict: input field "v" on measurement "m" is type integer, already exists as type float dropped=1`+where("db", "autogen"), 2)
	f("db", "m,time=x v=1 1\nm v=1 1", `partial write: invalid tag key: input tag "time" on measurement "m" is invalid dropped=1`+where("db", "autogen"), 1)
	f("db", "m time=1 4", `partial write: invalid field name: input field "time" on measurement "m" is invalid dropped=1`+where("db", "autogen"), 0)
	f("db", "m time=1,v=1 5\nm v=3 6", `partial write: invalid field name: input field "time" on measurement "m" is invalid. Field "time" has been stripped from point. dropped=0`+where("db", "autogen"), 2)
	f("db", `m s="`+strings.Repeat("x", 1<<20+1)+`" 7`, `partial write: input field "s" on measurement "m" is too long, 1048577 > 1048576 dropped=1`+where("db", "autogen"), 0)
	old, fresh := now.Add(-30*time.Hour).UnixNano(), now.UnixNano()
	f("short", fmt.Sprintf("m v=1 %d\nm v=2 %d\nm v=3 %d", old, fresh, old+1), "partial write: points beyond retention policy dropped=2"+where("short", "day"), 1)
	f("short", fmt.Sprintf("m v=1 %d", old), "partial write: points beyond retention policy dropped=1"+where("short", "day"), 0)
}

func TestOverload(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.CacheBytes = 1 << 20
	opt.FlushBytes = 1 << 30
	s := openTest(t, fs, opt)
	defer s.Close()
	s.create("db")
	refused := 0
	acked := 0
	for i := range 3000 {
		var b strings.Builder
		for k := range 20 {
			fmt.Fprintf(&b, "m,host=h%d f=%d %d\n", k, i, i)
		}
		switch err := s.write("db", b.String()); {
		case errors.Is(err, ErrOverloaded):
			refused++
			time.Sleep(time.Millisecond)
		case err != nil:
			t.Fatal(err)
		default:
			acked += 20
		}
		if n := s.memory.cached.Load(); n > 2*opt.CacheBytes {
			t.Fatalf("caches hold %d bytes, limit %d", n, opt.CacheBytes)
		}
	}
	t.Logf("%d requests refused", refused)
	if n := len(s.read("db")); n != acked {
		t.Errorf("%d values readable, %d acknowledged", n, acked)
	}
}

// TestConcurrent has writers, readers, deletes, flushes and compactions at
// once; the race detector watches, and each writer's own series must be whole.
func TestConcurrent(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	stop := make(chan struct{})
	var back sync.WaitGroup
	loop := func(f func()) {
		back.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 2))
	loop(func() { s.flushSome(r); s.compactSome(r); time.Sleep(time.Millisecond) })
	loop(func() {
		if _, err := readAll(s.Store, "db", false); err != nil {
			t.Error(err)
		}
	})
	loop(func() {
		err := s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.AllTime, Measurement: func(m string) bool { return m == "scrap" }})
		if err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
	})
	const writers, batches, rows = 4, 60, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			ws := &testStore{Store: s.Store, t: t}
			for i := range batches {
				var b strings.Builder
				for k := range rows {
					fmt.Fprintf(&b, "m,w=%d f=%d %d\nscrap,w=%d f=1 %d\n", w, i*rows+k, i*rows+k, w, k)
				}
				if err := ws.write("db", b.String()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	back.Wait()
	got := s.read("db")
	n := 0
	for k := range got {
		if strings.HasPrefix(k, "m,") {
			n++
		}
	}
	if n != writers*batches*rows {
		t.Errorf("%d values, want %d", n, writers*batches*rows)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDropAndCreateDatabase(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	if err := s.write("db", "m,h=a v=1 1"); err != nil {
		t.Fatal(err)
	}
	v, err := s.Partial().View("db", "", model.AllTime)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(context.Background(), meta.DropDatabase{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	v.Release()
	if err := s.write("db", "m,h=a v=1 1"); !errors.Is(err, meta.ErrDatabaseNotFound) {
		t.Errorf("write into a dropped database: %v", err)
	}
	s.create("db")
	if err := s.write("db", `m,h=a v="now text" 1`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, fs, testOptions(fs))
	defer s.Close()
	if got := s.read("db"); len(got) != 1 || got[pointKey("m,h=a", 1, "v")] != `"now text"` {
		t.Errorf("after restart: %v", got)
	}
	for _, name := range fs.Files() {
		if strings.Contains(name, "/db-1/") {
			t.Errorf("file of the dropped database left: %s", name)
		}
	}
}

// TestSeriesTablesTogether has series come and go in several databases for
// long: all tables together stay within their bound, and ids stay what they
// were.
func TestSeriesTablesTogether(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.SeriesTableBytes = 256 << 10
	s := openTest(t, fs, opt)
	defer s.Close()
	names := []string{"a", "b", "c", "d"}
	for _, db := range names {
		s.create(db)
		s.must(s.write(db, "m,host=lasting f=0 0"))
	}
	most := int64(0)
	for i := range 400 {
		db := names[i*i%len(names)]
		var lines strings.Builder
		for k := range 50 {
			fmt.Fprintf(&lines, "m,host=h%d-%d f=1 1\n", i, k)
		}
		fmt.Fprintf(&lines, "m,host=lasting f=%d %d\n", i, i)
		s.must(s.write(db, lines.String()))
		total := int64(0)
		for _, db := range names {
			table, err := s.Table(db)
			if err != nil {
				t.Fatal(err)
			}
			total += table.Bytes()
		}
		most = max(most, total)
	}
	// What one write adds comes on top.
	if most > opt.SeriesTableBytes+128<<10 || most < opt.SeriesTableBytes/2 {
		t.Errorf("the tables held %d bytes, limit %d", most, opt.SeriesTableBytes)
	}
	for _, name := range names {
		db, err := s.database(name)
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := db.series.Lookup("m,host=lasting"); !ok || id != 1 {
			t.Errorf("%s: the lasting series has id %d", name, id)
		}
	}
	if n := len(s.read("a")); n < 50*100 {
		t.Errorf("%d points", n)
	}
}

// TestSeriesTableTrimmed bounds what the parsers remember: with a table
// too small for the series, every point must still be found under its series.
func TestSeriesTableTrimmed(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.SeriesTableBytes = 64 << 10
	s := openTest(t, fs, opt)
	defer s.Close()
	s.create("db")
	first, err := s.Table("db")
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for i := range 2000 {
			if err := s.write("db", fmt.Sprintf("m,host=h%d f=%d %d", i, i, round)); err != nil {
				t.Fatal(err)
			}
		}
	}
	last, err := s.Table("db")
	if err != nil {
		t.Fatal(err)
	}
	if last == first || last.Bytes() > 2*opt.SeriesTableBytes {
		t.Errorf("the table holds %d bytes, limit %d", last.Bytes(), opt.SeriesTableBytes)
	}
	got := s.read("db")
	for i := range 2000 {
		for round := range 3 {
			if v := got[pointKey(fmt.Sprintf("m,host=h%d", i), int64(round), "f")]; v != fmt.Sprint(i) {
				t.Fatalf("host %d, round %d: %q", i, round, v)
			}
		}
	}
}

// TestCloseLeavesTheLog closes a store that may not flush, or not all: the log
// has the rest.
func TestCloseLeavesTheLog(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.CloseFlush = -1
	s := openTest(t, fs, opt)
	s.create("db")
	var lines strings.Builder
	for w := range int64(30) {
		fmt.Fprintf(&lines, "m v=%d %d\n", w, origin+w*week)
	}
	s.must(s.write("db", lines.String()))
	s.must(s.Close())
	if n := s.counters.Flushes.Load(); n != 0 {
		t.Errorf("%d flushes", n)
	}
	s = openTest(t, fs, opt)
	if n := len(s.dirtyShards()); n != 30 {
		t.Errorf("%d shards to be flushed after the start, want 30", n)
	}
	if left := s.flushFor(time.Nanosecond); left < 29 {
		t.Errorf("%d left in no time", left)
	}
	if left := s.flushFor(time.Hour); left != 0 || len(s.dirtyShards()) != 0 {
		t.Errorf("%d left", left)
	}
	if got := s.read("db"); len(got) != 30 {
		t.Errorf("%d points, want 30", len(got))
	}
	s.must(s.Close())
}
