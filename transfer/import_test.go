package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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
	"tsdbd/transfer/source/csv"
)

// FuzzImportLines writes a string value as Export does, between other lines: it
// must come back as one line, whatever it holds, and parse to the same value.
func FuzzImportLines(f *testing.F) {
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
		var got []string
		im := &importer{ctx: context.Background(), db: "d", opt: ImportOptions{BatchBytes: 1 << 30}}
		if err := im.read(bufio.NewReader(strings.NewReader("before v=1 1\n" + line + "after v=1 1\n"))); err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, e := range im.batch.ends {
			got = append(got, string(im.batch.body[at:e]))
			at = e
		}
		if len(got) != 3 || got[1] != line {
			t.Fatalf("lines %q, want %q in the middle", got, line)
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

// FuzzImportStores: of any text, in requests of any size, the points are stored that a
// server stores of the whole text, and no others: what is in a string never becomes a
// point. The file of refused lines, imported again, stores nothing.
func FuzzImportStores(f *testing.F) {
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

// TestImportStoresLong: neither does what is in a string of a row that is too long.
func TestImportStoresLong(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	checkStores(t, "m s=\"a\nevil v=1 1\n"+long+"\nevil v=1 2\nb\",w=1 1\nn v=1 2\n", 20, true)
	checkStores(t, "m s=\"a\nevil v=1 1\n"+long+"\nevil v=1 2\n", 20, false)
}

func checkStores(t *testing.T, text string, batch uint16, tells bool) {
	t.Helper()
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
	var kept bytes.Buffer
	opt := ImportOptions{Database: "d", BatchBytes: int(batch), Workers: 1, Failed: &kept}
	stats, err := Import(t.Context(), &exchange.Client{URL: "http://s", HTTP: &http.Client{Transport: got}}, strings.NewReader(text), opt)
	if err != nil || !maps.Equal(got.stored, want.stored) {
		t.Fatalf("%.300q in requests of %d bytes: %v, stored %v, want %v", text, batch, err, got.stored, want.stored)
	}
	if (stats.Failed > 0) != (kept.Len() > 0) {
		t.Errorf("%.300q: %d lines refused, kept %.300q", text, stats.Failed, kept.String())
	}
	clear(got.stored)
	opt.Failed = nil
	if _, err := Import(t.Context(), &exchange.Client{URL: "http://s", HTTP: &http.Client{Transport: got}}, &kept, opt); err != nil || len(got.stored) > 0 {
		t.Errorf("%.300q: of the refused lines %v was stored, %v", text, got.stored, err)
	}
}

// TestReadLines cuts files that are not all lines.
func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", maxLine+5)
	for name, c := range map[string]struct {
		in     string
		want   []string
		failed int64
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
			im := &importer{ctx: context.Background(), db: "d", opt: ImportOptions{BatchBytes: 1 << 30}}
			if err := im.read(bufio.NewReaderSize(strings.NewReader(c.in), 4096)); err != nil {
				t.Fatal(err)
			}
			var got []string
			at := 0
			for _, e := range im.batch.ends {
				got = append(got, string(im.batch.body[at:e]))
				at = e
			}
			if im.stats.Failed != c.failed {
				t.Errorf("%d refused, want %d", im.stats.Failed, c.failed)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%.200q, want %q", got, c.want)
			}
		})
	}
}

// TestHeaders: names in headers end where those who write them let them end. Export writes
// them as they are.
func TestHeaders(t *testing.T) {
	const headers = "# CONTEXT-DATABASE: a b \n# CONTEXT-RETENTION-POLICY: p \r\n"
	for in, want := range map[string][2]string{headers: {"a b", "p"}, "# TSDBD EXPORT: x - y\n# DML\n" + headers: {" a b ", " p "}, "\t" + headers: {"a b", "p"}} {
		im := &importer{ctx: context.Background(), opt: ImportOptions{BatchBytes: 1 << 30}}
		if err := im.read(bufio.NewReader(strings.NewReader(in + "m v=1\n"))); err != nil || im.batch.db != want[0] || im.batch.rp != want[1] {
			t.Errorf("%q: %q.%q, %v", in, im.batch.db, im.batch.rp, err)
		}
	}
}

var errNoRoom = errors.New("no room")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errNoRoom }

// TestImportKeepsRefusedLines: lines that the import itself refuses are kept
// for later too, and are not lost in silence when that fails.
func TestImportKeepsRefusedLines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	const lines = "m v=1 1\nm v=\"open\nm v=1 1\n"
	var kept strings.Builder
	opt := ImportOptions{Database: "d", RetentionPolicy: "r", Failed: &kept}
	stats, err := Import(context.Background(), &exchange.Client{URL: server.URL}, strings.NewReader(lines), opt)
	const want = "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:r\n# the line has a string without its end, and 2 line breaks: \"m v=\\\"open\\nm v=1 1\"\n"
	if err != nil || stats.Failed != 1 || stats.Written != 1 || kept.String() != want {
		t.Errorf("%+v %v, kept %q", stats, err, kept.String())
	}
	opt.Failed = fullDisk{}
	if _, err := Import(context.Background(), &exchange.Client{URL: server.URL}, strings.NewReader(lines), opt); !errors.Is(err, errNoRoom) {
		t.Errorf("refused lines that cannot be kept: %v", err)
	}
}

// TestImportTellsEachReason: a server names one reason for all lines that it refuses. Import
// finds the others, and the rows that they are about.
func TestImportTellsEachReason(t *testing.T) {
	for _, tells := range []bool{false, true} { // how many lines it has dropped
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			dropped, reason := 0, ""
			for line := range strings.Lines(string(body)) {
				if _, bad, is := strings.Cut(line, "bad="); is {
					dropped++
					reason, _, _ = strings.Cut(bad, " ")
				}
			}
			if dropped == 0 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			if tells {
				w.Header().Set("X-Tsdbd-Dropped", strconv.Itoa(dropped))
			}
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"partial write: %s is wrong dropped=%d"}`, reason, dropped)
		}))
		defer server.Close()
		const table = "time,bad,v\n1,,1\n2,one,1\n3,,1\n4,two,1\n5,three,1\n6,three,1\n7,,1\n8,,1\n"
		var kept strings.Builder
		stats, err := Import(t.Context(), &exchange.Client{URL: server.URL}, strings.NewReader(table), ImportOptions{
			Database: "d", Name: "f", Failed: &kept, CSV: &csv.Options{Columns: "time,bad:tag,v:float", Measurement: "m", Unit: "ns"},
		})
		if err != nil || stats.Failed != 4 || stats.Written != 4 || kept.String() != "time,bad,v\n2,one,1\n4,two,1\n5,three,1\n6,three,1\n" {
			t.Errorf("%+v, %v\n%s", stats, err, kept.String())
		}
		want := []string{"f:3: partial write: one", "f:5: partial write: two", "f:6: partial write: three", "f:7: partial write: three"}
		if tells {
			want = []string{"f:3: partial write: one", "f:5: partial write: two", "f:6-7: partial write: three"}
		}
		if len(stats.Errors) != len(want) {
			t.Errorf("errors %q", stats.Errors)
		}
		for i, e := range stats.Errors {
			if !strings.HasPrefix(e, want[min(i, len(want)-1)]) {
				t.Errorf("errors %q, want %q", stats.Errors, want)
			}
		}
	}
}

// TestWriteErrors: what the importer does about an answer is decided by it.
func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		status               int
		body                 string
		lines, policy, again bool
	}{
		{400, `{"error":"partial write: points beyond retention policy dropped=1"}`, true, false, false},
		{400, `{"error":"unable to parse 'x': missing fields"}`, true, false, false},
		{404, `{"error":"database not found: \"x\""}`, false, false, false},
		{500, `{"error":"retention policy not found: rp"}`, false, true, false},
		{503, `{"error":"timeout"}`, false, false, true},
		{429, `slow down`, false, false, true},
		{502, `bad gateway`, false, false, true},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := (&exchange.Client{URL: web.URL}).Write(t.Context(), "d", "", "", []byte("m v=1"))
		web.Close()
		var answer *exchange.WriteError
		if !errors.As(err, &answer) || ofLines(answer) != c.lines || ofPolicy(answer) != c.policy || answer.Temporary() != c.again {
			t.Errorf("%d %s: %v", c.status, c.body, err)
		}
	}
}
