package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// goldenTheme is a file of answers recorded from InfluxDB 1.12: statements and
// writes that set up, then cases in order.
type goldenTheme struct {
	Databases []string
	Setup     []struct {
		Statement string
		Write     *goldenWrite
	}
	Cases []goldenCase
}

// goldenCase is one request and its answer: a JSON or MessagePack document
// (Body), several (Lines), or bytes (Text).
type goldenCase struct {
	ID         string
	Method     string
	Path       string
	Params     map[string]string
	Q          string
	Form       bool // the parameters go into the form as well
	Write      *goldenWrite
	ReqHeaders map[string]string `json:"req_headers"`

	Status   int
	Headers  map[string]string
	Body     any
	Also     []any // other bodies that InfluxDB itself gives
	Lines    []any
	Text     string
	OnlyRows string      `json:"only_rows"` // rows with another prefix do not count
	MaskRe   [][2]string `json:"mask_re"`   // replacements in the answer
}

type goldenWrite struct {
	DB, RP, Precision, Path, Lines string
	Params                         map[string]string
	Base64, Gzip                   bool
}

// TestGolden replays the recorded themes of the HTTP API and line protocol
// against the real process. Differences that are meant stand with their reason
// in testdata/golden/differences.txt; one that is gone is an error as well.
func TestGolden(t *testing.T) {
	meant := readDifferences(t)
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no themes: %v", err)
	}
	s := startServer(t, t.TempDir())
	for _, file := range files {
		theme := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(theme, func(t *testing.T) {
			var g goldenTheme
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := decodeJSON(text, &g); err != nil {
				t.Fatal(err)
			}
			g.setUp(t, s)
			for _, c := range g.Cases {
				id := theme + "/" + c.ID
				diff := c.difference(t, s.base)
				reason, expected := meant[id]
				switch {
				case diff != "" && !expected:
					t.Errorf("%s: %s\n%s", id, c.Q, diff)
				case diff == "" && expected:
					t.Errorf("%s no longer differs (%s): take it out of differences.txt", id, reason)
				}
			}
			t.Logf("%d cases", len(g.Cases))
		})
	}
}

func readDifferences(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", "differences.txt"))
	if err != nil {
		t.Fatal(err)
	}
	meant := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if id, reason, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(id, "#") {
			meant[id] = strings.TrimSpace(reason)
		}
	}
	return meant
}

func (g *goldenTheme) setUp(t *testing.T, s *server) {
	t.Helper()
	for _, step := range g.Setup {
		if step.Write != nil {
			c := goldenCase{Write: step.Write, Status: 204}
			if diff := c.difference(t, s.base); diff != "" {
				t.Fatal(diff)
			}
			continue
		}
		s.query("", step.Statement)
	}
}

// request builds the case's request.
func (c *goldenCase) request(base string) (*http.Request, error) {
	method, path, vals := c.Method, c.Path, url.Values{}
	if method == "" {
		method = "POST"
	}
	for k, v := range c.Params {
		vals.Set(k, v)
	}
	var body []byte
	header := http.Header{}
	switch {
	case c.Write != nil:
		var err error
		if body, err = c.Write.body(vals, header); err != nil {
			return nil, err
		}
		if path == "" {
			path = "/write"
		}
		if c.Write.Path != "" {
			path = c.Write.Path
		}
	case path != "":
	case method == "GET":
		path = "/query"
		vals.Set("q", c.Q)
	default:
		path = "/query"
		form := url.Values{"q": {c.Q}}
		if c.Form {
			for k, v := range vals {
				form[k] = v
			}
			vals = nil
		}
		body = []byte(form.Encode())
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req, err := http.NewRequest(method, base+path+"?"+vals.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	for k, v := range c.ReqHeaders {
		req.Header.Set(k, v)
	}
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "identity")
	}
	return req, nil
}

func (w *goldenWrite) body(vals url.Values, header http.Header) ([]byte, error) {
	for k, v := range w.Params {
		vals.Set(k, v)
	}
	for k, v := range map[string]string{"db": w.DB, "rp": w.RP, "precision": w.Precision} {
		if v != "" {
			vals.Set(k, v)
		}
	}
	body := []byte(w.Lines)
	if w.Base64 {
		var err error
		if body, err = base64.StdEncoding.DecodeString(w.Lines); err != nil {
			return nil, err
		}
	}
	if w.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(body); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		header.Set("Content-Encoding", "gzip")
		body = b.Bytes()
	}
	return body, nil
}

// difference sends the case and tells how the answer differs, or "".
func (c *goldenCase) difference(t *testing.T, base string) string {
	t.Helper()
	req, err := c.request(base)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != c.Status {
		return fmt.Sprintf("status %d, want %d: %.300s", resp.StatusCode, c.Status, body)
	}
	for k, want := range c.Headers {
		if got := resp.Header.Get(k); got != want {
			return fmt.Sprintf("%s: %q, want %q", k, got, want)
		}
	}
	if c.Text != "" {
		if string(body) != c.Text {
			return fmt.Sprintf("got  %q\nwant %q", body, c.Text)
		}
		return ""
	}
	got, err := documents(resp.Header.Get("Content-Type"), body)
	if err != nil {
		return fmt.Sprintf("%v: %.300q", err, body)
	}
	if c.OnlyRows != "" {
		keepRows(got, c.OnlyRows)
	}
	wanted := [][]any{c.Lines}
	if c.Lines == nil {
		wanted = nil
		for _, b := range append([]any{c.Body}, c.Also...) {
			if b == nil {
				wanted = append(wanted, nil)
			} else {
				wanted = append(wanted, []any{b})
			}
		}
	}
	for _, want := range wanted {
		if c.render(got) == c.render(want) {
			return ""
		}
	}
	return "got  " + c.render(got) + "\nwant " + c.render(wanted[0])
}

// render writes documents with sorted keys and one spelling of numbers, so
// that equal documents are equal texts.
func (c *goldenCase) render(docs []any) string {
	var b strings.Builder
	for _, d := range docs {
		text, err := json.Marshal(plainNumbers(d))
		if err != nil {
			return err.Error()
		}
		b.Write(text)
	}
	s := b.String()
	for _, m := range c.MaskRe {
		s = regexp.MustCompile(m[0]).ReplaceAllString(s, m[1])
	}
	return s
}

// plainNumbers replaces numbers by their values: integers exactly, others as
// floats.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return string(v)
		}
		if f == float64(int64(f)) {
			return int64(f)
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainNumbers(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = plainNumbers(v[k])
		}
		return out
	}
	return v
}

// documents decodes the JSON documents of a body, or its MessagePack one.
func documents(kind string, body []byte) ([]any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if kind == "application/x-msgpack" {
		d, rest, err := decodeMsgpack(body)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%d bytes too many", len(rest))
		}
		return []any{d}, err
	}
	var docs []any
	for line := range bytes.Lines(body) {
		var d any
		if err := decodeJSON(line, &d); err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

func decodeJSON(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

// keepRows takes the rows out of all tables whose first cell has another prefix.
func keepRows(docs []any, prefix string) {
	for _, d := range docs {
		root, _ := d.(map[string]any)
		results, _ := root["results"].([]any)
		for _, r := range results {
			res, _ := r.(map[string]any)
			all, _ := res["series"].([]any)
			for _, s := range all {
				table, _ := s.(map[string]any)
				var kept []any
				rows, _ := table["values"].([]any)
				for _, row := range rows {
					if cells := row.([]any); strings.HasPrefix(fmt.Sprint(cells[0]), prefix) {
						kept = append(kept, row)
					}
				}
				table["values"] = kept
			}
		}
	}
}

func TestRenderTellsNumbersApart(t *testing.T) {
	c := goldenCase{}
	f := func(a, b string, same bool) {
		t.Helper()
		docs := func(s string) []any {
			d, err := documents("application/json", []byte(s))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if got := c.render(docs(a)) == c.render(docs(b)); got != same {
			t.Errorf("%s and %s: same is %v", a, b, got)
		}
	}
	f(`[1,1.5e0]`, `[1.0,1.5]`, true)
	f(`[9007199254740993]`, `[9007199254740992]`, false)
	f(`[18446744073709551615]`, `[18446744073709551614]`, false)
	f(`{"a":1,"b":null}`, `{"b":null,"a":1}`, true)
	f(`{"a":null}`, `{}`, false)
	if !reflect.DeepEqual(plainNumbers(json.Number("2.0")), int64(2)) {
		t.Error("2.0 is not 2")
	}
}
