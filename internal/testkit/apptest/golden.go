package apptest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/golden"
)

// ReplayGolden replays every recorded theme. It passes answers that are neither the
// recorded ones nor intended differences to differs, if that is not nil.
func ReplayGolden(t *testing.T, s *Server, differs func(*golden.Case, *golden.Difference)) {
	known, siblings := golden.Differences(t), golden.Siblings(t)
	for _, th := range golden.Themes(t, nil) {
		t.Run(th.Theme, func(t *testing.T) {
			setUpGolden(t, s, th)
			differ := 0
			for _, c := range append(siblings[th.Theme], th.Cases...) {
				d := known[c.Name()]
				if d != nil {
					differ++
				}
				if bad := judgeGolden(t, s, c, d, differs); len(bad) > 0 {
					t.Errorf("%s: %s\n     %s", c.Name(), c.Q, strings.Join(bad[:min(4, len(bad))], "\n     "))
				}
			}
			t.Logf("%d cases, %d of them intended differences", len(th.Cases), differ)
			for _, db := range th.Databases {
				s.Query("", "DROP DATABASE "+influxql.QuoteIdent(db))
			}
		})
	}
}

func setUpGolden(t *testing.T, s *Server, th *golden.Theme) {
	t.Helper()
	for _, db := range th.Databases {
		s.Query("", "DROP DATABASE "+influxql.QuoteIdent(db))
	}
	for _, step := range th.Setup {
		if step.Write != nil {
			c := golden.Case{Write: step.Write, Status: 204}
			if bad := judgeGolden(t, s, &c, nil, nil); len(bad) > 0 {
				t.Fatal(bad)
			}
			continue
		}
		s.Query("", step.Statement)
	}
}

// request builds the case's request.
func goldenRequest(c *golden.Case, base string) (*http.Request, error) {
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
		if body, err = goldenBody(c.Write, vals, header); err != nil {
			return nil, err
		}
		if path == "" {
			path = "/write"
		}
		if c.Write.Path != "" {
			path = c.Write.Path
		}
	case path != "":
		body = []byte(c.ReqBody)
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

func goldenBody(w *golden.Write, vals url.Values, header http.Header) ([]byte, error) {
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

// judgeGolden sends the case and tells what is wrong with the answer.
func judgeGolden(t *testing.T, s *Server, c *golden.Case, d *golden.Difference, differs func(*golden.Case, *golden.Difference)) []string {
	t.Helper()
	report := func(ours *golden.Difference) {
		if differs != nil {
			differs(c, ours)
		}
	}
	req, err := goldenRequest(c, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.http.Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	status := c.Status
	if d != nil && d.Status != 0 {
		status = d.Status
	}
	if resp.StatusCode != status {
		return []string{fmt.Sprintf("status %d, want %d: %.300s", resp.StatusCode, status, body)}
	}
	for k, want := range c.Headers {
		got := resp.Header.Get(k)
		if k == "Allow" { // a set
			methods := strings.Split(got, ", ")
			slices.Sort(methods)
			got = strings.Join(methods, ", ")
		}
		if got != want {
			return []string{fmt.Sprintf("%s: %q, want %q", k, got, want)}
		}
	}
	if c.Text != nil {
		want := *c.Text
		if d != nil {
			if string(body) == want {
				return []string{"no longer differs: take it out of differences.json"}
			}
			want = d.Text
		}
		if string(body) != want {
			report(&golden.Difference{Text: string(body)})
			return []string{fmt.Sprintf("got  %q\nwant %q", body, want)}
		}
		return nil
	}
	got, err := answerDocuments(resp.Header.Get("Content-Type"), body)
	if err != nil {
		return []string{fmt.Sprintf("%v: %.300q", err, body)}
	}
	bad := c.Judge(d, got)
	if len(bad) > 0 {
		ours := &golden.Difference{Lines: got}
		if len(got) == 1 {
			ours = &golden.Difference{Body: got[0]}
		}
		if len(c.Judge(&golden.Difference{Ties: true}, got)) == 0 {
			ours = &golden.Difference{Ties: true}
		}
		report(ours)
	}
	return bad
}

// documents decodes the JSON documents of a body, or its MessagePack one.
func answerDocuments(kind string, body []byte) ([]any, error) {
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
		if err := golden.Decode(line, &d); err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}
