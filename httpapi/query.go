package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/httpapi/encode"
	"tsdbd/httpapi/redact"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/query/syntax"
)

// Querier runs statements.
type Querier interface {
	// Execute runs the statements of q in order and calls emit with their results.
	// A failed statement is a Result with Err. Execute returns an error if emit
	// failed or the context ended.
	Execute(ctx context.Context, q *influxql.Query, opt query.ExecuteOptions, emit func(*result.Result) error) error
	// Statistics returns what the server counts, for /debug/vars.
	Statistics(ctx context.Context) ([]show.Statistic, error)
}

// DefaultMaxQuerySize bounds the text of a query. The parser and the planner
// recurse over expressions, so the text bounds their stack.
const DefaultMaxQuerySize = 1 << 20

// maxParentheses bounds the nesting of the text for the same reason.
const maxParentheses = 10_000

// maxDepth bounds the depth of expression trees. A chain of ORs is as deep as it is
// long. EXPLAIN and SHOW QUERIES print a tree in a time that grows with the square
// of its depth: 10,000 terms take a second or two.
const maxDepth = 10_000

// maxSubqueries bounds the nesting of subqueries.
const maxSubqueries = 100

// defaultChunkSize is the number of rows of a chunk unless the client sets it.
const defaultChunkSize = 10_000

// hintHeader tells why rows are missing although a downsample has them. The body of an answer
// in the form of InfluxDB 1.x says it if hints are asked for.
const hintHeader = "X-Tsdbd-Hint"

// query answers /query.
func (h *Handler) query(w *response, r *request) error {
	regexes := h.opt.Memory.Open(nil, nil)
	defer regexes.Close()
	req, err := h.readQuery(w, r, regexes)
	if err != nil {
		return err
	}
	if !query.OnlyReads(req.query) {
		if err := h.checkPage(r, true); err != nil {
			return err
		}
	}
	if h.opt.Cluster != nil {
		if answered, err := h.queryElsewhere(w, r, req.query); answered || err != nil {
			return err
		}
	}
	if err := r.authorizeQuery(req.query, req.options.Database); err != nil {
		return err
	}
	r.limitToUser(&req.options)
	h.countClient(r, false)
	if r.FormValue("async") == "true" {
		return h.queryAsync(w, req)
	}
	ctx, done := h.follow(w, r, &req.options)
	defer done()
	out := encode.NewOutput(w, outputTo(ctx, w, &req.options))
	defer out.Free()
	enc := encode.New(out, req.format)
	w.Header().Set("Content-Type", req.format.Media)
	limit := encode.RowLimit{Left: h.limits.Load().MaxRowLimit}
	warn := warnings{header: w.Header()}
	req.options.Unused = func(text string) {
		if !out.AnySent() {
			w.Header().Set(hintHeader, headerText(text))
		}
	}
	err = h.opt.Query.Execute(ctx, req.query, req.options, func(res *result.Result) error {
		if lost := h.leadershipLost(res.Err); lost != nil && !out.AnySent() {
			return lost
		}
		if !out.AnySent() && query.OnlyReads(req.query) && h.othersMayAnswer(r, res.Err) {
			return res.Err
		}
		if !req.format.HasMessages() {
			warn.add(res, out.AnySent())
		}
		done, more := false, false
		if limit.Left > 0 && !req.format.Chunked {
			res, done, more = limit.Cut(res)
		}
		if err := enc.Result(res); err != nil {
			return err
		}
		if more {
			enc.Truncate()
		}
		if done {
			return encode.ErrRowLimit
		}
		if !req.format.Chunked {
			return nil
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return out.Wait(http.NewResponseController(w).Flush)
	})
	if err == nil || err == encode.ErrRowLimit {
		err = enc.Finish()
	}
	if err != nil {
		return queryFailed(enc, out, err)
	}
	_ = out.Finish() // the client is gone if this fails
	if !out.AnySent() {
		w.WriteHeader(http.StatusOK) // an empty document has a header too
	}
	return nil
}

// run executes a statement that the Handler itself built.
func (h *Handler) run(ctx context.Context, stmt influxql.Statement, opt query.ExecuteOptions) error {
	var failed error
	err := h.opt.Query.Execute(ctx, &influxql.Query{Statements: influxql.Statements{stmt}}, opt, func(res *result.Result) error {
		failed = errors.Join(failed, res.Err)
		return nil
	})
	return errors.Join(err, failed)
}

// follow ties a query to its client. When the query ends, its write to the client
// ends too. If the client does not read and other queries need the memory, the
// query ends. The caller must call done when the answer is complete.
func (h *Handler) follow(w *response, r *request, opt *query.ExecuteOptions) (ctx context.Context, done func()) {
	ctx, end := context.WithCancelCause(r.Context())
	opt.Interrupt = w.client.Interrupt
	opt.Account = h.opt.Memory.Open(w.client.Waiting, func(cause error) {
		end(cause)
		w.client.Interrupt()
	})
	return ctx, func() {
		opt.Account.Close()
		end(nil)
	}
}

// outputTo returns the options of the output of a query. Other queries work while
// the output waits for its client.
func outputTo(ctx context.Context, w *response, opt *query.ExecuteOptions) encode.Options {
	turn := new(admission.Turn)
	opt.Turn = turn
	return encode.Options{
		Account: opt.Account, Stopped: w.client.Ended, Outside: func(f func() error) error { return turn.Outside(ctx, f) },
		Whole: func(bytes int) {
			if !w.compress {
				w.Header().Set("Content-Length", strconv.Itoa(bytes)) // saves net/http the chunks
			}
		},
	}
}

// queryFailed ends an answer that is not complete, or returns the error that is
// the answer.
func queryFailed(enc encode.Encoder, out *encode.Output, err error) error {
	switch {
	case out.AnySent():
		// It is too late for an error. Cutting the connection shows the client
		// that the answer is not complete.
		panic(http.ErrAbortHandler)
	case (errors.Is(err, encode.ErrTooLarge) || errors.Is(err, admission.ErrMemory)) && enc.Fail(err):
		// The status is 200, as in InfluxDB 1.x for an answer that it cannot encode.
		_ = out.Flush() // the client is gone if this fails
		return nil
	}
	return err
}

// queryAsync starts the statements and answers at once. It logs their errors.
func (h *Handler) queryAsync(w *response, req *queryRequest) error {
	select {
	case h.async <- struct{}{}:
	default:
		return errTooManyAsync
	}
	text := redact.Query(req.text)
	h.background.Go(func() {
		defer func() { <-h.async }()
		defer func() {
			if p := recover(); p != nil {
				h.metrics.panics.Inc()
				h.log.Error("background query panicked", "query", text, "err", p)
			}
		}()
		err := h.opt.Query.Execute(h.ctx, req.query, req.options, func(res *result.Result) error {
			if res.Err != nil {
				h.log.Warn("background query failed", "query", text, "statement", res.StatementID, "err", res.Err)
			}
			return nil
		})
		if err != nil {
			h.log.Warn("background query ended early", "query", text, "err", err)
		}
	})
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// queryRequest is the parsed form of a request.
type queryRequest struct {
	text    string
	query   *influxql.Query
	options query.ExecuteOptions
	format  encode.Format
}

// readQuery reads the parameters from the URL and the form and parses the
// statements. It charges the account for the regular expressions that the parser
// compiles.
func (h *Handler) readQuery(w *response, r *request, regexes *admission.Account) (*queryRequest, error) {
	if err := h.readForm(w, r); err != nil {
		return nil, err
	}
	req := &queryRequest{text: strings.TrimSpace(r.FormValue("q"))}
	req.format = encode.FormatOf(r.Header.Values("Accept"), r.FormValue("chunked") == "true", pretty(r.Request))
	if req.text == "" && r.MultipartForm != nil {
		text, err := multipartQuery(r)
		if err != nil {
			return nil, err
		}
		req.text = text
	}
	if req.text == "" {
		return nil, errMissingQuery
	}
	epoch := strings.TrimSpace(r.FormValue("epoch"))
	if epoch != "" {
		req.format.Unit = encode.EpochUnit(epoch)
	}
	switch r.FormValue("time_format") {
	case "":
	case "epoch":
		if epoch == "" {
			req.format.Unit = encode.EpochUnit("ns")
		}
	case "rfc3339":
		req.format.Unit, req.format.Texts = 0, true
	default:
		return nil, errTimeFormat
	}
	params, err := bindParameters(r.FormValue("params"))
	if err != nil {
		return nil, err
	}
	if req.query, err = h.parse(r.Context(), regexes, req.text, params); err != nil {
		return nil, err
	}
	hints, err := r.flag("hints")
	if err != nil {
		return nil, err
	}
	partial, err := r.flag("partial")
	if err != nil {
		return nil, err
	}
	// One true is enough: a proxy may add it to the URL, whatever the client sends.
	readOnly, err := r.flag("read_only")
	if err != nil {
		return nil, err
	}
	if readOnly {
		if err := refuseChanges(req.query, r.FormValue("db")); err != nil {
			return nil, err
		}
	}
	if req.format.Media == encode.MediaLine {
		if err := query.KeepTags(req.query); err != nil {
			return nil, badRequest(err.Error())
		}
	}
	req.options = query.ExecuteOptions{
		Database:        r.FormValue("db"),
		RetentionPolicy: r.FormValue("rp"),
		Hints:           hints,
		Partial:         partial,
		WarnOfChanges:   r.Method == http.MethodGet,
		Raw:             req.text,
		// Execute rewrites the statements, so Text parses the query again.
		Text: func() string {
			q, err := syntax.Parse(req.text, params)
			if err != nil {
				return ""
			}
			return q.String()
		},
		// An answer that is not chunked is also executed in chunks. The encoder
		// joins them.
		ChunkSize: defaultChunkSize,
	}
	if req.format.Chunked {
		if n, err := strconv.Atoi(r.FormValue("chunk_size")); err == nil && n > 0 {
			req.options.ChunkSize = n
		}
	}
	return req, nil
}

// regexMemory is the memory of compiling a regular expression, as a multiple of the
// size of its program. It includes syntax trees and garbage.
const regexMemory = 3

// parse parses the text. It first charges the account for the regular expressions,
// so that many queries at a time do not compile more of them than memory holds.
func (h *Handler) parse(ctx context.Context, regexes *admission.Account, text string, params map[string]any) (*influxql.Query, error) {
	if len(text) > h.limits.Load().MaxQuerySize {
		return nil, errQueryTooLong
	}
	bytes, err := syntax.CheckRegexes(text, params)
	if err != nil {
		return nil, badRequest("error parsing query: " + err.Error())
	}
	if err := regexes.Hold(ctx, regexMemory*bytes); err != nil {
		return nil, &apiError{http.StatusServiceUnavailable, err.Error()}
	}
	if strings.Count(text, "(") > maxParentheses {
		return nil, errTooManyParentheses
	}
	q, err := syntax.Parse(text, params)
	if err != nil {
		return nil, badRequest("error parsing query: " + err.Error())
	}
	if len(text) < len("(SELECT")*maxSubqueries {
		return q, nil // too short to exceed a bound
	}
	tooDeep := false
	influxql.Walk(depth{tooDeep: &tooDeep}, q)
	if tooDeep {
		return nil, errQueryTooDeep
	}
	return q, nil
}

// depth is an influxql.Visitor that stops at the bounds of nesting.
type depth struct {
	nodes, subqueries int
	tooDeep           *bool
}

// Visit returns the visitor of a node's children.
func (d depth) Visit(n influxql.Node) influxql.Visitor {
	d.nodes++
	if _, ok := n.(*influxql.SubQuery); ok {
		d.subqueries++
	}
	if d.nodes > maxDepth || d.subqueries > maxSubqueries {
		*d.tooDeep = true
	}
	if *d.tooDeep {
		return nil
	}
	if show, ok := n.(*influxql.ShowMeasurementsStatement); ok && show.Condition != nil {
		influxql.Walk(d, show.Condition) // Walk itself skips it
	}
	return d
}
