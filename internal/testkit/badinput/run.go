package badinput

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Database is where the cases write. Run makes it, with one point that fixes
// the type of m's field v.
const Database = "bad"

// Seed is that point. Cases that are accepted in part send it again, so that
// no case changes the server's state.
const Seed = "m,host=a v=1 1000000000"

// Case is a request and its answer.
type Case struct {
	Name   string
	Method string
	Path   string // with the URL's query
	Header map[string]string
	Body   string
	Status int
	// Error is the error's text: of the body, or of the first failed
	// statement. A trailing … stands for any rest. Empty: not looked at.
	Error string
	// Text, if set, is the whole body.
	Text string
	// Engine marks a case whose answer comes from the engine behind the API.
	Engine bool
}

// Run prepares the database and checks every case, and after each that the
// state, as fingerprint sees it, is what it was. Cases of the engine are left
// out unless engine is set.
func Run(t *testing.T, base string, engine bool, fingerprint func(*testing.T) string) {
	t.Helper()
	setUp(t, base)
	before := fingerprint(t)
	n := 0
	for _, c := range Cases() {
		if c.Engine && !engine {
			continue
		}
		n++
		t.Run(c.Name, func(t *testing.T) {
			c.check(t, base)
			if after := fingerprint(t); after != before {
				t.Errorf("the state changed\nbefore: %s\nafter:  %s", before, after)
				before = after
			}
		})
	}
	t.Logf("%d cases", n)
}

func setUp(t *testing.T, base string) {
	t.Helper()
	for _, r := range []Case{
		{Method: "POST", Path: "/query?q=" + url.QueryEscape("CREATE DATABASE "+Database), Status: 200},
		{Method: "POST", Path: "/write?db=" + Database, Body: Seed, Status: 204},
	} {
		status, _, body := r.send(t, base)
		if status != r.Status {
			t.Fatalf("set up: %s %s: %d %s", r.Method, r.Path, status, body)
		}
	}
}

func (c *Case) send(t *testing.T, base string) (status int, header http.Header, body string) {
	t.Helper()
	req, err := http.NewRequest(c.Method, base+c.Path, strings.NewReader(c.Body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range c.Header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: no answer: %v", c.Method, c.Path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", c.Method, c.Path, err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

func (c *Case) check(t *testing.T, base string) {
	t.Helper()
	status, header, body := c.send(t, base)
	if status != c.Status {
		t.Fatalf("status %d, want %d; body %.300s", status, c.Status, body)
	}
	if c.Text != "" && body != c.Text {
		t.Errorf("body %q, want %q", body, c.Text)
	}
	if status != http.StatusRequestHeaderFieldsTooLarge && header.Get("X-Influxdb-Version") == "" {
		t.Error("no X-Influxdb-Version")
	}
	if c.Error == "" {
		return
	}
	path, _, _ := strings.Cut(c.Path, "?")
	plain := strings.HasSuffix(path, "/api/v1/write") || strings.HasSuffix(path, "/api/v1/read") // as Prometheus
	media, got := "application/json", ""
	if plain {
		media, got = "text/plain; charset=utf-8", strings.TrimSuffix(body, "\n")
	}
	if got := header.Get("Content-Type"); got != media {
		t.Errorf("Content-Type %q", got)
	}
	if !plain {
		var err error
		if got, err = errorText(body); err != nil {
			t.Fatal(err)
		}
	}
	want, open := strings.CutSuffix(c.Error, "…")
	if got != want && (!open || !strings.HasPrefix(got, want)) {
		t.Errorf("error %.400q, want %.400q", got, c.Error)
	}
	if c.Status >= 400 && !plain && header.Get("X-Influxdb-Error") == "" {
		t.Error("no X-Influxdb-Error")
	}
}

// errorText returns the error of an answer or of its first failed statement.
func errorText(body string) (string, error) {
	var doc struct {
		Error   string
		Results []struct{ Error string }
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		return "", fmt.Errorf("body is not JSON: %w: %.200q", err, body)
	}
	if doc.Error != "" {
		return doc.Error, nil
	}
	for _, r := range doc.Results {
		if r.Error != "" {
			return r.Error, nil
		}
	}
	return "", fmt.Errorf("no error in %.200q", body)
}

// squeeze compresses text.
func squeeze(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return b.String()
}
