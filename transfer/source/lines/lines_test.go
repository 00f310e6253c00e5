package lines

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"tsdbd/exchange"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/lineproto"
	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/server"
)

// recorder is a mover.Lines that keeps what it gets.
type recorder struct {
	lines            []string
	refused          int
	database, policy string // of the latest line
}

// Put implements mover.Lines.
func (r *recorder) Put(l *mover.Line) error {
	r.lines = append(r.lines, string(l.Text)+"\n")
	r.database, r.policy = l.Database, l.Policy
	return nil
}

// Refuse implements mover.Lines.
func (r *recorder) Refuse(string, *mover.Line) error {
	r.refused++
	return nil
}

// Query implements mover.Lines.
func (*recorder) Query(string) error { return nil }

func protocolTo(database, policy string) func(r *bufio.Reader, to mover.Lines) error {
	return func(r *bufio.Reader, to mover.Lines) error { return Protocol(r, database, policy, to) }
}

// moved moves a part to a server. It returns what was kept of the refused rows.
func moved(t *testing.T, c *exchange.Client, p *mover.Part, opt server.Options) (*mover.Stats, string, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "refused")
	refused, err := mover.OpenRefused(name, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mover.Run(t.Context(), &mover.List{Items: []*mover.Part{p}}, server.New(c, opt), mover.Options{Failed: refused})
	if cerr := refused.Close(); cerr != nil {
		t.Error(cerr)
	}
	kept, kerr := os.ReadFile(name)
	if kerr != nil {
		t.Fatal(kerr)
	}
	return s, string(kept), err
}

// FuzzLines writes a string value as Export does, between other lines: it
// must come back as one line, whatever it holds, and parse to the same value.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "plain", "two\nlines", `back\slash`, `quote"`, "end\\", "\n\n", "# CONTEXT-DATABASE:x\n", "a=\"b", "\r\n", "\x00\xff"} {
		f.Add(s, "key")
		f.Add("x", s)
	}
	f.Fuzz(func(t *testing.T, value, tag string) {
		if len(value) > column.MaxStringLength || strings.ContainsAny(tag, "\n\r\\\x00") || tag == "" || len(tag) > 1000 {
			return
		}
		key := string(model.AppendSeriesKey(nil, "m", model.Tags{{Key: "t", Value: tag}}))
		v := column.Vector{Type: model.String, Strings: []string{value}}
		line := string(wire.AppendValue([]byte(key+" a=1,text="), &v, 0)) + ",z=2 5\n"
		var p lineproto.Parser
		var b point.Batch
		table := point.NewTable(1)
		if _, err := p.Parse(&b, table, []byte(line), lineproto.Options{}); err != nil {
			return // line protocol cannot say it
		}
		var to recorder
		if err := Protocol(bufio.NewReader(strings.NewReader("before v=1 1\n"+line+"after v=1 1\n")), "d", "", &to); err != nil {
			t.Fatal(err)
		}
		if got := to.lines; len(got) != 3 || got[1] != line {
			t.Fatalf("lines %q, want %q in the middle", to.lines, line)
		}
		if s := column.StringAt(b.Values[1], b.Strings); string(s) != value {
			t.Fatalf("value %q came back as %q", value, s)
		}
	})
}

// parsingServer stores points as a server does, and answers as one, with the number of the
// dropped lines or without it.
type parsingServer struct {
	table  *point.Table
	tells  bool
	stored map[string]bool
}

// store stores the points of a body, and returns how many lines were bad.
func (s *parsingServer) store(body []byte) int {
	var p lineproto.Parser
	var b point.Batch
	_, err := p.Parse(&b, s.table, body, lineproto.Options{})
	var e wire.Encoder
	for i := range b.Rows {
		s.stored[string(e.AppendRow(nil, &b, &b.Rows[i]))] = true
	}
	var bad *lineproto.Errors
	if errors.As(err, &bad) {
		return bad.BadLines + bad.Refused
	}
	return 0
}

// RoundTrip implements http.RoundTripper.
func (s *parsingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	if bad := s.store(body); bad == 0 {
		w.WriteHeader(http.StatusNoContent)
	} else {
		if s.tells {
			w.Header().Set("X-Tsdbd-Dropped", strconv.Itoa(bad))
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"partial write: some are bad"}`) // never fails
	}
	return w.Result(), nil
}

// FuzzStores: of any text, in requests of any size, the points are stored that a
// server stores of the whole text, and no others: what is in a string never becomes a
// point. The file of refused lines, imported again, stores nothing.
func FuzzStores(f *testing.F) {
	for _, text := range []string{
		"m s=\"a\nevil v=1 1\n", "m s=\"a\nevil v=1 1\nb\" x\nn v=1 2\n", "m s=\"a\" b\" 1\nm s=\"\nevil v=1 1\nx\" 2\nn v=1 2\n",
		"m s=\"a\\\nevil v=1 1\n", "m v=1\\\nn v=1 1\nbad\n", "bad\\\n\nn v=1 1\n", "# \"\nm v=1 1\nbad", "a,b=\" v=1 1\nc\nm v=\"\n\n\" 1\n",
	} {
		f.Add(text, uint16(1), true)
		f.Add(text, uint16(20), false)
	}
	random := rand.New(rand.NewPCG(testseed.Of(f), 0))
	pieces := []string{"m", " ", "v=1", " 1", "\n", "\n", "\"", "=", ",", "\\", "s=\"a", "\" 2\n", "#", "evil v=2 3\n", "m v=3 4\n"}
	for range 200 {
		var text strings.Builder
		for range random.IntN(30) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		f.Add(text.String(), uint16(random.IntN(60)), random.IntN(2) == 0)
	}
	f.Fuzz(checkStores)
}

// TestStoresLong: neither does what is in a string of a row that is too long.
func TestStoresLong(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	checkStores(t, "m s=\"a\nevil v=1 1\n"+long+"\nevil v=1 2\nb\",w=1 1\nn v=1 2\n", 20, true)
	checkStores(t, "m s=\"a\nevil v=1 1\n"+long+"\nevil v=1 2\n", 20, false)
}

func checkStores(t *testing.T, text string, batch uint16, tells bool) {
	t.Helper()
	if strings.HasSuffix(text, `\`) {
		return // the last line is refused: what comes behind it in a request would go on with it
	}
	if strings.Contains(text, "\r") || strings.Contains(text, "CONTEXT") || strings.Contains(text, "DDL") {
		return // these mean more in a file
	}
	want := &parsingServer{table: point.NewTable(1), stored: map[string]bool{}}
	for line := range lineproto.Lines([]byte(text)) {
		var end lineproto.Line
		if end.End(line); len(line) <= maxLine && !end.Quoted() {
			want.store(line)
		}
	}
	if whole := (&parsingServer{table: point.NewTable(1), stored: map[string]bool{}}); len(text) <= maxLine {
		// A server may take an open quote for a part of a name, behind a space at the start.
		if whole.store([]byte(text)); !strings.HasPrefix(text, " ") && !strings.Contains(text, "\n ") && !maps.Equal(whole.stored, want.stored) {
			t.Fatalf("%q: line by line %v, as a whole %v", text, want.stored, whole.stored)
		}
	}
	got := &parsingServer{table: point.NewTable(1), tells: tells, stored: map[string]bool{}}
	c := &exchange.Client{URL: "http://s", HTTP: &http.Client{Transport: got}}
	opt := server.Options{BatchBytes: int(batch), Workers: 1}
	stats, kept, err := moved(t, c, Part("f", strings.NewReader(text), protocolTo("d", "")), opt)
	if err != nil || !maps.Equal(got.stored, want.stored) {
		t.Fatalf("%.300q in requests of %d bytes: %v, stored %v, want %v", text, batch, err, got.stored, want.stored)
	}
	if (stats.Refused > 0) != (kept != "") {
		t.Errorf("%.300q: %d lines refused, kept %.300q", text, stats.Refused, kept)
	}
	clear(got.stored)
	if _, _, err := moved(t, c, Part("f", strings.NewReader(kept), protocolTo("d", "")), opt); err != nil || len(got.stored) > 0 {
		t.Errorf("%.300q: of the refused lines %v was stored, %v", text, got.stored, err)
	}
}

// TestReadLines cuts files that are not all lines.
func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", maxLine+5)
	for name, c := range map[string]struct {
		in     string
		want   []string
		failed int
	}{
		"no end of line":     {"a v=1", []string{"a v=1\n"}, 0},
		"blank lines":        {"\n  \na v=1\r\n\n", []string{"a v=1\n"}, 0},
		"comments":           {"# x\n #y\n\t# a=\"b\n\x00 \t#\na v=1\n", []string{"a v=1\n"}, 0},
		"no comments":        {"\v# a=1\n\u00a0#b c=1\n\ta v=1\n", []string{"\v# a=1\n", "\u00a0#b c=1\n", "\ta v=1\n"}, 0},
		"line break":         {"a v=\"1\n2\" 3\nb v=1\n", []string{"a v=\"1\n2\" 3\n", "b v=1\n"}, 0},
		"open quote at end":  {"z v=1\na v=\"1\nb v=1\nc v=2", []string{"z v=1\n"}, 1},
		"open quote, far on": {"a v=\"1\nb v=1\n" + strings.Repeat("c v=1\n", maxLine/6), nil, 1},
		"backslash":          {"a v=1\\\nb v=1\nc v=1\\\r\nd v=1\ne v=1\\\n\nf v=1\r\n", []string{"a v=1\\\nb v=1\n", "c v=1\\\r\n", "d v=1\n", "e v=1\\\n\n", "f v=1\n"}, 0},
		"backslash at end":   {"a v=1\nb v=1\\", []string{"a v=1\n"}, 1},
		"long string":        {"a v=\"\nb v=1 1\n" + long + "\nb v=1 2\n\",w=\"\nb v=1 3\n\" 5\nc v=1\n", []string{"c v=1\n"}, 1},
		"long comment":       {"# \"" + long + "\na v=1\n", []string{"a v=1\n"}, 0},
		"quote in a tag":     {"a,t=\" v=1\nb v=1\n", []string{"a,t=\" v=1\n", "b v=1\n"}, 0},
		"long line":          {"a v=1\n" + long + "\nb v=1\n", []string{"a v=1\n", "b v=1\n"}, 1},
		"long last line":     {"a v=1\n" + long, []string{"a v=1\n"}, 1},
		"nothing":            {"", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var to recorder
			if err := Protocol(bufio.NewReaderSize(strings.NewReader(c.in), 4096), "d", "", &to); err != nil {
				t.Fatal(err)
			}
			if to.refused != c.failed {
				t.Errorf("%d refused, want %d", to.refused, c.failed)
			}
			if !reflect.DeepEqual(to.lines, c.want) {
				t.Errorf("%.200q, want %q", to.lines, c.want)
			}
		})
	}
}

// TestHeaders: names in headers end where those who write them let them end. Export writes
// them as they are.
func TestHeaders(t *testing.T) {
	const headers = "# CONTEXT-DATABASE: a b \n# CONTEXT-RETENTION-POLICY: p \r\n"
	for in, want := range map[string][2]string{headers: {"a b", "p"}, "# TSDBD EXPORT: x - y\n# DML\n" + headers: {" a b ", " p "}, "\t" + headers: {"a b", "p"}} {
		var to recorder
		if err := Protocol(bufio.NewReader(strings.NewReader(in+"m v=1\n")), "", "", &to); err != nil || to.database != want[0] || to.policy != want[1] {
			t.Errorf("%q: %q.%q, %v", in, to.database, to.policy, err)
		}
	}
}

// TestRefusedLines: lines that are refused before they are sent are kept as comments.
func TestRefusedLines(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer web.Close()
	const lines = "m v=1 1\nm v=\"open\nm v=1 1\n"
	stats, kept, err := moved(t, &exchange.Client{URL: web.URL}, Part("f", strings.NewReader(lines), protocolTo("d", "r")), server.Options{})
	const want = "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:r\n# the line has a string without its end, and 2 line breaks: \"m v=\\\"open\\nm v=1 1\"\n"
	if err != nil || stats.Refused != 1 || stats.Written != 1 || kept != want {
		t.Errorf("%+v %v, kept %q", stats, err, kept)
	}
}

// TestRefusedTooLong: lines that are too long, with a quote that is open where they are
// cut, are told apart, and do not hide the lines behind them from an import that goes on.
func TestRefusedTooLong(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer web.Close()
	name := filepath.Join(t.TempDir(), "refused")
	long := `m s="` + strings.Repeat("x", maxLine)
	for _, has := range []int64{0, 4} {
		r, err := mover.OpenRefused(name, true)
		if err != nil {
			t.Fatal(err)
		}
		if r.Lines(0) != has {
			t.Errorf("%d lines are there, want %d", r.Lines(0), has)
		}
		part := Part("f", strings.NewReader(long+"\" 1\n"+long+"\" 2\nm s=\"open"), protocolTo("d", "p"))
		s, err := mover.Run(t.Context(), &mover.List{Items: []*mover.Part{part}}, server.New(&exchange.Client{URL: web.URL}, server.Options{}), mover.Options{Failed: r})
		if err := errors.Join(err, r.Keep([]byte("# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:p\n"), []byte("# a reason: \""+long+long+"\""))); err != nil {
			t.Error(err)
		}
		if s.Refused != 3 || r.Lines(0) != 4 {
			t.Errorf("%d lines were refused, want 3, and %d are there, want 4", s.Refused, r.Lines(0))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
