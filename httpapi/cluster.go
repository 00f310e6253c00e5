package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/httpapi/browser"
	"tsdbd/httpapi/encode"
	"tsdbd/internal/binio"
	"tsdbd/internal/body"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/query"
)

// Cluster is the node of a cluster that a Handler serves. The node knows who leads and
// how far this node has come in the log that all nodes share.
type Cluster interface {
	// Leads reports whether this node takes writes.
	Leads() bool
	// TakesRows reports whether the leader reads all that a Writer of this node can send it.
	TakesRows() bool
	// Forward sends r to the leader, with its body as it is, and copies the answer to
	// w. It returns an error only if it has written nothing to w.
	Forward(w http.ResponseWriter, r *http.Request) error
	// Read waits until this node has applied the log up to position. "strong" asks for
	// all that was acknowledged before the call, "stale" for what this node has. Read
	// returns forward if the leader must answer in place of this node. If it is stale, or
	// there is no leader to answer, behind is how old what this node has may be, at most:
	// the longest time if nothing is known.
	Read(ctx context.Context, position uint64, consistency string) (forward bool, behind time.Duration, err error)
	// Others returns the addresses of the other nodes, the leader's first.
	Others() []string
	// Ask sends r to the node at an address, marked by X-Tsdbd-Whole, and copies the
	// answer to w. It returns an error if the node has failed. If that is known in time,
	// it has written nothing.
	Ask(address string, w http.ResponseWriter, r *http.Request) error
	// Position returns how far this node has applied the log.
	Position() uint64
	// Stamp is called before a request is answered here. What it returns adds to the
	// header of the answer, when that begins, the position and, for what only the leader
	// does, on how many disks it is.
	Stamp(leader bool) func(http.Header)
	// Writer returns what writes as Options.Writer does, at the leader, and puts what Stamp
	// adds there into stamp. here: it refuses to write at another node, as of a request that
	// was forwarded in the term of this one.
	Writer(stamp http.Header, here bool) Writer
}

// behindHeader is the maximum age of the answer in seconds, or "unknown". The server sends it
// when its lag exceeds cluster.max-lag and no leader answers, and in stale reads.
const behindHeader = "X-Tsdbd-Behind"

// The levels of consistency that a read may ask for, besides those of writes.
const strong, stale = "strong", "stale"

// positionHeader is a place in the log. An answer has the place that it contains or
// follows. A request waits until its node has reached the place.
const positionHeader = "X-Tsdbd-Position"

// clientHeader is the address of the client of a forwarded request.
const clientHeader = "X-Tsdbd-Client"

// DefaultPositionWait bounds how long a request waits for a position.
const DefaultPositionWait = 30 * time.Second

// The places of routes whose requests differ, in addition to those of package query.
const (
	// byMethod: GET and HEAD read, other methods change something.
	byMethod query.Place = -1
	// byStatement: the handler decides when it has parsed the statements.
	byStatement query.Place = -2
	// byRows: a node that is not behind parses the rows, and the leader stores them.
	byRows query.Place = -3
)

// errNotLeading is the answer to a request that cannot be passed on: another node has, or
// its body is gone.
var errNotLeading = &apiError{http.StatusServiceUnavailable, "the lead of the cluster has changed while the request was under way, which may be sent again"}

// errKillElsewhere is the answer to a KILL QUERY that would reach another node.
var errKillElsewhere = badRequest("KILL QUERY is about the queries of one node: send it without statements that only the leader runs")

// Forwarded returns the handler of requests that other nodes forward to this one. It
// must serve nobody else: it believes the address of the client that they name.
func (h *Handler) Forwarded() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := *r
		if address := r.Header.Get(clientHeader); address != "" {
			client.RemoteAddr = address
		}
		h.serve(w, &client, true)
	})
}

// placeOf returns which node answers a request of a route.
func (rt *route) placeOf(method string) query.Place {
	switch {
	case method == http.MethodOptions && rt.any == nil:
		return query.ThisNode
	case rt.place != byMethod:
		return rt.place
	case method == http.MethodGet || method == http.MethodHead:
		return query.AnyNode
	}
	return query.Leader
}

// answer answers a request, or has the leader answer it.
func (h *Handler) answer(w *response, r *request, rt *route, serve handle) error {
	if h.opt.Cluster == nil {
		return h.admitted(w, r, rt, serve)
	}
	place := rt.placeOf(r.Method)
	if place == query.ThisNode {
		return h.admitted(w, r, rt, serve)
	}
	defer r.releaseForm()
	if answered, err := h.elsewhere(w, r, place, "", nil); answered || err != nil {
		return err
	}
	w.stamp = h.opt.Cluster.Stamp(place == query.Leader)
	err := h.admitted(w, r, rt, serve)
	if isRefusal(err) && w.status == 0 && h.mayForward(r) && r.whole() {
		return h.forward(w, r) // this node may not have the user or the grant yet
	}
	if place != query.Leader && w.status == 0 && !r.forwarded && h.othersMayAnswer(r, err) {
		if h.askOthers(w, r) {
			return nil
		}
		r.alone = true
		err = h.admitted(w, r, rt, serve)
	}
	if err == nil {
		w.WriteHeader(http.StatusOK) // with the position, if the handler has sent nothing
	}
	return err
}

// wholeHeader marks a request that another node cannot answer whole, see Cluster.Ask. A node
// that cannot either fails with a 5xx, also where a document would have the error.
const wholeHeader = "X-Tsdbd-Whole"

// othersMayAnswer reports whether err, by which this node cannot answer a request that only
// reads, is damage that another node may not have. Then err is that of the request.
func (h *Handler) othersMayAnswer(r *request, err error) bool {
	switch {
	case h.opt.Cluster == nil || r.alone:
		return false
	case r.forwarded && r.Header.Get(wholeHeader) == "", !r.forwarded && !r.whole():
		return false
	}
	return errors.As(err, new(*scan.DamageError)) || errors.Is(err, binio.ErrCorrupt)
}

// askOthers has another node answer a request, as of the position of this one or later.
func (h *Handler) askOthers(w *response, r *request) (answered bool) {
	stamp, compress := w.stamp, w.compress
	for _, address := range h.opt.Cluster.Others() {
		err := h.pass(w, r, func(w http.ResponseWriter, out *http.Request) error {
			out.Header.Set(positionHeader, strconv.FormatUint(h.opt.Cluster.Position(), 10))
			return h.opt.Cluster.Ask(address, w, out)
		})
		if err == nil {
			return true
		}
	}
	w.stamp, w.compress = stamp, compress
	return false
}

// admitted answers a request of a user who may use the route.
func (h *Handler) admitted(w *response, r *request, rt *route, serve handle) error {
	if err := h.admit(r, rt); err != nil {
		return err
	}
	w.compress = rt.gzip && encode.AcceptsGzip(r.Header.Values("Accept-Encoding"))
	return serve(w, r)
}

// elsewhere has the leader answer a request that this node may not answer, unless that is
// refused. If the leader need not, or cannot and the answer may be stale, elsewhere returns
// when this node may.
func (h *Handler) elsewhere(w *response, r *request, place query.Place, level string, refusal error) (answered bool, err error) {
	var position uint64
	var behind time.Duration
	forward := place == query.Leader && !h.opt.Cluster.Leads()
	if place == query.AnyNode || place == byRows {
		text := cmp.Or(r.Header.Get(positionHeader), "0")
		if position, err = strconv.ParseUint(text, 10, 64); err != nil {
			return false, badRequest(fmt.Sprintf("invalid %s: %q", positionHeader, text))
		}
		forward, behind, err = h.caughtUp(r, position, level)
		if place == byRows && !h.opt.Cluster.Leads() {
			forward = forward || behind > 0 || !h.opt.Cluster.TakesRows() // its users may be old
		}
	}
	if forward && refusal != nil {
		return false, refusal
	}
	if forward {
		stamp, compress := w.stamp, w.compress
		err = h.forward(w, r)
		if err == nil || place != query.AnyNode || level == strong || r.forwarded || !r.whole() || r.Context().Err() != nil {
			return true, err
		}
		w.stamp, w.compress, level = stamp, compress, stale
		_, behind, err = h.caughtUp(r, position, level)
	}
	switch {
	case err != nil, place != query.AnyNode, behind <= 0 && level != stale:
	case behind == math.MaxInt64:
		w.Header().Set(behindHeader, "unknown")
	default:
		w.Header().Set(behindHeader, strconv.FormatFloat(behind.Seconds(), 'f', 1, 64))
	}
	return false, err
}

// caughtUp is Cluster.Read within the time that a request may wait for a position.
func (h *Handler) caughtUp(r *request, position uint64, level string) (forward bool, behind time.Duration, err error) {
	most := h.limits.Load().PositionWait
	ctx, cancel := context.WithTimeout(r.Context(), most)
	defer cancel()
	forward, behind, err = h.opt.Cluster.Read(ctx, position, level)
	if err != nil && r.Context().Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = &apiError{http.StatusServiceUnavailable, fmt.Sprintf("this node has not caught up within %s: it is at position %d", most, h.opt.Cluster.Position())}
	}
	return forward, behind, unavailable(err)
}

// queryElsewhere is elsewhere for the statements of a query.
func (h *Handler) queryElsewhere(w *response, r *request, q *influxql.Query) (answered bool, err error) {
	var refusal error
	for _, stmt := range q.Statements {
		if _, kills := stmt.(*influxql.KillQueryStatement); kills {
			refusal = errKillElsewhere
		}
	}
	return h.readElsewhere(w, r, query.PlaceOf(q), refusal)
}

// readElsewhere is elsewhere for a request with its form.
func (h *Handler) readElsewhere(w *response, r *request, place query.Place, refusal error) (answered bool, err error) {
	level := r.FormValue("consistency")
	switch {
	case level == strong, level == stale:
	case slices.Contains(consistencies, level):
		level = "" // they are about writes
	default:
		return false, errConsistency
	}
	if answered, err = h.elsewhere(w, r, place, level, refusal); answered || err != nil {
		return answered, err
	}
	if r.user != nil && place == query.AnyNode {
		// The rights may have changed during the wait.
		return false, h.admit(r, h.route(r.path))
	}
	return false, nil
}

// leadershipLost returns the answer to a statement that failed because this node no
// longer leads, or nil. The statement may have been executed or not.
func (h *Handler) leadershipLost(failed error) error {
	if h.opt.Cluster == nil || !point.Temporary(failed) || h.opt.Cluster.Leads() {
		return nil
	}
	return unavailable(failed)
}

// mayForward reports whether the leader is another node that may get a request.
func (h *Handler) mayForward(r *request) bool { return !r.forwarded && !h.opt.Cluster.Leads() }

// whole reports whether the body of a request is there to be sent.
func (r *request) whole() bool { return r.form != nil || r.received.n.Load() == 0 }

// forward has the leader answer a request. The answer has the leader's headers.
func (h *Handler) forward(w *response, r *request) error {
	if r.forwarded || !r.whole() {
		return errNotLeading
	}
	return h.pass(w, r, h.opt.Cluster.Forward)
}

// pass has another node answer a request, to which send sends it.
func (h *Handler) pass(w *response, r *request, send func(http.ResponseWriter, *http.Request) error) error {
	out := r.Request.WithContext(r.Context())
	out.Header = r.Header.Clone()
	own := w.Header()
	out.Header.Set("X-Request-Id", own.Get("X-Request-Id"))
	out.Header.Set(clientHeader, r.RemoteAddr)
	out.Header.Del(wholeHeader) // the client's
	if r.form != nil {          // it is no longer compressed
		out.Header.Del("Content-Encoding")
		lent := body.Lend(r.form.Bytes())
		defer lent.TakeBack()
		out.Body, out.ContentLength, out.TransferEncoding = lent, int64(r.form.Len()), nil
	}
	before := maps.Clone(own)
	clear(own)
	w.stamp, w.compress = nil, false
	err := send(w, out)
	if err == nil {
		return nil
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler) // the client must not take the answer for complete
	}
	clear(own)
	maps.Copy(own, before)
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	return unavailable(err)
}

// unavailable returns the answer 503 with the text of an error.
func unavailable(err error) error {
	var api *apiError
	if err == nil || errors.As(err, &api) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &apiError{http.StatusServiceUnavailable, keepingWords(err.Error())}
}

// isRefusal reports whether an error refuses a user.
func isRefusal(err error) bool {
	if err == nil || errors.As(err, new(browser.Refusal)) {
		return false
	}
	status, _ := classify(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}
