package shell

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/exchange"
)

// answers is a server with an answer for each statement. It remembers what was asked.
type answers struct {
	byText map[string]string
	asked  []*http.Request
	media  string // of answers; "" is what the client accepts
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	a.asked = append(a.asked, r)
	text, ok := a.byText[r.Form.Get("q")]
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		text = `{"error":"error parsing query: found X at line 1, char 1"}`
	}
	w.Header().Set("Content-Type", cmp.Or(a.media, r.Header.Get("Accept")))
	_, _ = w.Write([]byte(text))
}

func start(t *testing.T, byText map[string]string) (*Session, *answers, *bytes.Buffer) {
	t.Helper()
	a := &answers{byText: byText}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	out := new(bytes.Buffer)
	return &Session{
		Client: &exchange.Client{URL: server.URL}, Out: out,
		Settings: Settings{Database: "demo", Language: "influxql", Precision: "rfc3339", Format: "table", ChunkSize: 2},
	}, a, out
}

const twoParts = `{"results":[{"statement_id":0,"series":[{"name":"cpu","tags":{"host":"a","dc":""},"columns":["time","v","s"],"values":[["2026-01-05T00:00:00Z",1.50,"x"],["2026-01-05T00:01:00Z",null,"a\tb\u001b[31m"]],"partial":true}],"partial":true}]}
{"results":[{"statement_id":0,"series":[{"name":"cpu","tags":{"host":"a","dc":""},"columns":["time","v","s"],"values":[["2026-01-05T00:02:00Z",9223372036854775807,true]]}],"messages":[{"level":"info","text":"well"}]}]}
{"results":[{"statement_id":1,"error":"database not found: x"}]}
`

// TestFormats writes one answer in each format.
func TestFormats(t *testing.T) {
	f := func(format, answer, want string, failed error) {
		t.Helper()
		want = strings.ReplaceAll(want, `\ufffd`, "\ufffd")
		s, _, out := start(t, map[string]string{"q": answer})
		s.Format = format
		if err := s.Line(context.Background(), "q"); !errors.Is(err, failed) || failed == nil && err != nil {
			t.Errorf("%s: %v, want %v", format, err, failed)
		}
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant:\n%s", format, out, want)
		}
	}
	f("table", twoParts, `name: cpu
tags: dc=, host=a
time                 | v    | s
---------------------+------+----------
2026-01-05T00:00:00Z | 1.50 | x
2026-01-05T00:01:00Z |      | a\tb\ufffd[31m
2026-01-05T00:02:00Z | 9223372036854775807 | true
(3 rows)
info: well
ERR: database not found: x
`, ErrStatement)
	f("column", twoParts, `name: cpu
tags: dc=, host=a
time                 v    s
----                 -    -
2026-01-05T00:00:00Z 1.50 x
2026-01-05T00:01:00Z      a\tb\ufffd[31m
2026-01-05T00:02:00Z 9223372036854775807 true
info: well
ERR: database not found: x
`, ErrStatement)
	f("line", "m v=1 1\n", "m v=1 1\n", nil)
	f("json", `{"results":[{"statement_id":0,"error":"no"}]}`, `{"results":[{"statement_id":0,"error":"no"}]}`, ErrStatement)
	f("json", `{"results":[{"series":[{"values":[["\"error\":"]]}]}]}`, `{"results":[{"series":[{"values":[["\"error\":"]]}]}]}`, nil)
	f("csv", "error\nno such thing\n", "error\nno such thing\n", ErrStatement)
	f("csv", "name,tags\n", "name,tags\n", nil)
}

// TestErrorBesideCSV: the error of a statement that CSV has no place for, in the header or
// behind the rows, is that of the line.
func TestErrorBesideCSV(t *testing.T) {
	for _, late := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			name := errorHeader
			if late {
				_, _ = io.WriteString(w, "name,tags,time,v\n")
				w.(http.Flusher).Flush()
				name = http.TrailerPrefix + errorHeader
			}
			w.Header().Add(name, "no room")
			w.Header().Add(name, "no time")
		}))
		defer server.Close()
		s := Session{Client: &exchange.Client{URL: server.URL}, Out: io.Discard, Settings: Settings{Precision: "ns", Format: "csv"}}
		if err := s.Line(t.Context(), "q"); err == nil || err.Error() != "no room; no time" || errors.Is(err, ErrStatement) {
			t.Errorf("late %v: %v", late, err)
		}
	}
}

// TestVertical: a table without times that is wider than the screen has a line for each
// value. So has each table in the format of that name.
func TestVertical(t *testing.T) {
	const names = `{"results":[{"series":[{"name":"d","columns":["from","interval"],"values":[["raw","1h"],["raw",""]]}]}]}`
	const times = `{"results":[{"series":[{"columns":["time","v"],"values":[["2026-01-05T00:00:00Z",1]]}]}]}`
	const upright = "-[ 1 ]-------\nfrom     | raw\ninterval | 1h\n-[ 2 ]-------\nfrom     | raw\ninterval |\n(2 rows)\n"
	f := func(format string, width int, answer, want string) {
		t.Helper()
		s, _, out := start(t, map[string]string{"q": answer})
		s.Format, s.Width = format, width
		if err := s.Line(context.Background(), "q"); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("%s of %d:\n%s\nwant:\n%s", format, width, out, want)
		}
	}
	f("vertical", 0, names, "name: d\n"+upright)
	f("table", 14, names, "name: d\n"+upright)
	f("table", 15, names, "name: d\nfrom | interval\n-----+---------\nraw  | 1h\nraw  | \n(2 rows)\n")
	f("table", 10, times, "time                 | v\n---------------------+--\n2026-01-05T00:00:00Z | 1\n(1 row)\n")
}

// TestCut: a terminal shows the first rows of each statement, and says so. Behind the last
// one the answer is not read further.
func TestCut(t *testing.T) {
	const text = "SELECT a FROM b; SHOW DATABASES; SELECT c FROM d"
	rows := strings.Repeat(`["x"],`, maxRows-1) + `["x"]`
	many := func(id string) string {
		return `{"results":[{"statement_id":` + id + `,"series":[{"columns":["v"],"values":[` + rows + `],"partial":true}],"partial":true}]}
			{"results":[{"statement_id":` + id + `,"series":[{"columns":["v"],"values":[["beyond"]]}]}]}`
	}
	s, a, out := start(t, map[string]string{text: many("0") + `{"results":[{"statement_id":1,"series":[{"columns":["name"],"values":[["demo"]]}]}]}` + many("2") + "no JSON"})
	s.Width = 80
	if err := s.Line(context.Background(), text); err != nil {
		t.Error(err)
	}
	if got := out.String(); strings.Count(got, "cut: a terminal shows the first 10000 rows") != 2 || strings.Contains(got, "beyond") || !strings.Contains(got, "demo\n(1 row)\n") || strings.Count(got, "x\n") != 2*maxRows {
		t.Errorf("%d rows, %.100s", strings.Count(got, "x\n"), got)
	}
	out.Reset()
	s.Width = 0 // a file
	a.byText[text] = many("0")
	if err := s.Line(context.Background(), text); err != nil || !strings.Contains(out.String(), "beyond\n(10001 rows)\n") {
		t.Errorf("a file is cut: %v", err)
	}
}

// TestPager shows by a program what is longer than the screen, and nothing else. An answer
// whose pager was left is no error, and a pager that is not there changes nothing.
func TestPager(t *testing.T) {
	f := func(program string, height int, want string) {
		t.Helper()
		s, _, out := start(t, map[string]string{"q": `{"results":[{"series":[{"columns":["v"],"values":[["x"],["y"]]}]}]}`})
		s.Pager, s.Height = program, height
		if err := s.Line(context.Background(), "q"); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("%s of %d: %q, want %q", program, height, out, want)
		}
	}
	const answer = "v\n-\nx\ny\n(2 rows)\n"
	f("sed s/^/:/", 5, ":v\n:-\n:x\n:y\n:(2 rows)\n")
	f("sed s/^/:/", 6, answer)
	f("nosuchprogram -x", 3, answer)
	f("", 3, answer)
	f("head -n 1", 2, "v\n")
}

// TestErrors holds that what is no answer is an error in the server's words.
func TestErrors(t *testing.T) {
	s, a, _ := start(t, map[string]string{"cut": `{"results":[{"series":[`, "shows": `{"results":[{"series":[{"columns":["name"],"values":[["x"]]}]}]}`})
	f := func(line, want string) {
		t.Helper()
		if err := s.Line(context.Background(), line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	f("unknown", "error parsing query: found X")
	f("cut", "read answer: unexpected EOF")
	f(`\nosuch`, `there is no command \nosuch`)
	f("format xml", `the format is one of table, column, vertical, json, csv, line, not "xml"`)
	f("precision days", "the precision is one of")
	f("chunk size 0", "the chunk size is a positive number")
	f("use a.b.c", "is not DATABASE or DATABASE.POLICY")
	f("insert", "usage: insert")
	s.Format, a.media = "line", "application/json" // as InfluxDB, which does not know the format
	f("shows", "the server answers with application/json: it does not have the format line")
	s.Format = "table"
	s.Plot = true
	f("shows", "a plot needs times")
	s.Database = ""
	f("insert cpu v=1", "no database")
	s.Database, s.ReadOnly = "demo", true
	f("insert cpu v=1", "-read-only: the shell writes nothing")
}

// TestDone says what a statement did that answers with nothing, without its passwords.
func TestDone(t *testing.T) {
	const text = "CREATE DATABASE a; SHOW DATABASES; CREATE USER b WITH PASSWORD 'secret'; DROP DATABASE c; SELECT d FROM e; DROP DATABASE f"
	s, _, out := start(t, map[string]string{text: `{"results":[{"statement_id":0},{"statement_id":1},{"statement_id":2},{"statement_id":3,"error":"no"},{"statement_id":4},
		{"statement_id":5,"messages":[{"level":"warning","text":"gone before"}]}]}`})
	if err := s.Line(context.Background(), text); !errors.Is(err, ErrStatement) {
		t.Error(err)
	}
	if want := "done: CREATE DATABASE a\ndone: CREATE USER b WITH PASSWORD [REDACTED]\nERR: no\nwarning: gone before\n"; out.String() != want {
		t.Errorf("%s, want %s", out, want)
	}
	out.Reset()
	s.Format = "column" // as the influx shell
	if err := s.Line(context.Background(), text); !errors.Is(err, ErrStatement) || strings.Contains(out.String(), "done") {
		t.Errorf("%v %s", err, out)
	}
}

// TestHint: the error of a request still has its status, and the prompt says what to do.
func TestHint(t *testing.T) {
	for want, err := range map[string]error{
		"auth USER":   &exchange.WriteError{Status: 401, Message: "authorization failed"},
		"https://":    &exchange.WriteError{Status: 400, Message: "Client sent an HTTP request to an HTTPS server."},
		"takes http:": http.ErrSchemeMismatch,
	} {
		if got := hint(plain(err)); !strings.Contains(got, want) {
			t.Errorf("%v: %q", err, got)
		}
	}
	if got := hint(plain(&exchange.WriteError{Status: 400, Message: "error parsing query"})); got != "" {
		t.Error(got)
	}
}

// TestCommands runs the commands of the shell.
func TestCommands(t *testing.T) {
	names := func(column string, names ...string) string {
		return `{"results":[{"series":[{"columns":["` + column + `"],"values":[["` + strings.Join(names, `"],["`) + `"]]}]}]}`
	}
	s, a, out := start(t, map[string]string{
		"SHOW DATABASES": names("name", "demo", "odd name"), "SHOW RETENTION POLICIES": names("name", "autogen"), "": "",
		`SHOW FIELD KEYS FROM "a b"; SHOW TAG KEYS FROM "a b"`: names("fieldKey", "v"),
	})
	line := func(text string) string {
		t.Helper()
		out.Reset()
		if err := s.Line(context.Background(), text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		return out.String()
	}
	if got := line(`USE "odd name".autogen;`); s.Database != "odd name" || s.RetentionPolicy != "autogen" || !strings.Contains(got, "using database odd name, retention policy autogen") {
		t.Errorf("use: %q.%q %s", s.Database, s.RetentionPolicy, got)
	}
	if err := s.Line(context.Background(), "use nosuch"); err == nil || s.Database != "odd name" {
		t.Errorf("use of what is not there: %v, now %q", err, s.Database)
	}
	line("clear rp")
	line("INSERT INTO two cpu,host=a v=1")
	if r := a.asked[len(a.asked)-1]; r.URL.Path != "/write" || r.Form.Get("rp") != "two" || r.Form.Get("db") != "odd name" {
		t.Errorf("insert asked %s", r.URL)
	}
	line(`\f csv`)
	line("precision ms")
	line("chunk size 7")
	if got := line("settings"); !strings.Contains(got, "format            csv\n") || !strings.Contains(got, "precision         ms\n") || s.ChunkSize != 7 {
		t.Errorf("settings:\n%s", got)
	}
	line(`\f table`)
	if got := line(`\d "a b"`); !strings.Contains(got, "fieldKey") {
		t.Errorf("describe: %s", got)
	}
	if got := line("help"); !strings.Contains(got, `use, \u DATABASE[.POLICY]`) {
		t.Errorf("help:\n%s", got)
	}
	if line("") != "" || line("-- a comment") != "" {
		t.Error("an empty line does something")
	}
	if err := s.Line(context.Background(), `\q`); !errors.Is(err, ErrExit) {
		t.Errorf("exit: %v", err)
	}
}

// TestPlot draws lines into a file: no colors, marks for each line.
func TestPlot(t *testing.T) {
	s, _, out := start(t, map[string]string{"q": `{"results":[{"series":[
		{"name":"m","columns":["time","a","b","s"],"values":[[0,1,5,"x"],[60000000000,2,4,"y"],[120000000000,null,3,"z"]]}]}]}`})
	s.Plot = true
	if err := s.Line(context.Background(), "q"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5.00 ┼", "1.00 ┼", "00:00:00", "00:02:00", "─ m.a\n", "* m.b\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("colors in a file:\n%q", out)
	}
	l := plotted{times: []int64{0, 100}, values: []float64{1, 3}}
	if got := l.means(0, 100, 5); !slices.Equal(got, []float64{1, 1.5, 2, 2.5, 3}) {
		t.Errorf("few values: %v", got)
	}
	l = plotted{times: []int64{0, 1, 2, 9}, values: []float64{1, 2, 6, 4}}
	if got := l.means(0, 10, 2); !slices.Equal(got, []float64{3, 4}) {
		t.Errorf("many values: %v", got)
	}
	l = plotted{times: []int64{0, 1, 1, 9}, values: []float64{1, 2, 4, 4}}
	if got := l.means(0, 9, 3); got[0] == 0 || !math.IsNaN(got[1]) {
		t.Errorf("a gap: %v", got)
	}
}

// TestComplete completes the last word of lines.
func TestComplete(t *testing.T) {
	column := func(name string, rows ...string) string {
		return `{"results":[{"series":[{"columns":["` + name + `"],"values":[` + strings.Join(rows, ",") + `]}]}]}`
	}
	s, a, _ := start(t, map[string]string{
		"SHOW DATABASES":                                     column("name", `["demo"]`),
		"SHOW MEASUREMENTS LIMIT 500":                        column("name", `["cpu"]`, `["c d"]`, `["disk"]`),
		"SHOW FIELD KEYS FROM cpu LIMIT 500":                 column("fieldKey", `["usage"]`),
		"SHOW TAG KEYS FROM cpu LIMIT 500":                   column("tagKey", `["host"]`),
		`SHOW TAG VALUES FROM cpu WITH KEY = host LIMIT 500`: column("value", `["it's"]`, `["b"]`),
	})
	c := &completer{session: s}
	f := func(line, word string, want ...string) {
		t.Helper()
		gotWord, got := c.complete(line)
		if gotWord != word || !slices.Equal(got, want) {
			t.Errorf("%s: %q %q, want %q %q", line, gotWord, got, word, want)
		}
	}
	f("SEL", "SEL", "SELECT")
	f(`\d`, `\d`, `\d`)
	f("use d", "d", "demo")
	f("SELECT * FROM c", "c", `"c d"`, "cpu")
	f(`SELECT * FROM "c`, `"c`, `"c d"`, `"cpu"`)
	f("SELECT usage FROM cpu WHERE h", "h", "host")
	f("SELECT usage FROM cpu WHERE host = ", "", "'b'", `'it\'s'`)
	f("SELECT usage FROM cpu WHERE host = 'i", "'i", `'it\'s'`)
	f("SELECT usage FROM cpu GROUP BY ho", "ho", "host")
	f("UPD", "UPD", "UPDATE")
	f("UPDATE c", "c", `"c d"`, "cpu")
	f("UPDATE cpu SET dc = 'oslo' WHERE h", "h", "host")
	f(`SELECT usage FROM cpu WHERE host = 'it\'s "it" \\' AND h`, "h", "host")
	for _, line := range []string{"'", `"`, `'\`, `"a' \`, `'it\'s`, `a'b"c'd`, "\n", `\`, "\xff"} {
		c.complete(line) // finds nothing, and ends
	}
	f("ALTER MEASUREMENT cpu REN", "REN", "RENAME")
	f("CREATE DOWNS", "DOWNS", "DOWNSAMPLE", "DOWNSAMPLES")
	f("SELECT usage FROM cpu GR", "GR", "GRANT", "GRANTS", "GROUP", "GROUPS")
	f("format j", "j", "json")
	asked := len(a.asked)
	f("use d", "d", "demo")
	if len(a.asked) != asked {
		t.Error("a look-up is not kept")
	}
}

// TestHistory keeps lines in a file, but no passwords.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h := openHistory(path)
	for _, line := range []string{"SHOW DATABASES", "SHOW DATABASES", "SELECT a,\nb", "CREATE USER a WITH PASSWORD 'x'", "auth a b", ""} {
		if _, err := h.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"SHOW DATABASES", "SELECT a,\nb"}
	if got := openHistory(path).list(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := h.GetLine(2); err == nil {
		t.Error("a line that is not there has no error")
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the history: %v %v", st.Mode(), err)
	}
}

// TestAuth: a login that the server refuses leaves the one before.
func TestAuth(t *testing.T) {
	s, a, _ := start(t, map[string]string{"SHOW DATABASES": `{"results":[{"statement_id":0}]}`})
	if err := s.Line(context.Background(), "auth ann secret"); err != nil || s.Client.Username != "ann" {
		t.Fatalf("user %q, %v", s.Client.Username, err)
	}
	s.secret = func(string) (string, error) { return "hidden", nil }
	if err := s.Line(context.Background(), "auth carl"); err != nil || s.Client.Username != "carl" || s.Client.Password != "hidden" {
		t.Fatalf("user %q, %v", s.Client.Username, err)
	}
	a.byText["SHOW DATABASES"] = `{"results":[{"statement_id":0,"error":"authorization failed"}]}`
	if err := s.Line(context.Background(), "auth bob guess"); err == nil || s.Client.Username != "carl" || s.Client.Password != "hidden" {
		t.Errorf("user %q, %v", s.Client.Username, err)
	}
}
