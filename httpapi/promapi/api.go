package promapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"tsdbd/httpapi/encode"
	"tsdbd/prom/engine"
	"tsdbd/query/show"
)

// Version is the version of Prometheus whose PromQL and API these are. Clients choose
// features by it.
const Version = "3.15.0"

// Explorer counts series.
type Explorer interface {
	// Explore counts the series of a database.
	Explore(ctx context.Context, x show.Exploration) (*show.Explored, error)
}

// Options configure an API. Engine must be set.
type Options struct {
	Engine *engine.Engine
	// Explorer answers status/tsdb. nil: there is no such endpoint.
	Explorer Explorer
	// Build is the version of the server.
	Build   string
	Started time.Time
	// Now is the clock for the time of an instant query; nil is time.Now.
	Now func() time.Time
}

// API answers requests.
type API struct{ opt Options }

// New returns an API.
func New(opt Options) *API {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &API{opt}
}

// Rights says what a user needs for an endpoint.
type Rights uint8

// The rights.
const (
	// Login: any user.
	Login Rights = iota
	// Read: a user who may read the database.
	Read
	// ReadAny: a user who may read the database, or without one an administrator.
	ReadAny
)

// Endpoint is a path below /api/v1/.
type Endpoint struct {
	// Path is the rest of the path. A final slash: all paths that begin with it.
	Path string
	// Name is the label in metrics.
	Name   string
	Rights Rights
	// Post says that the parameters may come in a form.
	Post  bool
	serve func(*API, *Call) error
}

// Endpoints returns the table of endpoints.
func (a *API) Endpoints() []Endpoint {
	all := []Endpoint{
		{"query", "prom_query", Read, true, (*API).query},
		{"query_range", "prom_query_range", Read, true, (*API).queryRange},
		{"query_exemplars", "prom_query_exemplars", Read, true, (*API).queryExemplars},
		{"series", "prom_series", Read, true, (*API).series},
		{"labels", "prom_labels", Read, true, (*API).labelNames},
		{"label/", "prom_label_values", Read, false, (*API).labelValues},
		{"metadata", "prom_metadata", Read, false, (*API).metadata},
		{"format_query", "prom_format_query", Login, true, (*API).formatQuery},
		{"parse_query", "prom_parse_query", Login, true, (*API).parseQuery},
		{"rules", "prom_rules", Login, false, (*API).rules},
		{"alerts", "prom_alerts", Login, false, (*API).alerts},
		{"targets", "prom_targets", Login, false, (*API).targets},
		{"status/buildinfo", "prom_status", Login, false, (*API).buildInfo},
		{"status/runtimeinfo", "prom_status", Login, false, (*API).runtimeInfo},
		{"status/config", "prom_status", Login, false, (*API).config},
		{"status/flags", "prom_status", Login, false, (*API).flags},
	}
	if a.opt.Explorer != nil {
		all = append(all, Endpoint{"status/tsdb", "tsdb_status", ReadAny, false, (*API).tsdbStatus})
	}
	return all
}

// Call is a request and its answer.
type Call struct {
	// Request has its form.
	Request *http.Request
	// Rest is the path behind that of the endpoint.
	Rest string
	// Access has the database that the user may read.
	Access engine.Access
	// Databases are those that an endpoint with ReadAny is about.
	Databases []string
	W         http.ResponseWriter
	Out       *encode.Output
}

// param returns a parameter, or "".
func (c *Call) param(name string) string { return c.Request.FormValue(name) }

// Serve answers a call of an endpoint. After an error of which nothing has been sent, the answer
// is WriteError.
func (a *API) Serve(e Endpoint, c *Call) error {
	c.W.Header().Set("Content-Type", encode.MediaJSON)
	return e.serve(a, c)
}

// answer answers with a value.
func (c *Call) answer(data any, out *engine.Outcome) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := c.head(); err != nil {
		return err
	}
	if err := c.append(func(dst []byte) []byte { return append(dst, b...) }); err != nil {
		return err
	}
	return c.tail(out)
}

// append adds to the answer.
func (c *Call) append(f func(dst []byte) []byte) error { return c.Out.Append(f) }

// head begins an answer, up to its data.
func (c *Call) head() error {
	return c.append(func(b []byte) []byte { return append(b, `{"status":"success","data":`...) })
}

// tail ends an answer and sends it.
func (c *Call) tail(out *engine.Outcome) error {
	err := c.append(func(b []byte) []byte {
		if out != nil {
			b = appendTexts(b, `,"warnings":[`, out.Warnings)
			b = appendTexts(b, `,"infos":[`, out.Infos)
		}
		return append(b, '}')
	})
	if err != nil {
		return err
	}
	return c.Out.Finish()
}

// appendTexts appends a member with texts, if there are any.
func appendTexts(b []byte, open string, texts []string) []byte {
	for i, text := range texts {
		if i == 0 {
			b = append(b, open...)
		} else {
			b = append(b, ',')
		}
		b = encode.AppendString(b, text)
	}
	if len(texts) > 0 {
		b = append(b, ']')
	}
	return b
}
