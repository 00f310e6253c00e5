package promapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"tsdbd/httpapi/encode"
	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/prom/engine"
	"tsdbd/query/downsample"
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
	use := downsample.Use(c.param("downsamples"))
	if use != "" && !slices.Contains(meta.DownsampleUses, use) {
		return invalid("downsamples", fmt.Errorf("it must be one of %v, not %q", meta.DownsampleUses, use))
	}
	c.Access.Downsamples = use
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
