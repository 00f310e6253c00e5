package opentsdb

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tsdbd/services/input"
	"tsdbd/services/input/inputtest"
)

func listen(t *testing.T, s *inputtest.Store) *Service {
	t.Helper()
	in, err := Listen(Options{Options: input.Options{Writer: s, Database: "d"}, Address: "127.0.0.1:0", LogPointErrors: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) }) // it may be closed in the test
	return in
}

func TestParseLine(t *testing.T) {
	f := func(line, want string, wantFault fault) {
		t.Helper()
		p, got := parseLine(line)
		text := ""
		if got == noFault {
			p.Tags.Sort()
			text = fmt.Sprintf("%s %v %v %d", p.Measurement, p.Tags, p.Fields[0].Value, p.Time)
		}
		if got != wantFault || text != want {
			t.Errorf("%s: %q %d, want %q %d", line, text, got, want, wantFault)
		}
	}
	f("put m 1700000000 1.5 b=2 a=1", "m [{a 1} {b 2}] 1.5 1700000000000000000", noFault)
	f("put m 1700000000123 42", "m [] 42 1700000000123000000", noFault)
	f("put m 9999999999 1", "", badTime) // beyond 2262
	f("put m 7 -1e3 a=1", "m [{a 1}] -1000 7000000000", noFault)
	f("put m 1 NaN", "m [] NaN 1000000000", noFault) // refused by the batcher
	f("", "", badLine)
	f("put", "", badLine)
	f("put m 1", "", badLine)
	f("get m 1 2", "", badLine)
	f("put m x 1", "", badTime)
	f("put m -1 1", "", badTime)
	f("put m 1.5 1", "", badTime)
	f("put m 9300000000000 1", "", badTime)
	f("put m 1 x", "", badValue)
	f("put m 1 1 a", "", badTag)
	f("put m 1 1 =a", "", badTag)
	f("put m 1 1 a=", "", badTag)
}

// TestBothProtocols sends lines and HTTP to one port.
func TestBothProtocols(t *testing.T) {
	s := &inputtest.Store{}
	in := listen(t, s)
	url := "http://" + in.Addr().String()

	c, err := net.Dial("tcp", in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "put lines 1 1 a=b\nbad\nput lines 2 x\nversion\n"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len(telnetVersion))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != telnetVersion {
		t.Errorf("version: %q %v", answer, err)
	}
	if _, err := io.WriteString(c, "put lines 3000 3\n"); err != nil {
		t.Fatal(err)
	}

	post := func(path, body, encoding string) (int, string) {
		t.Helper()
		r, err := http.NewRequest("POST", url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	f := func(path, body, encoding string, want int, text string) {
		t.Helper()
		if status, b := post(path, body, encoding); status != want || !strings.Contains(b, text) || status == 204 && b != "" {
			t.Errorf("%s %.60s: %d %s, want %d %s", path, body, status, b, want, text)
		}
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`[{"metric":"http","timestamp":1,"value":1,"tags":{"a":"b"}},{"metric":"http","timestamp":"2","value":"2.5"}]`))
	_ = z.Close()
	f("/api/put", packed.String(), "gzip", 204, "")
	if got := s.Points(); got != "http value=2.5 2000000000\nhttp,a=b value=1 1000000000" {
		t.Errorf("a POST is answered before its points are written: %s", got)
	}
	f("/api/put?details", ` {"metric":"http","timestamp":3000000000123,"value":3e0} `, "", 204, "")
	f("/api/put", `[]`, "", 204, "")
	f("/api/put", ``, "", 400, "EOF")
	f("/api/put", `{"metric":"http"`, "", 400, `"code":400`)
	f("/api/put", `[{"metric":"http","timestamp":4,"value":4},{"metric":`, "", 400, "EOF")
	f("/api/put", `[{"metric":"http","timestamp":4,"value":4}] x`, "", 400, "")
	f("/api/put", `{"timestamp":4,"value":4}`, "", 400, "no metric")
	f("/api/put", `{"metric":"http","timestamp":4}`, "", 400, "is no number")
	f("/api/put", `{"metric":"http","timestamp":1.5,"value":4}`, "", 400, "is no integer")
	f("/api/put", `{"metric":"http","timestamp":-1,"value":4}`, "", 400, "out of range")
	f("/api/put", `[{"metric":"http","timestamp":5,"value":5,"tags":{"time":"x"}},{"metric":"http","timestamp":6,"value":6}]`, "", 400, "invalid tag key")
	f("/api/put", "this is surely no gzip", "gzip", 400, "gzip")
	f("/api/metadata/put", "[]", "", 204, "")
	f("/api/query", "", "", 404, "not found")
	f("/api/put", strings.Repeat(" ", MaxBodyBytes+1), "", 413, "too large")
	fromPage, err := http.NewRequest("POST", url+"/api/put", strings.NewReader(`{"metric":"http","timestamp":7,"value":7}`))
	if err != nil {
		t.Fatal(err)
	}
	fromPage.Header.Set("Origin", "http://evil.example")
	if r, err := http.DefaultClient.Do(fromPage); err != nil || r.StatusCode != 403 {
		t.Error(r, err)
	} else {
		_ = r.Body.Close()
	}
	if r, err := http.Get(url + "/api/put"); err != nil || r.StatusCode != 405 || r.Header.Get("Allow") != "POST" {
		t.Error(r, err)
	} else {
		_ = r.Body.Close()
	}

	_ = c.Close()
	for in.Counts().Connections.Load() > 1 {
		http.DefaultClient.CloseIdleConnections()
		time.Sleep(time.Millisecond)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want := "http value=2.5 2000000000\nhttp value=3 3000000000123000000\nhttp value=6 6000000000\nhttp,a=b value=1 1000000000\n" +
		"lines value=3 3000000000000\nlines,a=b value=1 1000000000"
	if got := s.Points(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	figures := in.Statistics()
	if figures["tlBadLine"] != int64(1) || figures["tlBadFloat"] != int64(1) || figures["tlPointsRx"] != int64(2) || figures["tlConnsHandled"] != int64(1) {
		t.Error(figures)
	}
}

// A body of many points is written in pieces, and one that the store has no
// room for is to be sent again.
func TestLargeAndRefusedBodies(t *testing.T) {
	var fail error
	s := &inputtest.Store{Fail: func() error { return fail }}
	in := listen(t, s)
	var body strings.Builder
	body.WriteByte('[')
	for i := range 2*chunkPoints + 1 {
		fmt.Fprintf(&body, `{"metric":"m","timestamp":%d,"value":%d},`, 1+i, i)
	}
	text := strings.TrimSuffix(body.String(), ",") + "]"
	f := func(want int) {
		t.Helper()
		resp, err := http.Post("http://"+in.Addr().String()+"/api/put", "application/json", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s, want %d", resp.Status, want)
		}
	}
	f(204)
	if points, batches := s.Count(); points != 2*chunkPoints+1 || batches != 3 {
		t.Errorf("%d points in %d batches", points, batches)
	}
	if in.bodies.Used() != 0 {
		t.Errorf("%d bytes of bodies are still charged", in.bodies.Used())
	}
	fail = errors.New("disk full")
	f(503)
	fail = nil
	other, err := in.bodies.Read(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(text)), 0)
	if err != nil {
		t.Fatal(err)
	}
	in.bodies.SetLimit(int64(len(text)) + 1)
	f(503)
	other.Release()
	f(204)
}

// FuzzPut holds that no line and no body makes a decoder panic, and that what
// they make has a measurement and one field.
func FuzzPut(f *testing.F) {
	f.Add("put m 1 1 a=b")
	f.Add(`[{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"}}]`)
	f.Add(`{"metric":"m","timestamp":"1","value":"1e5"}{}`)
	f.Add("[[[[")
	f.Fuzz(func(t *testing.T, text string) {
		check := func(p input.Point) {
			if p.Measurement == "" || len(p.Fields) != 1 || p.Time < 0 {
				t.Errorf("%q: %+v", text, p)
			}
		}
		if p, fault := parseLine(text); fault == noFault {
			check(p)
		}
		_ = eachChunk([]byte(text), func(points []input.Point) error {
			for _, p := range points {
				check(p)
			}
			return nil
		}) // whatever it is
	})
}
