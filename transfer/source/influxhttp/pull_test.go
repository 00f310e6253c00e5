package influxhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/server"
)

const hour = int64(time.Hour)

// someRows are rows of two measurements in several hours.
func someRows() (rows []fakeRow) {
	for i := range int64(40) {
		rows = append(rows, fakeRow{"m", []string{"", "a", "b"}[i%3], (400_000*3600 + i*600) * 1e9, 1<<53 + i})
	}
	return append(rows, fakeRow{"n", "a", 5, -1}, fakeRow{"n", "a", 400_001 * hour, 0}, fakeRow{"n", "b", 1_000_000_000*1e9 + 7, 1})
}

// pullOptions say how a source is moved.
type pullOptions struct {
	Options
	journal        *journal.Journal
	refused        *mover.Refused // nil: one without a file
	workers, batch int
}

// pull is a source that was moved.
type pull struct {
	*Source
	stats   mover.Stats
	refused *mover.Refused
	move    func(ctx context.Context, from mover.Source) (int64, error)
}

// failed returns how many lines were refused.
func (p *pull) failed() int64 { return p.refused.Lines(p.stats.EarlierRefused.Count) }

// pulled moves everything.
func pulled(t *testing.T, f *fake, to *target, opt pullOptions) (*pull, error) {
	t.Helper()
	s := f.connect()
	c, err := s.Catalog(t.Context(), &opt.Filter)
	if err != nil {
		return nil, err
	}
	return pulledTo(t, s, c, to.client(), opt)
}

func pulledTo(t *testing.T, s *Server, c *Catalog, to *exchange.Client, opt pullOptions) (*pull, error) {
	t.Helper()
	if opt.Patience == 0 {
		opt.Patience = 2 * time.Second
	}
	if opt.refused == nil {
		var err error
		if opt.refused, err = mover.OpenRefused("", false); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opt.refused.Close() })
	}
	opt.Journal = opt.journal != nil
	p := &pull{Source: New(s, to, c, opt.Options), refused: opt.refused}
	sink := server.New(to, server.Options{BatchBytes: opt.batch})
	p.move = func(ctx context.Context, from mover.Source) (int64, error) {
		st, err := mover.Run(ctx, from, sink, mover.Options{Filter: opt.Filter, Journal: opt.journal, Failed: opt.refused, Workers: cmp.Or(opt.workers, 2), Now: s.Now})
		p.stats.Add(st)
		p.stats.Share += st.Share
		return p.stats.Written, err
	}
	_, err := p.move(t.Context(), p.Source)
	return p, err
}

// follow follows with short rounds, and returns when it had all.
func (p *pull) follow(t *testing.T) (upTo time.Time, err error) {
	err = p.Follow(t.Context(), FollowOptions{Every: 5 * time.Millisecond, Idle: 300 * time.Millisecond, UpTo: func(at time.Time) { upTo = at }}, p.move)
	return upTo, err
}

// TestVersions: all rows come out of each version, with and without shard groups.
func TestVersions(t *testing.T) {
	hours := [][2]string{}
	for i := range int64(10) {
		at := time.Unix(0, (400_000+i)*hour).UTC()
		hours = append(hours, [2]string{at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)})
	}
	hours = append(hours, [2]string{"1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"}, [2]string{"2001-09-09T01:00:00Z", "2001-09-09T02:00:00Z"})
	for _, version := range []string{"1.6.7", "1.12.2", "v2.7.1", "3.4.0", ""} {
		for _, groups := range [][][2]string{nil, hours} {
			f, to := newFake(t, version, someRows()...), newTarget(t)
			f.groups = groups
			p, err := pulled(t, f, to, pullOptions{})
			if err != nil {
				t.Errorf("%s: %v", version, err)
				continue
			}
			to.has(t, f.rows)
			// MessagePack has the types of numbers and all bytes of strings.
			if has := strings.Contains(version, "1.") || strings.Contains(version, "2."); f.packed != has {
				t.Errorf("%s: rows as MessagePack: %t", version, f.packed)
			}
			if st := p.stats; st.Written != int64(len(f.rows)) || st.Refused != 0 || math.Abs(st.Share-1) > 1e-6 {
				t.Errorf("%s: %+v", version, st)
			}
			want := `CREATE DATABASE "d" WITH DURATION INF REPLICATION 1 SHARD DURATION 1h NAME "p"`
			if version == "3.4.0" {
				want = `CREATE DATABASE "d" WITH DURATION INF REPLICATION 1 SHARD DURATION 168h NAME "autogen"`
			}
			if !slices.Contains(to.made, want) {
				t.Errorf("%s: statements %q", version, to.made)
			}
		}
	}
}

// TestFilter: only what is chosen is asked for.
func TestFilter(t *testing.T) {
	rows := someRows()
	for _, c := range []struct {
		filter exchange.Filter
		wants  func(r fakeRow) bool
		err    string
	}{
		{filter: exchange.Filter{Measurements: []string{"n"}}, wants: func(r fakeRow) bool { return r.measurement == "n" }},
		{
			filter: exchange.Filter{Database: "d", RetentionPolicy: "p", Measurements: []string{"[m]"}, Range: model.TimeRange{Min: rows[3].at, Max: rows[9].at}},
			wants:  func(r fakeRow) bool { return r.measurement == "m" && r.at >= rows[3].at && r.at <= rows[9].at },
		},
		{filter: exchange.Filter{Database: "e"}, err: `the old server has no database "e"`},
		{filter: exchange.Filter{Database: "d", RetentionPolicy: "q"}, err: `the old server has no retention policy "q"`},
		{filter: exchange.Filter{RetentionPolicy: "p"}, err: "only together with its database"},
		{filter: exchange.Filter{Measurements: []string{"["}}, err: "syntax error in pattern"},
	} {
		f, to := newFake(t, "1.8.10", rows...), newTarget(t)
		_, err := pulled(t, f, to, pullOptions{Options: Options{Filter: c.filter}})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v", c.filter, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var want []fakeRow
		for _, r := range rows {
			if c.wants(r) {
				want = append(want, r)
			}
		}
		to.has(t, want)
	}
}

// TestBounds takes the first and the last point that InfluxDB can have. The start of the
// group of the first one has wrapped around; the end of the other's lacks nanoseconds.
func TestBounds(t *testing.T) {
	rows := []fakeRow{{"m", "a", model.AllTime.Min, 1}, {"m", "a", model.AllTime.Min + hour, 1}, {"m", "a", 0, 1}, {"m", "a", model.AllTime.Max, 2}}
	f, to := newFake(t, "1.6.7", rows...), newTarget(t)
	f.groups = [][2]string{{"2262-04-10T23:34:33Z", "1677-09-27T00:00:00Z"}, {"1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z"}, {"2262-04-07T00:00:00Z", "2262-04-11T23:47:16Z"}}
	for _, slice := range []time.Duration{0, 200_000 * time.Hour} {
		if _, err := pulled(t, f, to, pullOptions{Options: Options{Slice: slice}}); err != nil {
			t.Fatal(err)
		}
		to.has(t, rows)
		for line, n := range to.lines {
			if slice == 0 && n != 1 {
				t.Errorf("%s came %d times", line, n)
			}
		}
	}
}

// TestCompare: rows that no query with bounds of time shows are missed by the comparison,
// also if there are rows of the future, as of writers that still write. What such writers
// have written meanwhile is no difference.
func TestCompare(t *testing.T) {
	present := time.Now().UnixNano()
	rows := []fakeRow{{"m", "a", model.AllTime.Min, 1}, {"m", "a", 0, 1}, {"m", "a", present + hour, 2}}
	for _, c := range []struct {
		lost  string    // of the lines that are written
		added []fakeRow // to the source after the import
		want  string
	}{
		{},
		{added: []fakeRow{{"m", "a", present + 2*hour, 3}}},
		{lost: rows[0].line(), want: `field "v" of "m" of d.p: count 2 in old, 1 in new`},
		{lost: rows[0].line(), added: []fakeRow{{"m", "a", present + 2*hour, 3}}, want: `field "v" of "m" of d.p: count 2 in old, 1 in new`},
		{added: []fakeRow{{"m", "b", 7, 3}}, want: `field "v" of "m" of d.p: count 3 in old, 2 in new`},
	} {
		f, to := newFake(t, "1.6.7", rows...), newTarget(t)
		f.groups = [][2]string{{"2262-04-10T23:34:33Z", "1677-09-27T00:00:00Z"}, {"1677-09-27T00:00:00Z", "2262-04-11T23:47:16Z"}}
		p, err := pulled(t, f, to, pullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.add(c.added...)
		delete(to.lines, c.lost)
		source, target, err := p.Compare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range compare.Differences(source, target) {
			got = append(got, d.Text("old", "new"))
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("without %q, with %v: got %q, want %q", c.lost, c.added, text, c.want)
		}
	}
}

// TestCompareVersions: each version counts for the comparison. InfluxDB 3.x takes queries in URLs
// only.
func TestCompareVersions(t *testing.T) {
	for _, version := range []string{"1.12.2", "v2.7.1", "3.4.0"} {
		f, to := newFake(t, version, fakeRow{"m", "a", 5, 1}, fakeRow{"m", "b", 7, 2}), newTarget(t)
		p, err := pulled(t, f, to, pullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		source, target, err := p.Compare(t.Context())
		if err != nil || source.Values() != 2 || len(compare.Differences(source, target)) > 0 {
			t.Errorf("%s: %v, %d values, differences %v", version, err, source.Values(), compare.Differences(source, target))
		}
	}
}

// TestFailures: an answer that fails is asked for again, or by halves; what does not pass
// ends the import with a reason, and the journal has the rest skipped.
func TestFailures(t *testing.T) {
	long := func(q string) bool {
		from, to := times(fakeSelect.FindStringSubmatch(q))
		return uint64(to-from) > uint64(hour/3)
	}
	rows := func(q string) bool { return strings.Contains(q, "GROUP BY *") }
	var calls atomic.Int64
	for name, c := range map[string]struct {
		hook func(q string, w http.ResponseWriter) bool
		err  string // "" if it goes well
	}{
		"busy for a while": {hook: func(q string, w http.ResponseWriter) bool {
			if !rows(q) && !strings.HasPrefix(q, "SHOW FIELD") || calls.Add(1) > 6 {
				return false
			}
			http.Error(w, `{"error":"the shard is disabled"}`, http.StatusServiceUnavailable)
			return true
		}},
		"cut off in the middle": {hook: func(q string, w http.ResponseWriter) bool {
			if !rows(q) || calls.Add(1) > 3 {
				return false
			}
			fmt.Fprint(w, `{"results":[{"series":[{"name":"m","columns":["time","v"],"values":[[`)
			panic(http.ErrAbortHandler)
		}},
		"too many points": {hook: func(q string, w http.ResponseWriter) bool {
			if rows(q) && long(q) {
				fmt.Fprint(w, `{"results":[{"statement_id":0,"error":"max-select-point limit exceeed: (10/5)"}]}`)
				return true
			}
			return false
		}},
		"truncated": {hook: func(q string, w http.ResponseWriter) bool {
			if rows(q) && long(q) {
				fmt.Fprint(w, `{"results":[{"series":[{"name":"m","columns":["time","v"],"values":[],"partial":true}],"partial":true}]}`)
				return true
			}
			return false
		}},
		"too many series": {err: "max-select-series limit exceeded", hook: func(q string, w http.ResponseWriter) bool {
			if rows(q) {
				fmt.Fprint(w, `{"results":[{"statement_id":0,"error":"max-select-series limit exceeded: (10/5)"}]}`)
			}
			return rows(q)
		}},
		"a login that may not read": {err: "an administrator, or a token", hook: func(q string, w http.ResponseWriter) bool {
			if rows(q) {
				http.Error(w, `{"error":"not authorized"}`, http.StatusForbidden)
			}
			return rows(q)
		}},
		"no login": {err: "InfluxDB 1.x takes a user and a password", hook: func(_ string, w http.ResponseWriter) bool {
			http.Error(w, `{"error":"unable to parse authentication credentials"}`, http.StatusUnauthorized)
			return true
		}},
		"a web page": {err: "a web page, no answer", hook: func(_ string, w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html></html>")
			return true
		}},
		"another form": {err: "no answer of InfluxDB", hook: func(q string, w http.ResponseWriter) bool {
			if rows(q) {
				fmt.Fprint(w, `["a","b"]`)
			}
			return rows(q)
		}},
		"down for good": {err: "503", hook: func(q string, w http.ResponseWriter) bool {
			if rows(q) {
				http.Error(w, "no", http.StatusServiceUnavailable)
			}
			return rows(q)
		}},
	} {
		calls.Store(0)
		f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
		f.hook = c.hook
		patience := 3 * time.Second
		if c.err != "" {
			patience = 50 * time.Millisecond
		}
		_, err := pulled(t, f, to, pullOptions{Options: Options{Patience: patience}})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		to.has(t, f.rows)
	}
}

// TestNoServer: an address where nothing answers is told at once.
func TestNoServer(t *testing.T) {
	f := newFake(t, "1.8.10")
	f.web.Close()
	if _, err := Connect(t.Context(), f.client()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
}

// TestSkew: the present is that of the source.
func TestSkew(t *testing.T) {
	for ahead := range map[time.Duration]bool{time.Hour: true, -time.Hour: true, 0: true} {
		f := newFake(t, "1.8.10")
		f.ahead = ahead
		s := f.connect()
		if d := s.Skew() - ahead; d.Abs() > 5*time.Second {
			t.Errorf("%s ahead: %s", ahead, s.Skew())
		}
		if d := s.Now().Sub(time.Now().Add(ahead)); d.Abs() > 10*time.Second {
			t.Errorf("%s ahead: now is off by %s", ahead, d)
		}
	}
}

// TestLongQuery: a query that is too long for a URL is sent as a form.
func TestLongQuery(t *testing.T) {
	f := newFake(t, "1.8.10")
	s := f.connect()
	for _, n := range []int{10, 2 * longQuery} {
		q := "SHOW " + strings.Repeat("x", n)
		f.extra[q] = table1("", "name", `["y"]`)
		tables, err := s.ask(t.Context(), place{"d", "p"}, q)
		if err != nil || len(tables) != 1 || tables[0].Text(tables[0].Values[0], "name") != "y" {
			t.Errorf("%d bytes: %v, %v", n, tables, err)
		}
		if f.method != map[bool]string{false: http.MethodGet, true: http.MethodPost}[n > longQuery] {
			t.Errorf("%d bytes: %s", n, f.method)
		}
	}
}

// TestMemory: memory does not grow with the series of an answer.
func TestMemory(t *testing.T) {
	series := 150_000
	if testing.Short() {
		series = 30_000
	}
	var peak uint64
	f, to := newFake(t, "1.8.10", fakeRow{"m", "a", hour, 1}), newTarget(t)
	f.groups = [][2]string{{"1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z"}}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f.hook = func(q string, w http.ResponseWriter) bool {
		if !strings.Contains(q, "GROUP BY *") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		for i := range series {
			partial := `,"partial":true`
			if i == series-1 {
				partial = ""
			}
			fmt.Fprintf(w, `{"results":[{"series":[{"name":"m","tags":{"host":"a host with a long name %d","dc":"%d"},"columns":["time","v"],"values":[[%d,1]]}]%s}]}`+"\n", i, i%7, hour, partial)
			if i%10_000 == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
		return true
	}
	to.discard = true
	p, err := pulled(t, f, to, pullOptions{batch: 64 << 10})
	if err != nil || p.stats.Written != int64(series) {
		t.Fatalf("%+v, %v", p.stats, err)
	}
	if grown := int64(peak) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("%d series take %d bytes", series, grown)
	}
}

// TestResume: slices that are done are not asked for again, except those of the present,
// and halves stay halves.
func TestResume(t *testing.T) {
	rows := append(someRows(), fakeRow{"m", "a", time.Now().UnixNano(), 9})
	f, to := newFake(t, "1.8.10", rows...), newTarget(t)
	name := filepath.Join(t.TempDir(), "journal")
	run := func() (*pull, int, error) {
		t.Helper()
		j, err := journal.Open(name, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		before := f.selects()
		p, err := pulled(t, f, to, pullOptions{Options: Options{Patience: 20 * time.Millisecond}, journal: j, workers: 1})
		return p, f.selects() - before, err
	}
	// The server dies after some slices, and takes only short ones.
	var answered atomic.Int64
	f.hook = func(q string, w http.ResponseWriter) bool {
		if !strings.Contains(q, "GROUP BY *") {
			return false
		}
		if answered.Add(1) > 9 {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return true
		}
		if answered.Load() < 4 {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return true
		}
		return false
	}
	if _, _, err := run(); err == nil || !strings.Contains(err.Error(), "down") {
		t.Fatalf("a server that dies: %v", err)
	}
	had := len(to.lines)
	if had == 0 {
		t.Fatal("nothing was done before the server died")
	}
	f.hook = nil
	to.lines = map[string]int{} // so that what is sent again shows
	p, asked, err := run()
	if err != nil {
		t.Fatal(err)
	}
	if p.stats.Earlier == 0 || len(to.lines) >= len(rows) || len(to.lines)+had < len(rows) {
		t.Errorf("%d slices skipped, %d rows before and %d after the restart, of %d", p.stats.Earlier, had, len(to.lines), len(rows))
	}
	to.lines = map[string]int{}
	_, again, err := run()
	if err != nil || again >= asked {
		t.Errorf("a third run asks %d times after %d, %v", again, asked, err)
	}
	to.has(t, rows[len(rows)-1:]) // of a time when rows still come
	to = newTarget(t)
	if _, _, err := run(); !errors.Is(err, mover.ErrLost) {
		t.Errorf("a journal for a target that is empty: %v", err)
	}
}

// TestHalves: what a server could not answer as a whole is not asked for as a whole again.
func TestHalves(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	name := filepath.Join(t.TempDir(), "journal")
	tooLong := map[string]int{}
	answers := 0
	f.hook = func(q string, w http.ResponseWriter) bool {
		if !strings.Contains(q, "GROUP BY *") {
			return false
		}
		if from, to := times(fakeSelect.FindStringSubmatch(q)); to-from > hour/3 {
			tooLong[q]++
			http.Error(w, "query timeout", http.StatusInternalServerError)
			return true
		}
		if answers++; answers == 9 {
			http.Error(w, "no", http.StatusForbidden)
			return true
		}
		return false
	}
	for run := range 2 {
		j, err := journal.Open(name, "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = pulled(t, f, to, pullOptions{journal: j, workers: 1}); (err == nil) != (run == 1) {
			t.Errorf("run %d: %v", run, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	to.has(t, f.rows)
	for q, n := range tooLong {
		if n > 1 {
			t.Errorf("asked %d times: %s", n, q)
		}
	}
	if len(tooLong) < 6 {
		t.Errorf("%d slices were too long", len(tooLong))
	}
}

// TestExpired: rows that the target would drop are not asked for.
func TestExpired(t *testing.T) {
	now := time.Now().UnixNano()
	rows := []fakeRow{{"m", "a", now - 48*hour, 1}, {"m", "a", now - 25*hour, 2}, {"m", "a", now - 22*hour, 3}, {"m", "a", now, 4}}
	f, to := newFake(t, "1.8.10", rows...), newTarget(t)
	to.expires = "24h0m0s"
	if _, err := pulled(t, f, to, pullOptions{}); err != nil {
		t.Fatal(err)
	}
	to.has(t, rows[2:])
}

// TestRefused: what the target refuses is counted and kept, and the rest goes on.
func TestRefused(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	to.refuse = "host=b"
	f.rows = append(f.rows, fakeRow{"m", "line\nbreak", 7, 1})
	name := filepath.Join(t.TempDir(), "refused")
	refused, err := mover.OpenRefused(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	p, err := pulled(t, f, to, pullOptions{refused: refused, workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	failed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want []fakeRow
	for _, r := range f.rows {
		if r.host != "b" && !strings.Contains(r.host, "\n") {
			want = append(want, r)
		} else if r.host == "b" && !strings.Contains(string(failed), r.line()) {
			t.Errorf("%s is not among what was refused", r.line())
		}
	}
	to.has(t, want)
	if st := p.stats; p.failed() != int64(len(f.rows)-len(want)) || st.Refused != p.failed() || st.Written != int64(len(want)) || !slices.ContainsFunc(st.Reasons, func(r mover.Reason) bool { return strings.Contains(r.Text, "newline") }) {
		t.Errorf("%+v", st)
	}
}

// TestRefusedOnce: what is refused of a slice that is asked for again is kept once, and
// counted once, also when the import is killed and repeated.
func TestRefusedOnce(t *testing.T) {
	var rows []fakeRow
	for i := range int64(3000) { // more than is sent at once
		rows = append(rows, fakeRow{"m", "b", 3600e9 + i, i})
	}
	f, to := newFake(t, "1.8.10", rows...), newTarget(t)
	f.groups = [][2]string{{"1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z"}}
	to.refuse = "host=b"
	breaks := 0
	f.hook = func(q string, w http.ResponseWriter) bool {
		if !strings.Contains(q, "GROUP BY *") || breaks == 0 {
			return false
		}
		breaks--
		w.Header().Set("Content-Type", "application/json")
		for _, r := range rows[:2900] {
			fmt.Fprintf(w, `{"results":[{"series":[{"name":"m","tags":{"host":"b"},"columns":["time","v"],"values":[[%d,%d]]}],"partial":true}]}`, r.at, r.value)
		}
		panic(http.ErrAbortHandler)
	}
	dir := t.TempDir()
	run := func(patience time.Duration) (*pull, error) {
		t.Helper()
		j, err := journal.Open(filepath.Join(dir, "journal"), "test")
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		refused, err := mover.OpenRefused(filepath.Join(dir, "refused"), true)
		if err != nil {
			t.Fatal(err)
		}
		defer refused.Close()
		p, err := pulled(t, f, to, pullOptions{Options: Options{Patience: patience}, journal: j, refused: refused, batch: 8 << 10})
		return p, err
	}
	breaks = 1000
	first, err := run(20 * time.Millisecond)
	if n := first.failed(); err == nil || n == 0 || n == int64(len(rows)) {
		t.Errorf("a server that breaks off: %d refused, %v", n, err)
	}
	breaks = 1
	for range 2 { // the second time it only continues what is finished
		p, err := run(2 * time.Second)
		if st := &p.stats; err != nil || p.failed() != int64(len(rows)) || st.Refused+st.EarlierRefused.Count != int64(len(rows)) || st.Written != 0 || len(st.Reasons)+len(st.EarlierRefused.Reasons) != 1 {
			t.Errorf("%+v, %v", st, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "refused"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		seen[strings.TrimSpace(line)]++
	}
	for _, r := range rows {
		if seen[r.line()] != 1 {
			t.Fatalf("%s is there %d times", r.line(), seen[r.line()])
		}
	}
}

// TestRefusedBefore: an import that goes on counts and names what was refused before it, also
// without a file of refused lines, or with another one.
func TestRefusedBefore(t *testing.T) {
	f, to := newFake(t, "1.8.10", append(someRows(), fakeRow{"m", "line\nbreak", 7, 1})...), newTarget(t)
	to.refuse = "host=b"
	dir := t.TempDir()
	var want int64
	for round, name := range []string{"", "", filepath.Join(dir, "refused"), filepath.Join(dir, "refused"), filepath.Join(dir, "other"), ""} {
		j, err := journal.Open(filepath.Join(dir, "journal"), "test")
		if err != nil {
			t.Fatal(err)
		}
		refused, err := mover.OpenRefused(name, true)
		if err != nil {
			t.Fatal(err)
		}
		p, err := pulled(t, f, to, pullOptions{journal: j, refused: refused, workers: 1})
		if err := errors.Join(err, refused.Close(), j.Close()); err != nil {
			t.Fatal(err)
		}
		n, st := p.failed(), p.stats
		if round == 0 {
			if want = n; n < 10 || len(st.Reasons) != 2 {
				t.Fatalf("%+v", st)
			}
			continue
		}
		if n != want || st.Written != 0 || len(st.EarlierRefused.Reasons) != 2 {
			t.Errorf("round %d: %d refused, want %d: %+v", round, n, want, st)
		}
	}
}

// TestTargetFails: an error of the target ends the import at once, as such. It is not taken
// for one of the source.
func TestTargetFails(t *testing.T) {
	s := newFake(t, "1.8.10", someRows()...).connect()
	c, err := s.Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []string{"", "SHOW RETENTION POLICIES ON \"d\""} { // at a write, and before
		for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden} {
			away := newFake(t, "1.8.10")
			away.extra["SHOW RETENTION POLICIES ON \"d\""] = table1("", `name","duration`, `["p","0s"]`)
			away.hook = func(q string, w http.ResponseWriter) bool {
				if q == asked {
					http.Error(w, `{"error":"no, because"}`, status)
				}
				return q == asked
			}
			_, err = pulledTo(t, s, c, away.client(), pullOptions{})
			var answer *exchange.WriteError
			if !errors.As(err, &answer) || answer.Status != status || strings.Contains(err.Error(), "the old server") || asked == "" && !strings.Contains(err.Error(), "write d.p.") {
				t.Errorf("%d at %q: %v", status, asked, err)
			}
		}
	}
}

// TestSlice: no slice is longer than it may be.
func TestSlice(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	f.hook = func(q string, _ http.ResponseWriter) bool {
		if strings.Contains(q, "GROUP BY *") {
			if from, to := times(fakeSelect.FindStringSubmatch(q)); uint64(to-from) > uint64(hour/4) {
				t.Error(q)
			}
		}
		return false
	}
	if _, err := pulled(t, f, to, pullOptions{Options: Options{Slice: 15 * time.Minute}}); err != nil {
		t.Fatal(err)
	}
	to.has(t, f.rows)
}

// TestLearn: slices with very many rows make the next ones shorter, and few rows longer.
func TestLearn(t *testing.T) {
	s := newStretch(nil)
	for _, c := range []struct {
		rows  int64
		level int32
		want  int32
	}{{100, 0, 0}, {sliceRows + 1, 0, 1}, {sliceRows + 1, 1, 2}, {sliceRows / 2, 2, 2}, {10, 1, 2}, {10, 2, 1}, {10, 1, 0}, {10, 0, 0}} {
		if s.learn(c.rows, time.Second, c.level); s.depth.Load() != c.want {
			t.Errorf("%+v: depth %d", c, s.depth.Load())
		}
	}
	if s.learn(1, sliceTime+1, 0); s.depth.Load() != 1 {
		t.Errorf("a slow slice: depth %d", s.depth.Load())
	}
}

// TestCatalog: what there is besides rows.
func TestCatalog(t *testing.T) {
	f := newFake(t, "1.8.10")
	maps := map[string]string{
		"SHOW DATABASES":                       table1("databases", "name", `["_internal"],["d"],["e \"1\""]`),
		`SHOW RETENTION POLICIES ON "d"`:       table1("", `name","duration","shardGroupDuration","replicaN","default`, `["autogen","0s","168h0m0s",1,false],["short","72h0m0s","24h0m0s",3,true]`),
		`SHOW RETENTION POLICIES ON "e \"1\""`: table1("", `name","duration","shardGroupDuration","replicaN","default`, `["autogen","0s","0s",1,true]`),
		"SHOW CONTINUOUS QUERIES":              `{"results":[{"series":[{"name":"_internal","columns":["name","query"]},{"name":"d","columns":["name","query"],"values":[["q","CREATE CONTINUOUS QUERY q ON d BEGIN SELECT 1 END"]]}]}]}`,
		"SHOW SUBSCRIPTIONS":                   `{"results":[{"series":[{"name":"d","columns":["retention_policy","name","mode","destinations"],"values":[["short","s","ALL",["http://h:1","udp://o'h:2"]]]}]}]}`,
		"SHOW USERS":                           table1("", `user","admin`, `["root",true],["a \"b\"",false]`),
		`SHOW GRANTS FOR "root"`:               table1("", `database","privilege`, ""),
		`SHOW GRANTS FOR "a \"b\""`:            table1("", `database","privilege`, `["d","READ"],["e \"1\"","ALL PRIVILEGES"],["gone","READ"],["d","NO PRIVILEGES"]`),
	}
	f.extra = maps
	c, err := f.connect().Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	if want := []*meta.Database{
		{Name: "d", DefaultRetentionPolicy: "short", RetentionPolicies: []*meta.RetentionPolicy{{Name: "autogen", ShardGroupDuration: 7 * day, ReplicaN: 1}, {Name: "short", Duration: 3 * day, ShardGroupDuration: day, ReplicaN: 1}}},
		{Name: `e "1"`, DefaultRetentionPolicy: "autogen", RetentionPolicies: []*meta.RetentionPolicy{{Name: "autogen", ShardGroupDuration: 7 * day, ReplicaN: 1}}},
	}; !reflect.DeepEqual(c.Data.Databases, want) {
		t.Errorf("databases %+v", c.Data.Databases)
	}
	if want := []exchange.Continuous{{Database: "d", Name: "q", Query: "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT 1 END"}}; !slices.Equal(c.Queries, want) {
		t.Errorf("continuous queries %q", c.Queries)
	}
	if want := []string{
		`CREATE SUBSCRIPTION "s" ON "d"."short" DESTINATIONS ALL 'http://h:1', 'udp://o\'h:2'`,
		`CREATE USER "root" WITH PASSWORD '...' WITH ALL PRIVILEGES`,
		`CREATE USER "a \"b\"" WITH PASSWORD '...'`,
		`GRANT READ ON "d" TO "a \"b\""`,
		`GRANT ALL ON "e \"1\"" TO "a \"b\""`,
	}; !slices.Equal(c.Statements, want) {
		t.Errorf("statements %q", c.Statements)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "does not tell its shards") {
		t.Errorf("notes %q", c.Notes)
	}
}

// TestWithoutDownsamples: an old tsdbd does not know the statement that shows them, and has
// none.
func TestWithoutDownsamples(t *testing.T) {
	for answer, want := range map[string]int{"error parsing query: found DOWNSAMPLES, expected CONTINUOUS": 0, "not authorized": 1} {
		f := newFake(t, "1.8.10", someRows()...)
		f.groups = [][2]string{}
		for _, statement := range []string{"SHOW CONTINUOUS QUERIES", "SHOW SUBSCRIPTIONS", "SHOW USERS"} {
			f.extra[statement] = `{"results":[{}]}`
		}
		f.hook = func(q string, w http.ResponseWriter) bool {
			if q == "SHOW DOWNSAMPLES" {
				http.Error(w, fmt.Sprintf(`{"error":%q}`, answer), http.StatusBadRequest)
			}
			return q == "SHOW DOWNSAMPLES"
		}
		s := f.connect()
		s.kind = tsdbd
		c, err := s.Catalog(t.Context(), &exchange.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Notes) != want {
			t.Errorf("%s: notes %q", answer, c.Notes)
		}
	}
}

// TestPoliciesOf3: a policy of a 1.x client is a database of InfluxDB 3.x.
func TestPoliciesOf3(t *testing.T) {
	f := newFake(t, "3.4.0")
	f.extra["SHOW DATABASES"] = table1("", "iox::database", `["d/long"],["d"]`)
	f.extra["SHOW RETENTION POLICIES"] = table1("", `name","duration`, `["x",86400000000000]`)
	s := f.connect()
	c, err := s.Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	d := c.Data.Databases
	if len(d) != 1 || len(d[0].RetentionPolicies) != 2 || d[0].DefaultRetentionPolicy != "autogen" || d[0].RetentionPolicy("long").Duration != 24*time.Hour {
		t.Errorf("databases %+v", d)
	}
	for p, want := range map[place]string{{"d", "long"}: "d/long", {"d", "autogen"}: "d"} {
		if got := s.database(p); got != want {
			t.Errorf("%v: %s", p, got)
		}
	}
}

// TestJudge: what is done about an error is decided by it.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{errTruncated, split},
		{fmt.Errorf("read: %w", errStalled), split},
		{fmt.Errorf("read: %w", &fs.PathError{Op: "write", Path: "refused", Err: syscall.ENOSPC}), give},
		{&exchange.QueryError{Text: "query-timeout limit exceeded"}, split},
		{&exchange.QueryError{Text: "max-concurrent-queries limit exceeded(5, 5)"}, again},
		{&exchange.QueryError{Text: "Query would scan 500 Parquet files, exceeding the file limit"}, split},
		{&exchange.QueryError{Text: "database not found: d"}, give},
		{&exchange.WriteError{Status: 400, Message: "error parsing query"}, give},
		{&exchange.WriteError{Status: 401}, give},
		{&exchange.WriteError{Status: 429}, again},
		{&exchange.WriteError{Status: 500, Message: "Resources exhausted"}, split},
		{&exchange.WriteError{Status: 502}, again},
		{&exchange.WriteError{Status: 504}, split},
		{errors.New("connection reset"), again},
		{t.Context().Err(), again},
	} {
		if got := judge(c.err); c.err != nil && got != c.want {
			t.Errorf("%v: %d", c.err, got)
		}
	}
}

// TestFollow: new rows come as they are written, late ones are found by counts, and the
// end comes when nothing is new.
func TestFollow(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	var said []string
	p, err := pulled(t, f, to, pullOptions{Options: Options{Note: func(text string) { said = append(said, text) }}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixNano()
	f.add(fakeRow{"m", "a", now - 3*hour, 1}, fakeRow{"m", "b", now, 2}, fakeRow{"new", "b", now + 1, 3})
	refused := fakeRow{"m", "late", now - 5*hour, 1}
	to.refuse = "late"
	f.add(refused)
	begun := f.selects()
	upTo, err := p.follow(t)
	if err != nil {
		t.Fatal(err)
	}
	to.has(t, slices.DeleteFunc(f.rows, func(r fakeRow) bool { return r == refused }))
	if len(said) < 2 || !strings.Contains(said[0], "deletes are not seen") || !strings.Contains(said[len(said)-1], "the writers have moved") {
		t.Errorf("it said %q", said)
	}
	if upTo.IsZero() || p.failed() != 1 {
		t.Errorf("up to %s, %d refused", upTo, p.failed())
	}
	tries := 0
	for _, q := range f.asked[begun:] {
		if strings.Contains(q, "GROUP BY *") && strings.Contains(q, fmt.Sprint((now-5*hour)/int64(10*time.Minute)*int64(10*time.Minute))) {
			tries++
		}
	}
	if tries != 1 {
		t.Errorf("a window that stays different was taken %d times", tries)
	}
}

// TestFollowSwitch: what comes late at the source is found although writers have moved and
// write as much to the target. A target that is away for a while is waited for.
func TestFollowSwitch(t *testing.T) {
	now := time.Now().UnixNano()
	old, young := now-2*hour, now-3*int64(time.Minute)
	f, to := newFake(t, "1.8.10", fakeRow{"m", "a", old, 1}, fakeRow{"m", "a", young, 2}), newTarget(t)
	p, err := pulled(t, f, to, pullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	moved := []fakeRow{{"m", "moved", old + 1, 3}, {"m", "moved", young + 1, 4}}
	counts := 0
	to.counted = func() {
		if counts++; counts != 2 {
			return
		}
		f.add(fakeRow{"m", "late", old + 2, 5}, fakeRow{"m", "late", young + 2, 6}, fakeRow{"m", "early", now + hour, 7})
		for _, r := range moved {
			to.lines[r.line()]++
		}
		to.down = 5
	}
	if _, err := p.follow(t); err != nil {
		t.Fatal(err)
	}
	if counts < 3 {
		t.Errorf("%d counts", counts)
	}
	to.has(t, append(f.rows, moved...))
}

// TestSurvey counts without a change.
func TestSurvey(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	var long atomic.Bool
	f.hook = func(q string, w http.ResponseWriter) bool {
		if strings.HasPrefix(q, "SELECT count") && !long.Swap(true) {
			http.Error(w, "timeout", http.StatusGatewayTimeout)
			return true
		}
		return false
	}
	s := f.connect()
	c, err := s.Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := New(s, to.client(), c, Options{}).Survey(t.Context())
	if want := []Found{{"d", "p", "m", 1, 40}, {"d", "p", "n", 1, 3}}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
	if len(to.lines)+len(to.made) > 0 {
		t.Errorf("the target got %v %v", to.lines, to.made)
	}
}
