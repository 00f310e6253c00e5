package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	runtimedebug "runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/httpapi/browser"
	"tsdbd/httpapi/debug"
	"tsdbd/httpapi/login"
	"tsdbd/httpapi/promapi"
	"tsdbd/httpapi/redact"
	"tsdbd/httpapi/stall"
	"tsdbd/httpapi/throttle"
	"tsdbd/internal/body"
	"tsdbd/prom/metadata"
)

// Handler serves the API.
type Handler struct {
	opt     Options
	log     *slog.Logger
	metrics *metrics
	routes  map[string]*route // by path
	limits  atomic.Pointer[Limits]
	writes  atomic.Pointer[throttle.Throttle]
	bodies  body.Budget
	logins  *login.Logins
	pages   *browser.Filter

	metadata metadata.Recent

	headers   http.Header // of every answer
	challenge string      // WWW-Authenticate
	clients   debug.Clients
	started   time.Time

	draining   atomic.Bool
	background sync.WaitGroup // async queries
	async      chan struct{}  // a token per async query
	ctx        context.Context
	cancel     context.CancelFunc
}

// Drain answers every new request with 503. Requests in flight continue.
func (h *Handler) Drain() { h.draining.Store(true) }

// Close stops queries in the background and waits for them.
func (h *Handler) Close() {
	h.Drain()
	h.cancel()
	h.background.Wait()
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) { h.serve(rw, r, false) }

// serve answers one request, of a client or forwarded by another node.
func (h *Handler) serve(rw http.ResponseWriter, r *http.Request, forwarded bool) {
	begin := time.Now()
	h.metrics.inFlight.Inc()
	w := &response{ResponseWriter: rw}
	_ = http.NewResponseController(rw).SetWriteDeadline(begin.Add(stall.Time)) // that of the previous request may have passed
	counted := &countingBody{ReadCloser: r.Body}
	// The request is a copy: net/http uses the body of its own request to decide
	// whether to wait for a client that sent Expect: 100-continue.
	req := &request{Request: r.WithContext(r.Context()), free: !h.opt.AuthEnabled, forwarded: forwarded, received: counted}
	req.Body = counted
	head := rw.Header()
	maps.Copy(head, h.opt.Headers)
	maps.Copy(head, h.headers)

	req.path, req.db, req.rp = promapi.CutPrefix(r.URL)
	rt := h.route(req.path)
	name, id, fail := "other", "", failure(writeError)
	if rt != nil {
		name = rt.name
		if rt.fail != nil {
			fail = rt.fail
		}
	}
	defer func() {
		cut := false
		if p := recover(); p != nil {
			cut = h.recovered(w, req.Request, p, id, fail)
		}
		w.close()
		w.client.Last(http.NewResponseController(rw))
		if w.status == 0 {
			w.status = http.StatusOK
		}
		took := time.Since(begin)
		h.metrics.inFlight.Dec()
		h.metrics.done(name, w.status, counted.n.Load(), w.bytes, took)
		h.logAccess(name, req, w, id, took)
		if cut {
			panic(http.ErrAbortHandler) // the server closes the connection
		}
	}()

	if rt == nil {
		routerText(w, http.StatusNotFound, "404 page not found\n")
		return
	}
	serve := rt.methods[r.Method]
	if rt.any != nil {
		serve = rt.any
	}
	if serve == nil {
		head.Set("Allow", rt.allow())
		routerText(w, http.StatusMethodNotAllowed, "Method Not Allowed\n")
		return
	}
	id = redact.RequestID(r.Header)
	ids := []string{id}
	head["X-Request-Id"], head["Request-Id"] = ids, ids
	h.allowOrigin(head, r.Header.Get("Origin"))
	if h.draining.Load() {
		head.Set("Connection", "close")
		fail(w, req.Request, errShuttingDown)
		return
	}
	err := h.checkPage(req, rt.changes(r.Method))
	if err == nil {
		err = h.answer(w, req, rt, serve)
	}
	if err != nil {
		if errors.As(err, new(login.Error)) && !browser.ByScript(r.Header) {
			// A browser asks the person for a login, keeps it, and adds it to what
			// any page sends here.
			head.Set("WWW-Authenticate", h.challenge)
		}
		fail(w, req.Request, err)
	}
}

// checkPage returns why a web page may not send a request. Between nodes, the node that
// the browser asked has checked it.
func (h *Handler) checkPage(r *request, changes bool) error {
	if r.forwarded {
		return nil
	}
	return h.pages.Check(r.Request, changes)
}

// recovered turns a panic into a 500 if nothing has been sent. Otherwise it returns
// true: the connection must be cut, so that the answer does not look complete.
func (h *Handler) recovered(w *response, r *http.Request, p any, id string, fail failure) bool {
	if p != http.ErrAbortHandler {
		h.metrics.panics.Inc()
		h.log.Error("request panicked", "path", r.URL.Path, "request_id", id, "err", fmt.Sprint(p), "stack", string(runtimedebug.Stack()))
		if w.status == 0 {
			fail(w, r, errInternal)
			return false
		}
	}
	w.release()
	return true
}

// countingBody counts the bytes of a request's body.
type countingBody struct {
	io.ReadCloser
	n atomic.Int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// routerText answers in plain text, as InfluxDB does for unknown paths and methods.
func routerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// allowOrigin sets the header that lets a browser give the answer to a page of
// another origin, if the operator allows that origin.
func (h *Handler) allowOrigin(head http.Header, origin string) {
	if len(h.opt.AllowedOrigins) == 0 {
		return
	}
	head.Add("Vary", "Origin")
	if origin == "" || !h.pages.Trusts(origin) {
		return
	}
	head.Set("Access-Control-Allow-Origin", origin)
	head.Set("Access-Control-Allow-Methods", "DELETE, GET, OPTIONS, POST, PUT, PATCH")
	head.Set("Access-Control-Allow-Headers", "Accept, Accept-Encoding, Authorization, Content-Length, Content-Type, User-Agent, X-CSRF-Token, X-HTTP-Method-Override")
	head.Set("Access-Control-Expose-Headers", "Date, X-InfluxDB-Version, X-InfluxDB-Build")
}

func (h *Handler) logAccess(route string, r *request, w *response, id string, took time.Duration) {
	if h.opt.AccessLog == nil || h.opt.AccessLogStatus != nil && !h.opt.AccessLogStatus(w.status) {
		return
	}
	h.opt.AccessLog.LogAttrs(r.Context(), slog.LevelInfo, "request",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("query", redact.URL(r.URL.RawQuery)),
		slog.Int("status", w.status), slog.Int64("bytes", w.bytes), slog.Duration("took", took),
		slog.String("request_id", id), slog.String("remote", r.RemoteAddr), slog.String("user", r.userName()))
}
