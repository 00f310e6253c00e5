package influxhttp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"tsdbd/exchange"
)

// fakeRow is a row of a fake server.
type fakeRow struct {
	measurement, host string
	at, value         int64
}

func (r fakeRow) line() string {
	tag := ""
	if r.host != "" {
		tag = ",host=" + r.host
	}
	return fmt.Sprintf("%s%s v=%di %d", r.measurement, tag, r.value, r.at)
}

// fake is a server with rows of one field, v, in the policy p of the database d. It
// answers as a version of InfluxDB does.
type fake struct {
	t       testing.TB
	version string
	web     *httptest.Server

	mu     sync.Mutex
	rows   []fakeRow
	groups [][2]string                                        // shard groups; nil: SHOW SHARDS is refused
	hook   func(q string, w http.ResponseWriter) (taken bool) // before each query
	extra  map[string]string                                  // answers by statement
	asked  []string
	method string        // of the latest query
	packed bool          // rows were given as MessagePack
	ahead  time.Duration // of its clock
}

func newFake(t testing.TB, version string, rows ...fakeRow) *fake {
	f := &fake{t: t, version: version, rows: rows, extra: map[string]string{}}
	f.web = httptest.NewServer(f)
	t.Cleanup(f.web.Close)
	return f
}

func (f *fake) three() bool { return strings.HasPrefix(f.version, "3") }

// token is the login of a fake of 2.x and 3.x.
const token = "my token"

func (f *fake) client() *exchange.Client {
	c := &exchange.Client{URL: f.web.URL}
	if f.two() || f.three() {
		c.Token = token
	}
	return c
}

func (f *fake) two() bool { return strings.HasPrefix(f.version, "v2") }

func (f *fake) connect() *Server {
	f.t.Helper()
	s, err := Connect(f.t.Context(), f.client())
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fake) add(rows ...fakeRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows = append(f.rows, rows...)
}

// selects returns how many queries for rows there were.
func (f *fake) selects() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.asked {
		if strings.Contains(q, "GROUP BY *") {
			n++
		}
	}
	return n
}

var fakeSelect = regexp.MustCompile(`^SELECT (.*) FROM (?:"(?:p|autogen)"\.)?"?([^" ]*)"?(?: WHERE)?(?: time >= (-?\d+))?(?: AND)?(?: time <= (-?\d+))?( (?:GROUP|ORDER) .*)?$`)

// times returns the times of a SELECT.
func times(selection []string) (from, to int64) {
	from, to = math.MinInt64+2, math.MaxInt64-1
	if n, err := strconv.ParseInt(selection[3], 10, 64); err == nil {
		from = n
	}
	if n, err := strconv.ParseInt(selection[4], 10, 64); err == nil {
		to = n
	}
	return from, to
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Influxdb-Version", f.version)
	w.Header().Set("Date", time.Now().Add(f.ahead).UTC().Format(http.TimeFormat))
	if r.URL.Path == "/ping" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	q := r.FormValue("q")
	f.mu.Lock()
	f.asked, f.method = append(f.asked, q), r.Method
	hook := f.hook
	f.mu.Unlock()
	if hook != nil && hook(q, w) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	three := f.three()
	switch db := r.FormValue("db"); {
	case (three || f.two()) && r.Header.Get("Authorization") != "Token "+token:
		http.Error(w, `{"code":"unauthorized","message":"unauthorized access"}`, http.StatusUnauthorized)
		return
	case three && r.Header.Get("Accept") != "application/json":
		http.Error(w, "invalid mime type", http.StatusBadRequest)
		return
	case three && r.Method != http.MethodGet:
		http.Error(w, "missing query parameters 'db' and 'q'", http.StatusBadRequest)
		return
	case three && db == "" && q != "SHOW DATABASES":
		http.Error(w, "must specify a 'db' parameter, or provide the database in the InfluxQL query", http.StatusBadRequest)
		return
	case three && db != "" && db != "d" && db != "d/long":
		http.Error(w, "query error: database not found: "+db, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	text, known := f.extra[q]
	selection := fakeSelect.FindStringSubmatch(q)
	switch {
	case known:
	case selection != nil:
		f.selection(w, r, selection)
		return
	case q == "SHOW DATABASES":
		text = table1("databases", "name", `["_internal"],["d"]`)
	case strings.HasPrefix(q, "SHOW RETENTION POLICIES"):
		text = table1("", `name","duration","shardGroupDuration","replicaN","default`, `["p","0s","1h0m0s",1,true]`)
		if three {
			text = table1("", `iox::database","name","duration`, `["d","autogen",null]`)
		}
	case strings.HasPrefix(q, "SHOW FIELD KEYS"):
		if counts := strings.Contains(q, " ON "); !counts && (!f.two() && !three && q != `SHOW FIELD KEYS FROM "p"./.*/` || f.two() && r.FormValue("rp") != "p") {
			f.t.Errorf("unexpected %s", q)
		}
		var series []string
		for _, r := range f.rows {
			if one := fmt.Sprintf(`{"name":%q,"columns":["fieldKey","fieldType"],"values":[["v","integer"]]}`, r.measurement); !slices.Contains(series, one) {
				series = append(series, one)
			}
		}
		text = fmt.Sprintf(`{"results":[{"statement_id":0,"series":[%s]}]}`, strings.Join(series, ","))
	case q == "SHOW SHARDS" && f.groups != nil:
		var rows []string
		for _, g := range f.groups {
			rows = append(rows, fmt.Sprintf(`["d","p",%q,%q]`, g[0], g[1]))
		}
		text = table1("d", `database","retention_policy","start_time","end_time`, strings.Join(rows, ","))
	case strings.HasPrefix(q, "SHOW"):
		text = fmt.Sprintf(`{"results":[{"statement_id":0,"error":"not implemented: %s"}]}`, q)
	default:
		http.Error(w, `{"error":"error parsing query: `+strings.ReplaceAll(q, `"`, `'`)+`"}`, http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, text)
}

func table1(name, columns, rows string) string {
	return fmt.Sprintf(`{"results":[{"statement_id":0,"series":[{"name":%q,"columns":["%s"],"values":[%s]}]}]}`, name, columns, rows)
}

// selection answers a SELECT.
func (f *fake) selection(w http.ResponseWriter, r *http.Request, q []string) {
	from, to := times(q)
	bySeries := map[string][]fakeRow{}
	var all []fakeRow
	for _, row := range f.rows {
		if row.measurement == q[2] && row.at >= from && row.at <= to && !f.hides(row.at, to) {
			bySeries[row.host] = append(bySeries[row.host], row)
			all = append(all, row)
		}
	}
	slices.SortFunc(all, func(a, b fakeRow) int { return cmp.Compare(a.at/1e6, b.at/1e6) })
	if strings.Contains(q[5], "DESC") {
		slices.Reverse(all)
	}
	switch {
	case len(all) == 0 && f.three():
	case len(all) == 0:
		fmt.Fprintln(w, `{"results":[{"statement_id":0}]}`)
	case strings.Contains(q[5], "LIMIT 1"):
		fmt.Fprintln(w, table1("m", `time","host","v`, fmt.Sprintf(`[%d,"x",1]`, all[0].at)))
	case strings.HasPrefix(q[1], "count(*)"):
		fmt.Fprintln(w, countTable(all, q[5], from))
	case strings.HasPrefix(q[1], "count("):
		fmt.Fprintln(w, sumTable(all))
	default:
		f.chunks(w, r, q[2], bySeries)
	}
}

// sumTable answers what compare.Ask asks for.
func sumTable(rows []fakeRow) string {
	sum := int64(0)
	for _, r := range rows {
		sum += r.value
	}
	return table1("m", `time","c0","s0`, fmt.Sprintf("[0,%d,%d]", len(rows), sum))
}

// hides reports that a row is in a group whose start has wrapped around, and that a query
// up to a time does not look there.
func (f *fake) hides(at, to int64) bool {
	for _, g := range f.groups {
		start, _ := time.Parse(time.RFC3339Nano, g[0])
		end, _ := time.Parse(time.RFC3339Nano, g[1])
		if start.After(end) && at < end.UnixNano() && to < start.UnixNano() {
			return true
		}
	}
	return false
}

// countTable counts rows by windows.
func countTable(rows []fakeRow, clause string, from int64) string {
	counts := map[int64]int{}
	for _, r := range rows {
		start := from
		if _, window, ok := strings.Cut(clause, "time("); ok {
			ms, _ := strconv.ParseInt(strings.TrimSuffix(window, "ms)"), 10, 64)
			start = r.at - r.at%(ms*1e6)
		}
		counts[start]++
	}
	var out []string
	for _, at := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("[%d,%d]", at, counts[at]))
	}
	return table1("m", `time","count_v`, strings.Join(out, ","))
}

// chunks writes a document for each two rows of a series.
func (f *fake) chunks(w http.ResponseWriter, r *http.Request, measurement string, bySeries map[string][]fakeRow) {
	pack := strings.Contains(r.Header.Get("Accept"), "msgpack") && !f.three()
	if f.packed = pack; pack {
		w.Header().Set("Content-Type", "application/x-msgpack")
	}
	hosts := slices.Sorted(maps.Keys(bySeries))
	for n, host := range hosts {
		rows := bySeries[host]
		for len(rows) > 0 {
			part := rows[:min(2, len(rows))]
			rows = rows[len(part):]
			series := map[string]any{"name": measurement, "tags": map[string]any{"host": host}, "columns": []any{"time", "v"}}
			var values []any
			for _, row := range part {
				v := []any{row.at, row.value}
				if f.three() {
					v = []any{row.at, row.host, row.value}
				}
				values = append(values, v)
			}
			if f.three() {
				series["columns"] = []any{"time", "host", "v"}
				delete(series, "tags")
			}
			series["values"] = values
			result := map[string]any{"statement_id": 0, "series": []any{series}}
			if (len(rows) > 0 || n < len(hosts)-1) && !f.three() {
				result["partial"] = true
			}
			writeDocument(f.t, w, pack, result)
		}
	}
}

// writeDocument writes a document whose series have their members in InfluxDB's order.
func writeDocument(t testing.TB, w http.ResponseWriter, pack bool, result map[string]any) {
	series := result["series"].([]any)[0].(map[string]any)
	if !pack {
		b := []byte(`{"results":[{"statement_id":0,"series":[{`)
		for _, key := range []string{"name", "tags", "columns", "values"} {
			if v, ok := series[key]; ok {
				text, err := json.Marshal(v)
				if err != nil {
					t.Error(err)
				}
				b = fmt.Appendf(b, "%q:%s,", key, text)
			}
		}
		b = append(b[:len(b)-1], `}]`...)
		if result["partial"] != nil {
			b = append(b, `,"partial":true`...)
		}
		_, _ = w.Write(append(b, "}]}\n"...)) // the client may be gone
		return
	}
	b := msgp.AppendArrayHeader(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "results"), 1)
	b = msgp.AppendMapHeader(b, uint32(len(result)-1))
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "series"), 1)
	b = msgp.AppendMapHeader(b, uint32(len(series)))
	for _, key := range []string{"name", "tags", "columns", "values"} {
		if v, ok := series[key]; ok {
			b = msgp.AppendString(b, key)
			var err error
			if b, err = msgp.AppendIntf(b, v); err != nil {
				t.Error(err)
			}
		}
	}
	if result["partial"] != nil {
		b = msgp.AppendBool(msgp.AppendString(b, "partial"), true)
	}
	_, _ = w.Write(append(b, '\n')) // the client may be gone
}

// target is a server that keeps lines.
type target struct {
	web *httptest.Server

	mu      sync.Mutex
	lines   map[string]int // how often each was written
	made    []string       // statements
	expires string         // duration of the policy
	refuse  string         // part of the lines that are refused
	discard bool           // lines are not kept
	down    int            // how many requests are answered 503
	counted func()         // before counts are answered
}

func newTarget(t testing.TB) *target {
	s := &target{lines: map[string]int{}, expires: "0s"}
	s.web = httptest.NewServer(s)
	t.Cleanup(s.web.Close)
	return s
}

func (s *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down > 0 {
		s.down--
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path == "/write" {
		var b strings.Builder
		buf := make([]byte, 4096)
		for n, err := r.Body.Read(buf); n > 0 || err == nil; n, err = r.Body.Read(buf) {
			b.Write(buf[:n])
		}
		bad := 0
		for line := range strings.Lines(b.String()) {
			if s.refuse != "" && strings.Contains(line, s.refuse) {
				bad++
				continue
			}
			if !s.discard {
				s.lines[strings.TrimSpace(line)]++
			}
		}
		if bad > 0 {
			w.Header().Set("X-Tsdbd-Dropped", strconv.Itoa(bad))
			http.Error(w, `{"error":"partial write: it is refused dropped=1"}`, http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	q := r.FormValue("q")
	switch selection := fakeSelect.FindStringSubmatch(q); {
	case q == "SHOW DATABASES":
		names := `["other"]`
		if slices.ContainsFunc(s.made, func(q string) bool { return strings.HasPrefix(q, `CREATE DATABASE "d"`) }) {
			names += `,["d"]`
		}
		fmt.Fprintln(w, table1("databases", "name", names))
	case strings.HasPrefix(q, "SHOW RETENTION POLICIES"):
		fmt.Fprintln(w, table1("", `name","duration`, fmt.Sprintf(`["p",%q],["autogen",%q]`, s.expires, s.expires)))
	case selection != nil:
		if s.counted != nil {
			s.counted()
		}
		from, to := times(selection)
		var rows []fakeRow
		for line := range s.lines {
			at, _ := strconv.ParseInt(line[strings.LastIndex(line, " ")+1:], 10, 64)
			_, after, _ := strings.Cut(line, " v=")
			value, _, _ := strings.Cut(after, "i ")
			v, _ := strconv.ParseInt(value, 10, 64)
			if at >= from && at <= to && strings.HasPrefix(line, selection[2]+",") {
				rows = append(rows, fakeRow{at: at, value: v})
			}
		}
		if strings.HasPrefix(selection[1], "count(v)") {
			fmt.Fprintln(w, sumTable(rows))
			return
		}
		fmt.Fprintln(w, countTable(rows, selection[5], from))
	case strings.HasPrefix(q, "SHOW FIELD KEYS"):
		fmt.Fprintln(w, table1("m", `fieldKey","fieldType`, `["v","integer"]`))
	default:
		s.made = append(s.made, q)
		fmt.Fprintln(w, `{"results":[{}]}`)
	}
}

// has checks that the target has the rows, and nothing else.
func (s *target) has(t testing.TB, rows []fakeRow) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	want := map[string]bool{}
	for _, r := range rows {
		want[r.line()] = true
		if s.lines[r.line()] == 0 {
			t.Errorf("%s is lost", r.line())
		}
	}
	for l := range s.lines {
		if !want[l] {
			t.Errorf("%s was not there", l)
		}
	}
}

func (s *target) client() *exchange.Client { return &exchange.Client{URL: s.web.URL} }
