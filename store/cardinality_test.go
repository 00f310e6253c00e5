package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
)

// dropped returns the reason and number of a partial write, "" and 0 of a whole one.
func dropped(t *testing.T, err error) (string, int) {
	t.Helper()
	var p *point.PartialWriteError
	if errors.As(err, &p) {
		return p.Reason, p.Dropped
	}
	if err != nil {
		t.Fatal(err)
	}
	return "", 0
}

func (s *testStore) livingSeries(db string) int {
	s.t.Helper()
	d, err := s.database(db)
	s.must(err)
	ids := map[uint32]bool{}
	for _, e := range s.shardsOf(d) {
		v := e.View()
		for _, id := range v.AllSeries().ToArray() {
			ids[id] = true
		}
		v.Release()
	}
	return len(ids)
}

// TestFieldLimit: points that bring one field too many are dropped, whole and without
// a trace, and the others of their batch are stored. What is stored stays, whatever
// the limit of the store that reads the log back.
func TestFieldLimit(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.MaxFieldsPerMeasurement = 3
	s := openTest(t, fs, opt)
	defer func() { s.must(s.Close()) }()
	s.create("db")
	write := func(lines string, have, most, dropped int) {
		t.Helper()
		err := s.write("db", lines)
		var partial *point.PartialWriteError
		switch reason := fmt.Sprintf("max-fields-per-measurement limit exceeded (%d/%d): measurement=\"m\"", have, most); {
		case dropped == 0:
			s.must(err)
		case !errors.As(err, &partial) || partial.Dropped != dropped || partial.Reason != reason:
			t.Errorf("%s: %v, want %d dropped: %s", lines, err, dropped, reason)
		}
	}
	write("m a=1,b=1 1", 0, 3, 0)
	write("m a=2,c=2,d=2 2\nm c=3 3\nn a=1,b=1,c=1 3\nm e=4 4\nm e=5 5", 2, 3, 3)
	write("m d=6 6\nm a=6 6", 3, 3, 1)
	write("m d=1 "+fmt.Sprint(week), 0, 3, 0) // another shard
	check := func() {
		t.Helper()
		if got := s.fieldsOf("m"); got != "a float,b float,c float,d float," {
			t.Errorf("fields: %s", got)
		}
	}
	check()
	for _, most := range []int{1, 4} {
		opt.MaxFieldsPerMeasurement = most
		s.must(s.Close())
		s = openTest(t, fs, opt)
		check()
	}
	write("m a=7,d=7 7", 0, 0, 0)
	write("m e=8 8\nm b=8 8", 4, 4, 1)
	s.SetLimits(Limits{})
	write("m e=8,f=8,g=8 8", 0, 0, 0)
}

// TestCardinalityLimits walks through one database: each step is a write, a
// delete or a restart, and what comes of it.
func TestCardinalityLimits(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = 6, 3
	s := openTest(t, fs, opt)
	defer func() { s.must(s.Close()) }()
	s.create("db")
	s.create("other")
	full := "max-series-per-database limit exceeded: (6)"
	values := func(value string) string {
		return fmt.Sprintf("max-values-per-tag limit exceeded (3/3): measurement=\"m\" tag=\"host\" value=%q", value)
	}
	week2 := fmt.Sprint(week)
	for i, step := range []struct {
		write  string
		delete string // a host, or "*"
		reopen bool
		reason string
		drops  int
		living int
	}{
		{write: "m,host=a f=1 1\nm,host=b f=1 1", living: 2},
		{write: "m,host=a f=1 " + week2, living: 2}, // known, in a new shard
		{write: "m,host=a f=\"s\" 1", reason: "field type conflict: input field \"f\" on measurement \"m\" is type string, already exists as type float", drops: 1, living: 2},
		{write: "m,host=x f=\"s\" 1\nm,host=c f=1 1", reason: "field type conflict: input field \"f\" on measurement \"m\" is type string, already exists as type float", drops: 1, living: 3}, // x takes no room
		{write: "m,host=d f=1 1\nm,host=c f=2 2\nm,host=d f=1 2", reason: values("d"), drops: 2, living: 3},
		{write: "m,host=a,zone=x f=1 1\nm,zone=x,host=a f=2 2\nn,host=d f=1 1", living: 5}, // two spellings of one series
		{write: "m,zone=y f=1 1\nm,zone=z f=1 1\nm,host=a f=3 3", reason: full, drops: 1, living: 6},
		{write: "new,a=b g=1 1", reason: full, drops: 1, living: 6},
		{reopen: true, living: 6},
		{write: "m,zone=z f=1 1\nm,host=a f=3 3", reason: full, drops: 1, living: 6},
		{delete: "c", living: 5},
		{write: "m,host=d f=1 1", living: 6}, // the value c is gone as well
		{write: "m,host=c f=1 1", reason: full, drops: 1, living: 6},
		{delete: "d", living: 4},
		{reopen: true, living: 4},
		{write: "m,host=e f=1 1\nm,host=c f=1 1", reason: values("c"), drops: 1, living: 5},
		{delete: "*", living: 0},
		{write: "m,host=1 f=1 1\nm,host=2 f=1 1\nm,host=3 f=1 1\nm,host=4 f=1 1", reason: values("4"), drops: 1, living: 3},
	} {
		switch {
		case step.reopen:
			s.must(s.Close())
			s = openTest(t, fs, opt)
		case step.delete != "":
			req := scan.DeleteRequest{Database: "db", Range: model.AllTime}
			if step.delete != "*" {
				req.Where = hostIs(step.delete)
			}
			s.must(s.Delete(context.Background(), req))
		default:
			reason, n := dropped(t, s.write("db", step.write))
			if reason != step.reason || n != step.drops {
				t.Errorf("step %d: %q dropped %d, want %q dropped %d", i, reason, n, step.reason, step.drops)
			}
		}
		if got := s.livingSeries("db"); got != step.living {
			t.Fatalf("step %d: %d series live, want %d", i, got, step.living)
		}
	}
	if got := s.counters.Over.Load(); got != 2 {
		t.Errorf("%d points counted as over the limit since the last start, want 2", got)
	}
	if reason, _ := dropped(t, s.write("other", "m,host=4 f=1 1")); reason != "" {
		t.Errorf("another database: %s", reason)
	}
}

// TestFullDatabaseKeepsNoTrace: what a full database refuses leaves no id and no
// field behind, however often and under whatever names it comes.
func TestFullDatabaseKeepsNoTrace(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.MaxSeriesPerDatabase = 2
	s := openTest(t, fs, opt)
	defer func() { s.must(s.Close()) }()
	s.create("db")
	s.must(s.write("db", "m,host=a f=1 1\nm,host=b f=1 1"))
	for i := range 50 {
		if _, n := dropped(t, s.write("db", fmt.Sprintf("n%d,host=a g%d=\"s\" 1", i, i))); n != 1 {
			t.Fatalf("%d points dropped", n)
		}
	}
	db, err := s.database("db")
	s.must(err)
	if n := db.series.Len(); n != 2 {
		t.Errorf("%d series have ids", n)
	}
	if reason, n := dropped(t, s.write("db", "m,host=a f=1,g0=1 2")); n != 0 {
		t.Errorf("a field of a refused point is registered: %s", reason)
	}
	// Its own first batch may be over the limit as well.
	s.create("db2")
	reason, n := dropped(t, s.write("db2", "m,host=a f=1 1\nm,host=b f=1 1\nm,host=c f=1 1\nm,host=c f=1 2"))
	if n != 2 || !strings.HasPrefix(reason, "max-series-per-database") {
		t.Errorf("%s dropped %d", reason, n)
	}
}

// TestCardinalityLimitsTogether: writers that race for the last places get
// exactly as many as there are.
func TestCardinalityLimitsTogether(t *testing.T) {
	for _, c := range []struct{ series, values, want int }{{100, 0, 100}, {0, 70, 70}, {100, 70, 70}, {60, 70, 60}} {
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = c.series, c.values
		s := openTest(t, fs, opt)
		s.create("db")
		var wg sync.WaitGroup
		var drops atomic.Int64
		const writers, hosts = 8, 120
		for w := range writers {
			wg.Go(func() {
				own := &testStore{Store: s.Store, t: t} // its parser is for one goroutine
				r := rand.New(rand.NewPCG(uint64(w), 3))
				for _, host := range r.Perm(hosts) { // all writers, all hosts
					reason, n := dropped(t, own.write("db", fmt.Sprintf("m,host=h%d w%d=1 1", host, w)))
					if n > 0 && !strings.Contains(reason, "limit exceeded") {
						t.Error(reason)
					}
					drops.Add(int64(n))
				}
			})
		}
		wg.Wait()
		if got := s.livingSeries("db"); got != c.want {
			t.Errorf("limits %d, %d: %d series live, want %d", c.series, c.values, got, c.want)
		}
		if drops.Load() < int64(hosts-c.want) || drops.Load() != s.counters.Over.Load() {
			t.Errorf("limits %d, %d: %d points dropped, %d counted", c.series, c.values, drops.Load(), s.counters.Over.Load())
		}
		s.must(s.Close())
	}
}

// TestReplayRefusesNothing: what was logged under no limit or a higher one is
// there after a crash, and then the lower limit holds.
func TestReplayRefusesNothing(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	want := points{}
	for i := range 20 {
		s.must(s.write("db", fmt.Sprintf("m,host=h%d f=%d 1", i, i)))
		want[pointKey(fmt.Sprintf("m,host=h%d", i), 1, "f")] = fmt.Sprint(i)
	}
	left := fs.Crash(rand.New(rand.NewPCG(1, 1)), 1)
	_ = s.Close()
	opt := testOptions(left)
	opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = 5, 5
	again := openTest(t, left, opt)
	defer func() { again.must(again.Close()) }()
	if d := diff(again.read("db"), want); d != "" {
		t.Fatal(d)
	}
	if _, n := dropped(t, again.write("db", "m,host=h3 f=1 2\nm,host=new f=1 2")); n != 1 {
		t.Errorf("%d points dropped, want that of the new series", n)
	}
}

// TestCardinalityAgainstModel compares random writes, deletes and restarts with
// a count in maps.
func TestCardinalityAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 21))
	for range 20 {
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = r.IntN(12), r.IntN(6)
		s := openTest(t, fs, opt)
		s.create("db")
		living := map[[2]string]bool{} // host, zone
		values := func(i int) map[string]bool {
			m := map[string]bool{}
			for k := range living {
				if k[i] != "" {
					m[k[i]] = true
				}
			}
			return m
		}
		for step := range 60 {
			switch k := r.IntN(20); {
			case k < 14:
				var lines strings.Builder
				want := 0
				for range 1 + r.IntN(6) {
					tags := [2]string{fmt.Sprint("h", r.IntN(8)), ""}
					fmt.Fprintf(&lines, "m,host=%s", tags[0])
					if r.IntN(2) == 0 {
						tags[1] = fmt.Sprint("z", r.IntN(8))
						fmt.Fprintf(&lines, ",zone=%s", tags[1])
					}
					fmt.Fprintf(&lines, " f=1 %d\n", r.IntN(100))
					if living[tags] {
						continue
					}
					room := opt.MaxSeriesPerDatabase == 0 || len(living) < opt.MaxSeriesPerDatabase
					for i, v := range tags {
						if have := values(i); v != "" && !have[v] && opt.MaxValuesPerTag > 0 && len(have) >= opt.MaxValuesPerTag {
							room = false
						}
					}
					if room {
						living[tags] = true
					} else {
						want++
					}
				}
				// A series that is refused once is refused in all of its batch, as the model has it.
				if reason, n := dropped(t, s.write("db", lines.String())); n != want {
					t.Fatalf("step %d, limits %d and %d: %d dropped (%s), want %d\n%s", step, opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag, n, reason, want, lines.String())
				}
			case k < 17:
				host := fmt.Sprint("h", r.IntN(8))
				s.must(s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.AllTime, Where: hostIs(host)}))
				maps.DeleteFunc(living, func(tags [2]string, _ bool) bool { return tags[0] == host })
			case k < 18:
				s.must(s.Close())
				s = openTest(t, fs, opt)
			default:
				s.flushSome(r)
			}
			if n := s.livingSeries("db"); n != len(living) {
				t.Fatalf("step %d: %d series live, want %d of %v", step, n, len(living), slices.Collect(maps.Keys(living)))
			}
		}
		s.must(s.Close())
	}
}

func hostIs(host string) func(string, []column.Field) (*model.TagExpr, error) {
	return func(string, []column.Field) (*model.TagExpr, error) {
		return &model.TagExpr{Op: model.TagEqual, Key: "host", Value: host}, nil
	}
}

// BenchmarkNewSeries writes series that the store does not know, 1,000 of 8
// tags in a batch, without and with limits.
func BenchmarkNewSeries(b *testing.B) {
	for _, c := range []struct {
		name           string
		series, values int
	}{{"unlimited", 0, 0}, {"series", 1 << 30, 0}, {"values", 0, 1 << 30}, {"full", 1, 0}} {
		b.Run(c.name, func(b *testing.B) {
			fs := vfstest.New()
			opt := testOptions(fs)
			opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = c.series, c.values
			s := openTest(b, fs, opt)
			s.create("db")
			s.must(s.write("db", "m,host=a f=1 1"))
			n := 0
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				var lines strings.Builder
				for range 1000 {
					n++
					fmt.Fprintf(&lines, "m,host=h%d,a=1,b=2,c=3,d=4,e=5,f=6,g=7 f=1 1\n", n)
				}
				b.StartTimer()
				var p *point.PartialWriteError
				if err := s.write("db", lines.String()); err != nil && !errors.As(err, &p) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/series")
			b.StopTimer()
			_ = s.Close()
		})
	}
}

// TestSetLimits changes limits of an open store: from none to some, up, down
// below what there is, and back.
func TestSetLimits(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer func() { s.must(s.Close()) }()
	s.create("db")
	n := 0
	f := func(series, values, want int) {
		t.Helper()
		s.SetLimits(Limits{MaxSeriesPerDatabase: series, MaxValuesPerTag: values})
		var lines strings.Builder
		fmt.Fprintln(&lines, "m,host=h0 f=1 1") // known, or the first
		for range 3 {
			n++
			fmt.Fprintf(&lines, "m,host=h%d f=1 1\n", n)
		}
		if reason, got := dropped(t, s.write("db", lines.String())); got != want {
			t.Errorf("limits %d and %d: %d dropped (%s), want %d", series, values, got, reason, want)
		}
	}
	f(0, 0, 0) // 4 series from here on
	f(5, 0, 2) // 5
	f(5, 0, 3)
	f(0, 6, 2) // 6
	f(7, 0, 2) // 7
	f(2, 2, 3)
	f(0, 0, 0) // 10
	f(11, 11, 2)
}

// TestValidateKeys: names have any bytes, unless the option asks for printable ones. It
// holds for series that are there already, and it changes while the store is open.
func TestValidateKeys(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	lines := func(at int) string {
		return fmt.Sprintf("m\xe4,h=a f=1 %[1]d\nm,h\t=a f=1 %[1]d\nm,h=a\x00 f=1 %[1]d\nm,h=a\\\nb f=1 %[1]d\nm,h=\xff f\x01\xfe=1 %[1]d\nm,h=ä f=1 %[1]d", at)
	}
	s.must(s.write("db", lines(1)))
	s.SetLimits(Limits{ValidateKeys: true})
	if reason, got := dropped(t, s.write("db", lines(2))); got != 5 || reason != `key contains invalid unicode: "m\xe4,h=a"` {
		t.Errorf("%d dropped: %s", got, reason)
	}
	s.must(s.write("db", "m,h=ö f\x01\xfe=1 2")) // InfluxDB looks at no field keys
	s.SetLimits(Limits{})
	s.must(s.write("db", lines(3)))
	before := s.read("db")
	s.must(s.Close())
	s = openTest(t, fs, testOptions(fs))
	if after := s.read("db"); len(after) != 14 || !reflect.DeepEqual(after, before) {
		t.Errorf("%q\nbefore the restart: %q", after, before)
	}
	s.must(s.Close())
}
