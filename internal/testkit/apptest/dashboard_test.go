package apptest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/load"
)

// panel is one query that dashboards send.
type panel struct {
	ID       string
	Q        string
	Method   string
	Kind     string // "error": it must fail; "shape": the values depend on the moment
	RP       string
	Host     string
	From, To *int64 // s from the start of the data; default all six hours
	Interval string `json:"iv"`
	Format   string `json:"fmt"`
	AnyOrder bool
	Epoch    string
}

func panels(t *testing.T) []panel {
	t.Helper()
	f, err := os.Open("testdata/dashboard-queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []panel
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var p panel
		if err := json.Unmarshal(s.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	if err := s.Err(); err != nil || len(out) < 100 {
		t.Fatalf("%d queries, %v", len(out), err)
	}
	return out
}

// params fills the variables of the query in, as a dashboard does.
func (p *panel) params(db string) url.Values {
	from, to := int64(0), int64(6*3600)
	if p.From != nil {
		from = *p.From
	}
	if p.To != nil {
		to = *p.To
	}
	host, interval := p.Host, p.Interval
	if host == "" {
		host = "(web01|web02)"
	}
	if interval == "" {
		interval = "1m"
	}
	ms := "60000"
	if d, err := time.ParseDuration(interval); err == nil {
		ms = fmt.Sprint(d.Milliseconds())
	}
	q := strings.NewReplacer(
		"$timeFilter", fmt.Sprintf("time >= %dms and time <= %dms", (load.DashboardStart+from)*1000, (load.DashboardStart+to)*1000),
		"$__interval_ms", ms, "$__interval", interval, "$interval", interval, "$host", host, "$db", db,
	).Replace(p.Q)
	v := url.Values{"db": {db}, "q": {q}, "epoch": {"ms"}}
	if p.Epoch != "" {
		v.Set("epoch", p.Epoch)
	}
	if p.RP != "" {
		v.Set("rp", p.RP)
	}
	return v
}

type document struct {
	Results []struct {
		Error  string           `json:"error"`
		Series []map[string]any `json:"series"`
	} `json:"results"`
	Error string `json:"error"`
}

func (p *panel) ask(t *testing.T, base string) (document, int) {
	t.Helper()
	var resp *http.Response
	var err error
	if v := p.params("dash"); p.Method == "POST" {
		q := url.Values{"q": {v.Get("q")}}
		v.Del("q")
		resp, err = http.PostForm(base+"/query?"+v.Encode(), q)
	} else {
		resp, err = http.Get(base + "/query?" + v.Encode())
	}
	if err != nil {
		t.Fatalf("%s: %v", p.ID, err)
	}
	defer resp.Body.Close()
	var doc document
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%s: %v", p.ID, err)
	}
	return doc, resp.StatusCode
}

// loadDashboard fills a server by its API.
func loadDashboard(t *testing.T, base string) {
	t.Helper()
	raw, rollup := load.DashboardLines()
	send := func(path string, params url.Values, body string) {
		resp, err := http.Post(base+path+"?"+params.Encode(), "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s: %s", path, resp.Status)
		}
	}
	send("/query", url.Values{"q": {"CREATE DATABASE dash"}}, "")
	send("/query", url.Values{"q": {"CREATE RETENTION POLICY rollup ON dash DURATION INF REPLICATION 1"}}, "")
	for len(raw) > 0 {
		n := min(5000, len(raw))
		send("/write", url.Values{"db": {"dash"}}, strings.Join(raw[:n], "\n"))
		raw = raw[n:]
	}
	send("/write", url.Values{"db": {"dash"}, "rp": {"rollup"}}, strings.Join(rollup, "\n"))
}

// check reports what is wrong with an answer for itself.
func (p *panel) check(doc document, status int) error {
	failed := doc.Error != "" || status != http.StatusOK
	text := doc.Error
	for _, r := range doc.Results {
		if r.Error != "" {
			failed, text = true, r.Error
		}
	}
	wanted := p.Kind == "error" || p.ID == "er9" // no such policy
	switch {
	case wanted && !failed:
		return fmt.Errorf("no error: %+v", doc)
	case !wanted && failed:
		return fmt.Errorf("status %d, error %q", status, text)
	case status == http.StatusOK && len(doc.Results) == 0:
		return fmt.Errorf("no results")
	}
	return nil
}

// TestDashboards asks every dashboard query, before and after a restart that
// moves the data from memory to files, and wants no unexpected error and the
// same answers.
func TestDashboards(t *testing.T) {
	t.Parallel()
	s := Start(t)
	loadDashboard(t, s.URL)
	list := panels(t)
	first := make([]document, len(list))
	passed, failed := 0, 0
	for round := range 2 {
		for i := range list {
			p := &list[i]
			doc, status := p.ask(t, s.URL)
			err := p.check(doc, status)
			if err == nil && round == 1 && p.Kind != "shape" && !same(first[i], doc, p.AnyOrder) {
				err = fmt.Errorf("answer changed by the restart:\n%v\nwas\n%v", doc, first[i])
			}
			if first[i] = doc; err != nil {
				failed++
				t.Errorf("%s: %s: %v", p.ID, p.params("dash").Get("q"), err)
				continue
			}
			passed++
		}
		s.Stop()
		s.Restart()
	}
	t.Logf("%d passed, %d failed", passed, failed)
}

// same compares answers: numbers within a relative 1e-12, the rest exactly.
func same(a, b document, anyOrder bool) bool {
	if len(a.Results) != len(b.Results) {
		return false
	}
	for i := range a.Results {
		x, y := a.Results[i].Series, b.Results[i].Series
		if (a.Results[i].Error == "") != (b.Results[i].Error == "") || len(x) != len(y) {
			return false
		}
		if anyOrder {
			for _, s := range [][]map[string]any{x, y} {
				sort.Slice(s, func(i, j int) bool { return fmt.Sprint(s[i]["tags"]) < fmt.Sprint(s[j]["tags"]) })
			}
		}
		for k := range x {
			if !sameValue(x[k], y[k]) {
				return false
			}
		}
	}
	return true
}

func sameValue(a, b any) bool {
	switch x := a.(type) {
	case json.Number:
		y, ok := b.(json.Number)
		if !ok {
			return false
		}
		if x == y {
			return true
		}
		f, err := x.Float64()
		g, err2 := y.Float64()
		return err == nil && err2 == nil && math.Abs(f-g) <= 1e-12*max(math.Abs(f), math.Abs(g))
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !sameValue(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k := range x {
			if !sameValue(x[k], y[k]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// intended are the queries whose answers may differ from influxd 1.6.7's, and
// why.
var intended = map[string]string{
	"v11":   "1.6 shows the tag values of all retention policies, later releases those of the one asked",
	"cpu21": "mode between equally frequent values",
	"cpu24": "rows of equal time: ours come in order of tag set",
	"web8":  "rows of equal time: ours come in order of tag set",
}

// TestPeerDashboards asks a real InfluxDB the same queries and compares the
// answers. It runs where TSDBD_PEERS is set and influxd is installed.
func TestPeerDashboards(t *testing.T) {
	if os.Getenv("TSDBD_PEERS") == "" {
		t.Skip("TSDBD_PEERS is not set")
	}
	base := startInfluxd(t)
	s := Start(t)
	loadDashboard(t, base)
	loadDashboard(t, s.URL)
	passed, failed, skipped := 0, 0, 0
	list := panels(t)
	for i := range list {
		p := &list[i]
		if p.Kind == "shape" {
			skipped++
			continue
		}
		want, _ := p.ask(t, base)
		got, _ := p.ask(t, s.URL)
		if intended[p.ID] != "" {
			skipped++
			continue
		}
		if !same(want, got, p.AnyOrder) {
			failed++
			t.Errorf("%s: %s:\ngot  %.600s\nwant %.600s", p.ID, p.params("dash").Get("q"), fmt.Sprint(got), fmt.Sprint(want))
			continue
		}
		passed++
	}
	t.Logf("%d passed, %d failed, %d skipped", passed, failed, skipped)
}

// startInfluxd starts the installed influxd on a free port of 127.0.0.1.
func startInfluxd(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("influxd")
	if err != nil {
		t.Skip("influxd is not installed")
	}
	dir := t.TempDir()
	conf := fmt.Sprintf("reporting-disabled = true\nbind-address = \"%s\"\n[meta]\ndir = %q\n[data]\ndir = %q\nwal-dir = %q\nindex-version = \"tsi1\"\n[monitor]\nstore-enabled = false\n[http]\nbind-address = \"%s\"\nlog-enabled = false\n",
		FreeAddress(t), dir+"/meta", dir+"/data", dir+"/wal", FreeAddress(t))
	file := filepath.Join(dir, "influxd.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-config", file)
	proc.Prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_, after, _ := strings.Cut(conf, "[http]\nbind-address = \"")
	addr, _, _ := strings.Cut(after, "\"")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if resp, err := http.Get("http://" + addr + "/ping"); err == nil {
			_ = resp.Body.Close()
			return "http://" + addr
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("influxd does not answer")
	return ""
}
