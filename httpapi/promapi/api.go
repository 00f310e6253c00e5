package promapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"tsdbd/httpapi/encode"
	"tsdbd/model/scan"
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
	// Delete deletes rows. An endpoint that does so needs it.
	Delete func(ctx context.Context, req scan.DeleteRequest) error
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
	// Write: a user who may write to the database. The endpoint changes it.
	Write
	// ReadAny: a user who may read the database, or without one an administrator.
	ReadAny
)

// Endpoint is a path of the API.
type Endpoint struct {
	// Path with a final slash is all paths that begin with it and no other endpoint has.
	Path string
	// Name is the label in metrics.
	Name   string
	Rights Rights
	// Post says that the parameters may come in a form.
	Post  bool
	serve func(*API, *Call) error
}

// WriteError answers with an error of an endpoint. kind "" is the one of the status.
func (e Endpoint) WriteError(w http.ResponseWriter, status int, kind, message string) {
	if e.Path == federatePath {
		WriteText(w, status, kind, message)
		return
	}
	writeDocument(w, status, kind, message)
}

// Endpoints returns the table of endpoints.
func (a *API) Endpoints() []Endpoint {
	all := []Endpoint{
		{"/api/v1/query", "prom_query", Read, true, (*API).query},
		{"/api/v1/query_range", "prom_query_range", Read, true, (*API).queryRange},
		{"/api/v1/query_exemplars", "prom_query_exemplars", Read, true, (*API).queryExemplars},
		{"/api/v1/series", "prom_series", Read, true, (*API).series},
		{"/api/v1/labels", "prom_labels", Read, true, (*API).labelNames},
		{"/api/v1/label/", "prom_label_values", Read, false, (*API).labelValues},
		{"/api/v1/metadata", "prom_metadata", Read, false, (*API).metadata},
		{"/api/v1/format_query", "prom_format_query", Login, true, (*API).formatQuery},
		{"/api/v1/parse_query", "prom_parse_query", Login, true, (*API).parseQuery},
		{"/api/v1/rules", "prom_rules", Login, false, (*API).rules},
		{"/api/v1/alerts", "prom_alerts", Login, false, fixed(`{"alerts":[]}`)},
		{"/api/v1/targets", "prom_targets", Login, false, fixed(`{"activeTargets":[],"droppedTargets":[],"droppedTargetCounts":null}`)},
		{"/api/v1/targets/metadata", "prom_targets", Login, false, (*API).targetMetadata},
		{"/api/v1/targets/relabel_steps", "prom_targets", Login, false, (*API).relabelSteps},
		{"/api/v1/scrape_pools", "prom_targets", Login, false, fixed(`{"scrapePools":null}`)},
		{"/api/v1/scrape_pools/config", "prom_targets", Login, false, (*API).scrapePoolConfig},
		{"/api/v1/alertmanagers", "prom_alerts", Login, false, fixed(`{"activeAlertmanagers":[],"droppedAlertmanagers":[]}`)},
		{"/api/v1/notifications", "prom_status", Login, false, fixed("null")},
		{"/api/v1/status/walreplay", "prom_status", Login, false, fixed(`{"min":0,"max":0,"current":0}`)},
		{"/api/v1/admin/tsdb/delete_series", "prom_delete_series", Write, true, (*API).deleteSeries},
		{"/api/v1/admin/tsdb/clean_tombstones", "prom_delete_series", Write, true, (*API).cleanTombstones},
		{federatePath, "prom_federate", Read, false, (*API).federate},
		{"/api/v1/", "prom_missing", Login, true, (*API).missing},
		{"/api/v1/status/buildinfo", "prom_status", Login, false, (*API).buildInfo},
		{"/api/v1/status/runtimeinfo", "prom_status", Login, false, (*API).runtimeInfo},
		{"/api/v1/status/config", "prom_status", Login, false, fixed(`{"yaml":""}`)},
		{"/api/v1/status/flags", "prom_status", Login, false, (*API).flags},
	}
	if a.opt.Explorer != nil {
		all = append(all, Endpoint{"/api/v1/status/tsdb", "tsdb_status", ReadAny, false, (*API).tsdbStatus})
	}
	return all
}

// fixed answers with a document that never changes.
func fixed(document string) func(*API, *Call) error {
	return func(_ *API, c *Call) error { return c.answer(json.RawMessage(document), nil) }
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

// Serve answers a call of an endpoint. If it fails before anything was sent, the answer
// is Endpoint.WriteError.
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
	for _, text := range texts {
		b = encode.AppendString(append(b, open...), text)
		open = ","
	}
	if len(texts) > 0 {
		b = append(b, ']')
	}
	return b
}

// list is an answer whose data is a list. The zero list with a call is ready.
type list struct {
	*Call
	open string // before the next element; "": there was none
}

// add adds an element, which f appends.
func (l *list) add(f func(dst []byte) []byte) error {
	if l.open == "" {
		if err := l.head(); err != nil {
			return err
		}
		l.open = "["
	}
	err := l.append(func(b []byte) []byte { return f(append(b, l.open...)) })
	l.open = ","
	return err
}

// end ends the answer.
func (l *list) end(out *engine.Outcome) error {
	if l.open == "" {
		return l.answer([]string{}, out)
	}
	if err := l.append(func(b []byte) []byte { return append(b, ']') }); err != nil {
		return err
	}
	return l.tail(out)
}
