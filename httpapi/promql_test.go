package httpapi_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/internal/testkit/script"
	"tsdbd/model/scan/scantest"
	"tsdbd/prom/engine"
	"tsdbd/query/admission"
)

// promServer returns a handler with Prometheus' API over an empty database mydb with
// the policies autogen and other.
func promServer(t *testing.T, opt httpapi.Options, limits admission.Limits) (*httpapi.Handler, *scantest.Store) {
	t.Helper()
	s := scantest.New()
	s.Create("mydb", "autogen")
	s.Create("mydb", "other")
	opt.PromQL = engine.New(engine.Options{
		Storage: s, Memory: opt.Memory, Queries: admission.NewQueries(limits, opt.Memory, slog.New(slog.DiscardHandler)),
	})
	opt.Writer, opt.Query = newFakeStore(), newFakeStore()
	h := httpapi.New(opt)
	t.Cleanup(h.Close)
	return h, s
}

// TestPrometheusScripts runs the scripts of testdata/prometheus. They show what the
// API answers, for readers.
//
// The commands:
//
//	load [RP]          writes the lines of line protocol that follow, times in seconds
//	get PATH           asks with the parameters that follow, one on a line
//	post PATH          does so with a form
//	default DATABASE   sets prometheus.database
//
// The database is mydb, and names its policies autogen and other. Parameters need no escapes.
func TestPrometheusScripts(t *testing.T) {
	script.Run(t, "testdata/prometheus/*.txt", func(t *testing.T) func(script.Command) []string {
		h, s := promServer(t, httpapi.Options{Limits: httpapi.Limits{PrometheusDatabase: "mydb"}}, admission.Limits{})
		return func(c script.Command) []string {
			switch c.Name {
			case "load":
				rp := "autogen"
				if len(c.Args) > 0 {
					rp = c.Args[0]
				}
				s.Write(t, "mydb", rp, "s", strings.Join(c.Input, "\n"))
				return nil
			case "default":
				h.SetLimits(httpapi.Limits{PrometheusDatabase: c.Args[0]})
				return nil
			case "get", "post":
				form := url.Values{}
				for _, line := range c.Input {
					name, value, _ := strings.Cut(line, "=")
					form.Add(name, value)
				}
				return promAsk(h, c.Name, c.Args[0], form)
			}
			t.Fatalf("unknown command %q", c.Name)
			return nil
		}
	})
}

// promAsk asks and returns the status, what is special in the header, and the body.
func promAsk(h http.Handler, method, path string, form url.Values) []string {
	r := httptest.NewRequest("GET", path+"?"+form.Encode(), nil)
	if method == "post" {
		r = httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := serveRequest(h, r)
	first := fmt.Sprint(w.Code)
	if kind := w.Header().Get("Content-Type"); kind != "application/json" {
		first = strings.TrimSpace(first + " " + kind)
	}
	// A series and a point of a document is on a line of its own.
	body := strings.NewReplacer(`{"metric"`, "\n  {\"metric\"", `,{"__name__"`, ",\n  {\"__name__\"").Replace(strings.TrimRight(w.Body.String(), "\n"))
	if body == "" {
		return []string{first}
	}
	return append([]string{first}, strings.Split(body, "\n")...)
}
