package promapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"tsdbd/httpapi/encode"
	"tsdbd/internal/testkit/script"
	"tsdbd/model/scan/scantest"
	"tsdbd/prom/engine"
	"tsdbd/query/admission"
	"tsdbd/query/show"
)

// TestScripts runs the scripts of testdata: requests to the API and its answers.
//
// The commands:
//
//	load       writes the lines that follow to the database "db", times in seconds
//	get PATH   answers a GET for each line that follows: parameters, or - for none
//	post PATH  answers a POST of each line as a form
//
// It is 1,000 s after 1970. An answer is its status and its body, with times that a
// query took as T.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		store := scantest.New()
		store.Create("db", "autogen")
		memory := admission.NewMemory(1 << 20)
		queries := admission.NewQueries(admission.Limits{MemoryBytes: 1 << 20}, memory, slog.New(slog.DiscardHandler))
		api := New(Options{
			Engine:   engine.New(engine.Options{Storage: store, Memory: memory, Queries: queries}),
			Now:      func() time.Time { return time.Unix(1000, 0) },
			Explorer: explorer{&show.Options{Storage: store, Catalog: store.Catalog}},
			Delete:   store.Delete,
		})
		return func(c script.Command) (out []string) {
			switch c.Name {
			case "load":
				store.Write(t, "db", "autogen", "s", strings.Join(c.Input, "\n"))
			case "get", "post":
				for _, parameters := range c.Input {
					out = append(out, answer(api, c.Name, c.Args[0], strings.TrimPrefix(parameters, "-"))...)
				}
				if n := memory.Used(); n != 0 || store.Views() != 0 {
					t.Errorf("%d bytes and %d views are left", n, store.Views())
				}
			default:
				t.Fatalf("unknown command %q", c.Name)
			}
			return out
		}
	})
}

// explorer counts the series of a store.
type explorer struct{ options *show.Options }

func (e explorer) Explore(ctx context.Context, x show.Exploration) (*show.Explored, error) {
	s := &show.Statement{Options: e.options, Ctx: ctx, Keep: func(int64) error { return nil }}
	return s.Explore(x)
}

// answer returns the lines of the answer to a request.
func answer(api *API, method, path, parameters string) []string {
	parameters = strings.ReplaceAll(parameters, " ", "%20")
	r := httptest.NewRequest("GET", path+"?"+parameters, nil)
	if method == "post" {
		r = httptest.NewRequest("POST", path, strings.NewReader(parameters))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if err := r.ParseForm(); err != nil {
		return []string{err.Error()}
	}
	endpoint := Endpoint{}
	for _, e := range api.Endpoints() {
		under := strings.HasSuffix(e.Path, "/") && strings.HasPrefix(path, e.Path)
		if e.Path == path || under && len(e.Path) > len(endpoint.Path) {
			endpoint = e
			if e.Path == path {
				break
			}
		}
	}
	w := httptest.NewRecorder()
	output := encode.NewOutput(w, encode.Options{})
	defer output.Free()
	call := &Call{Request: r, Rest: strings.TrimPrefix(path, endpoint.Path), Access: engine.Access{DB: "db"}, Databases: []string{"db"}, W: w, Out: output}
	if err := api.Serve(endpoint, call); err != nil {
		status, kind, message, ok := Status(err)
		if !ok {
			return []string{err.Error()}
		}
		endpoint.WriteError(w, status, kind, message)
	}
	body := timings.ReplaceAllString(w.Body.String(), `"timings":T`)
	lines := strings.Split(strings.TrimRight(body, "\n"), "\n")
	lines[0] = strings.TrimSpace(fmt.Sprint(w.Code, " ", lines[0]))
	return lines
}

// timings finds how long a query took.
var timings = regexp.MustCompile(`"timings":{[^}]*}`)
