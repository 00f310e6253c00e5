package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/testkit/load"
)

// TestMain lets the test binary be the null-wal server that bench starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "null-wal" {
		main()
		return
	}
	os.Exit(m.Run())
}

// respond renders series as a server does.
func respond(t *testing.T, series ...answerSeries) *answer {
	t.Helper()
	b, err := json.Marshal(map[string]any{"results": []any{map[string]any{"statement_id": 0, "series": series}}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := parseAnswer(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func cells(values ...any) []json.RawMessage {
	var out []json.RawMessage
	for _, v := range values {
		b, _ := json.Marshal(v)
		out = append(out, b)
	}
	return out
}

func TestParseAnswer(t *testing.T) {
	for _, text := range []string{`{"error":"no"}`, `{"results":[{"error":"no"}]}`, `{"results":[]}`, `{`} {
		if _, err := parseAnswer([]byte(text)); err == nil {
			t.Errorf("%s passes", text)
		}
	}
	a, err := parseAnswer([]byte(`{"results":[{"series":[{"name":"m","tags":{"h":"a"},"columns":["time","n"],"values":[["2016-01-01T00:00:00.5Z",3],[7,null]]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.one()
	if err != nil {
		t.Fatal(err)
	}
	if at, err := s.time(0); err != nil || at != load.DevopsTime(0)+5e8 {
		t.Errorf("time %d, %v", at, err)
	}
	if at, err := s.time(1); err != nil || at != 7 {
		t.Errorf("time %d, %v", at, err)
	}
	if s.integer(0, 1, 3) != nil || s.integer(0, 1, 4) == nil || s.float(0, 1, 3) != nil || s.float(0, 1, 3.0001) == nil || s.null(1, 1) != nil || s.null(0, 1) == nil {
		t.Error("cells are compared wrongly")
	}
}

func TestMatrix(t *testing.T) {
	m, err := parseMatrix([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[60,"1.5"],[120,"2"]]}]}}`))
	if err != nil || len(m) != 1 || len(m[0].Values) != 2 || m[0].Values[1] != (sample{120, 2}) || m[0].Metric["a"] != "b" {
		t.Errorf("%v, %v", m, err)
	}
	m, err = parseMatrix([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[60,"42"]}]}}`))
	if err != nil || m.count(42) != nil || m.count(41) == nil {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := parseMatrix([]byte(`{"status":"error"}`)); err == nil {
		t.Error("an error passes")
	}
}

// parseRange returns the bounds of time in a query's text (ns).
func parseRange(t *testing.T, text string) (from, to int64) {
	t.Helper()
	var bounds [2]int64
	for i, mark := range []string{"time >= '", "time < '"} {
		_, after, _ := strings.Cut(text, mark)
		bound, _, _ := strings.Cut(after, "'")
		at, err := time.Parse(time.RFC3339Nano, bound)
		if err != nil {
			t.Fatalf("no range of time in %q", text)
		}
		bounds[i] = at.UnixNano()
	}
	return bounds[0], bounds[1]
}

// TestDevopsChecks gives every check a right answer, made here in another way,
// and then the same with one cell changed.
func TestDevopsChecks(t *testing.T) {
	d := devops{load.NewDevops(4, 1000)}
	r := rand.New(rand.NewPCG(1, 2))
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
	inWindow := func(step int, text string) bool {
		from, to := parseRange(t, text)
		return load.DevopsTime(step) >= from && load.DevopsTime(step) < to
	}
	whole := func(host, step int, byHost bool) (columns []string, row []json.RawMessage) {
		columns, row = []string{"time"}, cells(at(load.DevopsTime(step)))
		for _, k := range load.DevopsTags {
			if k == "hostname" && byHost {
				continue
			}
			v, _ := d.Tag(host, k)
			columns, row = append(columns, k), append(row, cells(v)...)
		}
		for f, k := range load.DevopsFields {
			columns, row = append(columns, k), append(row, cells(d.Value(host, step, f))...)
		}
		return columns, row
	}
	try := func(name string, q question, series ...answerSeries) {
		t.Helper()
		if err := q.check(respond(t, series...)); err != nil {
			t.Errorf("%s: a right answer: %v", name, err)
		}
		last := series[len(series)-1].Values
		row := last[len(last)-1]
		row[len(row)-1] = json.RawMessage("101")
		if q.check(respond(t, series...)) == nil {
			t.Errorf("%s: a wrong answer passes", name)
		}
		series[len(series)-1].Values = last[:len(last)-1]
		if q.check(respond(t, series...)) == nil {
			t.Errorf("%s: an answer with a row less passes", name)
		}
	}

	q := d.highest(r, 1, 1, hour, minute)
	host := 0
	for h := range d.Hosts() {
		if strings.Contains(q.text, fmt.Sprintf("'host_%d'", h)) {
			host = h
		}
	}
	s := answerSeries{Columns: []string{"time", "max"}}
	var present []int
	for step := range d.Steps() {
		if inWindow(step, q.text) {
			present = append(present, step)
		}
	}
	from, to := parseRange(t, q.text)
	for w := from / minute * minute; w < to; w += minute {
		best := int64(-1)
		for _, step := range present {
			if ns := load.DevopsTime(step); ns >= w && ns < w+minute {
				best = max(best, d.Value(host, step, 0))
			}
		}
		if best < 0 {
			s.Values = append(s.Values, cells(at(w), nil))
		} else {
			s.Values = append(s.Values, cells(at(w), best))
		}
	}
	try("single-groupby", q, s)

	q = d.highCPU(r, -1)
	s = answerSeries{}
	for step := range d.Steps() {
		for h := range d.Hosts() {
			if inWindow(step, q.text) && d.Value(h, step, 0) > 90 {
				columns, row := whole(h, step, false)
				s.Columns, s.Values = columns, append(s.Values, row)
			}
		}
	}
	if len(s.Values) == 0 {
		t.Fatal("no host is above 90")
	}
	try("high-cpu-all", q, s)

	var all []answerSeries
	for h := range d.Hosts() {
		columns, row := whole(h, d.Steps()-1, true)
		all = append(all, answerSeries{Tags: map[string]string{"hostname": fmt.Sprintf("host_%d", h)}, Columns: columns, Values: [][]json.RawMessage{row}})
	}
	try("lastpoint", d.lastPoint(r), all...)

	q = d.doubleGroupBy(r, 2)
	all = nil
	for h := range d.Hosts() {
		s := answerSeries{Tags: map[string]string{"hostname": fmt.Sprintf("host_%d", h)}, Columns: []string{"time", "mean", "mean_1"}}
		for w := load.DevopsTime(0); w < load.DevopsTime(0)+12*hour; w += hour {
			n, a, b := 0, 0.0, 0.0
			for step := range d.Steps() {
				if load.DevopsTime(step) >= w && load.DevopsTime(step) < w+hour {
					n, a, b = n+1, a+float64(d.Value(h, step, 0)), b+float64(d.Value(h, step, 1))
				}
			}
			if n == 0 {
				s.Values = append(s.Values, cells(at(w), nil, nil))
			} else {
				s.Values = append(s.Values, cells(at(w), a/float64(n), b/float64(n)))
			}
		}
		all = append(all, s)
	}
	try("double-groupby", q, all...)

	q = d.firstMinutes(r)
	s = answerSeries{Columns: []string{"time", "max"}}
	for m := range int64(5) {
		best := int64(-1)
		for step := 6 * m; step < 6*m+6; step++ {
			for h := range d.Hosts() {
				best = max(best, d.Value(h, int(step), 0))
			}
		}
		s.Values = append(s.Values, cells(at(load.DevopsTime(0)+m*minute), best))
	}
	try("groupby-orderby-limit", q, s)
}

// TestWideChecks does the same for series of many fields, and for thirty days.
func TestWideChecks(t *testing.T) {
	try := func(name string, q question, series ...answerSeries) {
		t.Helper()
		if err := q.check(respond(t, series...)); err != nil {
			t.Errorf("%s: a right answer: %v", name, err)
		}
		last := series[len(series)-1].Values
		row := last[len(last)-1]
		row[len(row)-1] = json.RawMessage("1001")
		if q.check(respond(t, series...)) == nil {
			t.Errorf("%s: a wrong answer passes", name)
		}
		series[len(series)-1].Values = last[:len(last)-1]
		if q.check(respond(t, series...)) == nil {
			t.Errorf("%s: an answer with a row less passes", name)
		}
	}
	w := &wide{rows: 40}
	values := map[string][]float64{}
	for {
		b, n := w.next(nil, 1000)
		if n == 0 {
			break
		}
		for line := range strings.Lines(string(b)) {
			for pair := range strings.SplitSeq(strings.Fields(line)[1], ",") {
				var v float64
				name, text, _ := strings.Cut(pair, "=")
				if _, err := fmt.Sscanf(text, "%gi", &v); err != nil {
					t.Fatal(err)
				}
				values[name] = append(values[name], v)
			}
		}
	}
	if len(values) != wideFields || len(values["f17"]) != 40 {
		t.Fatalf("%d fields, %d rows", len(values), len(values["f17"]))
	}
	means := answerSeries{Columns: []string{"time"}, Values: [][]json.RawMessage{cells(0)}}
	rows := answerSeries{Columns: []string{"time", "host"}}
	for range 10 {
		rows.Values = append(rows.Values, cells(0, "a"))
	}
	for name, all := range values {
		sum := 0.0
		for _, v := range all {
			sum += v
		}
		means.Columns, means.Values[0] = append(means.Columns, "mean_"+name), append(means.Values[0], cells(sum/40)...)
		rows.Columns = append(rows.Columns, name)
		for i := range rows.Values {
			rows.Values[i] = append(rows.Values[i], cells(all[i])...)
		}
	}
	queries := w.queries()
	try("mean of all fields", queries[1].ask(nil), means)
	try("ten rows", queries[2].ask(nil), rows)

	m := month{devops{load.NewDevops(2, 60)}}
	q := m.means(-1, minute)
	var all []answerSeries
	for host := range 2 {
		s := answerSeries{Tags: map[string]string{"hostname": fmt.Sprintf("host_%d", host)}, Columns: []string{"time", "mean"}}
		for window := range 10 {
			sum := int64(0)
			for step := range 6 {
				sum += m.Value(host, 6*window+step, 0)
			}
			at := time.Unix(0, load.DevopsTime(6*window)).UTC().Format(time.RFC3339Nano)
			s.Values = append(s.Values, cells(at, float64(sum)/6))
		}
		all = append(all, s)
	}
	try("mean by minute", q, all...)
	if m.means(1, minute).check(respond(t, all[0])) == nil {
		t.Error("another host passes")
	}
}

// TestQuestionsRepeat wants every server to be asked the same.
func TestQuestionsRepeat(t *testing.T) {
	d := devops{load.NewDevops(100, 6000)}
	for _, q := range d.queries() {
		a, b := rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(1, 1))
		first := q.ask(a).text
		if second := q.ask(b).text; first != second {
			t.Errorf("%s: %s, then %s", q.name, first, second)
		}
		if other := q.ask(a).text; other == first && q.name != "lastpoint" {
			t.Errorf("%s asks the same twice: %s", q.name, first)
		}
	}
	if n := len(d.queries()); n != 15 {
		t.Errorf("%d kinds of queries, want 15", n)
	}
}

func TestSummary(t *testing.T) {
	var took []time.Duration
	for i := range 200 {
		took = append(took, time.Duration(200-i))
	}
	if l := summary(took); l != (latencies{200, 100, 101, 199}) {
		t.Errorf("%+v", l)
	}
	if l := summary(nil); l != (latencies{}) {
		t.Errorf("%+v", l)
	}
}

func TestTimes(t *testing.T) {
	for _, tt := range []struct {
		ours, peers float64
		better      int
		want        string
	}{{10, 5, more, "2.00"}, {10, 5, less, "0.50"}, {1, 250, less, "250"}, {250, 1, less, "0.004"}, {1, 2, 0, ""}, {0, 1, less, ""}} {
		if got := times(tt.ours, tt.peers, tt.better); got != tt.want {
			t.Errorf("%v against %v: %q, want %q", tt.ours, tt.peers, got, tt.want)
		}
	}
	if best(1, 2, more) != 2 || best(1, 2, less) != 1 || best(2, 1, less) != 1 {
		t.Error("the worse one is the best")
	}
}

// TestLoad sends a workload to a server that has no room now and then.
func TestLoad(t *testing.T) {
	var lines, requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%3 == 0 {
			http.Error(w, "full", http.StatusServiceUnavailable)
			return
		}
		b, _ := io.ReadAll(r.Body)
		lines.Add(int64(bytes.Count(b, []byte{'\n'})))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	phases := collect(hicard{load.NewHicard(100, 3)}, 30)
	if len(phases) != 3 || phases[1].rows != 100 || len(phases[0].bodies) != 4 {
		t.Fatalf("%d phases", len(phases))
	}
	c := newClient(server.URL, "d", 2)
	defer c.close()
	for _, p := range phases {
		if err := c.load(t.Context(), p.bodies, 2); err != nil {
			t.Fatal(err)
		}
	}
	if lines.Load() != 300 || c.retries.Load() == 0 {
		t.Errorf("%d lines, %d retries", lines.Load(), c.retries.Load())
	}
	server.Config.Handler = http.NotFoundHandler()
	if err := c.load(t.Context(), phases[0].bodies, 2); err == nil {
		t.Error("a refused load passes")
	}
}

// TestConn writes and asks over one connection to a server whose answers differ.
func TestConn(t *testing.T) {
	var got bytes.Buffer
	answers := []int{204, 503, 200, 204, 400}
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if r.FormValue("long") != "" {
				fmt.Fprint(w, strings.Repeat("0123456789", 1e5))
			} else {
				http.Error(w, r.FormValue("q"), http.StatusTeapot)
			}
			return
		}
		_, _ = got.ReadFrom(r.Body)
		w.Header().Set("X-Other", "value")
		w.WriteHeader(answers[n])
		if answers[n] != 204 {
			fmt.Fprint(w, "because")
		}
		n++
	}))
	defer server.Close()
	w, err := dial(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	want := ""
	for _, status := range answers {
		body := strings.Repeat("x", status*300)
		want += body
		err := w.write("d", []byte(body))
		if e, ok := err.(*statusError); status/100 == 2 && err != nil || status/100 != 2 && (!ok || e.status != status || e.text != "because" || e.full() != (status == 503)) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if got.String() != want {
		t.Error("other bodies came")
	}
	for range 2 {
		if b, err := w.get("/query", url.Values{"long": {"1"}}); err != nil || len(b) != 1e6 || string(b[999_990:]) != "0123456789" {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		_, err := w.get("/query", url.Values{"q": {"a b&c"}})
		if e, ok := err.(*statusError); !ok || e.status != http.StatusTeapot || e.path != "/query" || e.text != "a b&c" {
			t.Errorf("refused: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, err := dial(ctx, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer ended.close()
	cancel()
	<-ctx.Done()
	for ended.SetDeadline(time.Time{}) == nil { // until it is closed
		time.Sleep(time.Millisecond)
	}
	if _, err := ended.get("/query", nil); err == nil {
		t.Error("a connection outlives its context")
	}
}

// TestBench runs the whole against the server that every machine has.
func TestBench(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.md")
	args := []string{"bench", "-servers", "null-wal,influxd-of-nowhere", "-workloads", "small", "-each", "10ms", "-steady", "20ms", "-settle", "0s", "-report", file, "-tmp", t.TempDir()}
	if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
		t.Error("an unknown server passes")
	}
	args[2] = "null-wal"
	if err := run(t.Context(), args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# End-to-end measurements", "| commit |", "## small", "| 1 rows, 1 connections |", "| 10000 rows, 8 connections |", "| 10 rows, 8 connections for 20ms, until quiet |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestTables(t *testing.T) {
	figures := func(took time.Duration, wrong string) *result {
		return &result{
			product: &product{name: "a", version: "v1.79.5+ds1 of go1.19"}, workload: "devops",
			load:    &loadFigures{phases: []phaseFigures{{"load", 1000, took}}, rows: 1000, values: 2000, took: took, cpu: took, settled: took, quiet: true, disk: 500, diskSettled: 500},
			queries: []*queryFigures{{name: "q", latency: latencies{3, took, took, took}, cpu: 2 * took, wrong: wrong}, {name: "other", skipped: true}},
		}
	}
	var b strings.Builder
	results := []*result{figures(time.Second, ""), figures(4*time.Second, ""), figures(time.Millisecond, "bad")}
	results[2].load = nil
	if err := writeLoad(&b, results); err != nil {
		t.Fatal(err)
	}
	if err := writeQueries(&b, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| k rows/s | 1.0 | 0.2 | 4.00 |",
		"| us CPU/row until quiet | 1000.000 | 4000.000 | 4.00 |",
		"| bytes/value | 0.250 | 0.250 | 1.00 |",
		"| load | a 1.79.5 | a 1.79.5 | times better |",
		"| q | 1000.00 / 1000.00 / 1000.00 (2000.00, n=3, 0 B) | 4000.00 / 4000.00 / 4000.00 (8000.00, n=3, 0 B) | WRONG 1.00 / 1.00 / 1.00 (2.00, n=3, 0 B) | 4.00 |",
		"| other | - | - | - |",
		"- a, q: bad",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestGoals(t *testing.T) {
	ours := &result{
		product: &product{name: "tsdbd"}, workload: "devops",
		load: &loadFigures{rows: 1000, values: 10_000, took: time.Second, settled: time.Second, anon: 100e6, diskSettled: 3500, phases: []phaseFigures{{"load", 1000, time.Second}}},
		queries: []*queryFigures{
			{name: "lastpoint", latency: latencies{3, time.Millisecond, time.Millisecond, time.Millisecond}},
			{name: "high-cpu-all", latency: latencies{3, 1, 1, 1}, wrong: "bad"},
		},
	}
	small := &result{product: &product{name: "tsdbd"}, workload: "small", small: []*smallFigures{{rows: 10, connections: 1, perSecond: 800}}}
	limit := &result{product: &product{name: "null-wal", limit: true}, workload: "small", small: []*smallFigures{{rows: 10, connections: 1, perSecond: 1000}}}
	var b strings.Builder
	if err := writeGoals(&b, []*result{ours, small, limit}); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(b.String(), "|---|---|--:|--:|---|\n")
	want := "| devops | k rows/s | >= 2000 | 1 | no |\n" +
		"| devops | us CPU/row until quiet | <= 0.8 | 1000 | no |\n" +
		"| devops | bytes/value | <= 0.32 | 0.35 | no |\n" +
		"| devops | peak anonymous MB | <= 150 | 100 | yes |\n" +
		"| devops | lastpoint | <= 1 | 1 | yes |\n" +
		"| small | 10 rows, 1 connections, share of null-wal | >= 0.9 | 0.8 | no |\n"
	if got != want || !strings.Contains(b.String(), "2 of 6 reached") {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

// TestGoalNames looks for the figure of every goal.
func TestGoalNames(t *testing.T) {
	known := map[string]bool{}
	for _, name := range []string{"devops", "seed", "hicard"} {
		w, err := newWorkload(name, &options{scale: 0.004, rounds: load.HicardRounds})
		if err != nil {
			t.Fatal(err)
		}
		r := &result{workload: name, load: &loadFigures{}}
		for _, p := range collect(w, 10_000) {
			r.load.phases = append(r.load.phases, phaseFigures{p.name, p.rows, time.Second})
		}
		for _, row := range loadRows([]*result{r}) {
			known[name+row.name] = true
		}
		for _, q := range w.queries() {
			known[name+q.name] = true
		}
	}
	for _, rows := range smallRows {
		known["small"+(&smallFigures{rows: rows, connections: 8}).name()] = true
	}
	for _, g := range goals {
		if !known[g.workload+g.figure] {
			t.Errorf("%s has no %q", g.workload, g.figure)
		}
	}
}

func TestBehind(t *testing.T) {
	tables := "| load | a | b | times better |\n|---|--:|--:|--:|\n| disk MB | 2 | 1 | 0.50 |\n| k rows/s | 2 | 1 | 2.00 |\n| stop s | 1 | 1 |  |\n\n- a: 0.3\n" +
		"| query: mean / p50 / p99 ms | a | b | times better |\n|---|--:|--:|--:|\n| A: count | 1 (n=3) | 1 | 0.99 |\n"
	got := strings.Join(behindIn(tables), "; ")
	if want := "load, disk MB: 0.50; query, A: count: 0.99"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := behindIn("| load | a |\n|---|--:|\n| disk MB | 0.5 |\n"); got != nil {
		t.Errorf("without peers: %q", got)
	}
}

// TestScaled makes every workload small and reads its lines' number back.
func TestScaled(t *testing.T) {
	for _, name := range []string{"devops", "month", "wide", "seed", "hicard", "telegraf"} {
		w, err := newWorkload(name, &options{scale: 0.004, hosts: 3, hours: 24})
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, p := range collect(w, 1000) {
			lines := 0
			for _, b := range p.bodies {
				lines += bytes.Count(b, []byte{'\n'})
			}
			if lines != p.rows || lines == 0 {
				t.Errorf("%s, %s: %d lines, said %d", name, p.name, lines, p.rows)
			}
			rows += lines
		}
		if len(w.queries()) == 0 || w.count().text == "" || w.probe().text == "" {
			t.Errorf("%s asks nothing", name)
		}
	}
	if _, err := newWorkload("other", &options{scale: 1}); err == nil {
		t.Error("an unknown workload passes")
	}
}

// TestSettle waits for a directory that something still writes to.
func TestSettle(t *testing.T) {
	dir := t.TempDir()
	target := &target{data: dir, log: func() int64 { return 0 }}
	if quiet, err := target.settle(t.Context(), 0); quiet || err != nil {
		t.Errorf("no wait at all: %v, %v", quiet, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := target.settle(ctx, time.Minute); err == nil {
		t.Error("the end of the context is not seen")
	}
	if quiet, err := target.settle(t.Context(), 600*time.Millisecond); !quiet || err != nil {
		t.Errorf("a directory at rest: %v, %v", quiet, err)
	}
}
