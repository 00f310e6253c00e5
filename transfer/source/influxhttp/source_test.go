package influxhttp

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
)

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
