package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/body"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom/metadata"
	"tsdbd/query"
)

// maxErrorBytes bounds the lines that an error quotes, so that a body of bad lines
// does not come back as a whole.
const maxErrorBytes = 64 << 10

// maxPooledBatch is the largest batch, in values, that goes back to the pool.
const maxPooledBatch = 1 << 20

// parseState has the buffers of a write. They are pooled.
type parseState struct {
	parser lineproto.Parser
	batch  point.Batch
	// body is kept until the batch is written. The batch takes about as much
	// memory, so the bound of bodies bounds batches too (W9).
	body *body.Body
}

// release releases the body and puts s into the pool, unless s is too large.
func (s *parseState) release() {
	if s.body != nil {
		s.body.Release()
		s.body = nil
	}
	if cap(s.batch.Values) <= maxPooledBatch {
		s.batch.Reset()
		parseStates.Put(s)
	}
}

var parseStates = sync.Pool{New: func() any { return new(parseState) }}

// writeV1 answers /write.
func (h *Handler) writeV1(w *response, r *request) error {
	q := r.URL.Query()
	unit, err := lineproto.Unit(q.Get("precision"), false)
	if err != nil {
		return badRequest(err.Error())
	}
	if q.Get("db") == "" {
		return errDatabaseRequired
	}
	return h.write(w, r, target{db: q.Get("db"), rp: q.Get("rp"), unit: unit, consistency: q.Get("consistency"), parse: h.parseLines})
}

// writeV2 answers /api/v2/write. The bucket names the database and the policy.
func (h *Handler) writeV2(w *response, r *request) error {
	q := r.URL.Query()
	unit, err := lineproto.Unit(q.Get("precision"), true)
	if err != nil {
		return badRequest(err.Error())
	}
	db, rp, err := splitBucket(q.Get("bucket"))
	if err != nil {
		return err
	}
	return h.write(w, r, target{db: db, rp: rp, unit: unit, parse: h.parseLines})
}

// splitBucket splits "db/rp", "db/" or "db".
func splitBucket(bucket string) (db, rp string, err error) {
	if bucket == "" {
		return "", "", &apiError{http.StatusNotFound, `bucket name "" is missing a slash; not in "database/retention-policy" format`}
	}
	db, rp, _ = strings.Cut(bucket, "/")
	if db == "" {
		return "", "", &apiError{http.StatusNotFound, fmt.Sprintf("bucket name %q is in db/rp form but has an empty database", bucket)}
	}
	return db, rp, nil
}

// consistencies are the values of a parameter that has no effect.
var consistencies = []string{"", "any", "one", "quorum", "all"}

// target is the destination of a body, and the parser for it.
type target struct {
	db, rp      string
	unit        int64 // of the time of points that have none; 0: all have one
	consistency string
	create      bool // the database, if it does not exist
	// parse reads the body into the batch of a parseState.
	parse func(w *response, r *request, t *target, table *point.Table, s *parseState) (parsed, error)
	// done is called when all is durable that left does not count. refused is the
	// error that says so, or nil. done returns the error that is the answer, or nil
	// for a 204, if it does not answer itself. nil: done returns refused.
	done func(w *response, left parsed, refused error) error
}

// parsed reports what a parser left out of a batch, and why, and what it found that
// is not points.
type parsed struct {
	dropped int    // points that cannot be stored
	reason  string // of the first
	bad     error  // lines that do not parse, nil if none
	lines   int    // of bad
	// metadata is written after the batch. Its texts may be parts of the body.
	metadata []metadata.Entry
	// exemplars are kept after the batch. Some are not, for they are older than those of
	// their series or for other reasons.
	exemplars   []model.Exemplar
	kept, older int
}

// nothing reports whether there is nothing to write and nothing to say.
func (p *parsed) nothing() bool {
	return p.dropped == 0 && p.reason == "" && p.bad == nil && len(p.metadata)+len(p.exemplars) == 0
}

// droppedHeader is the number of points and lines of a write that were not stored.
// The text of the error quotes only some of them.
const droppedHeader = "X-Tsdbd-Dropped"

// write stores a body. The order of the checks is InfluxDB's, because clients see
// the first one that fails.
func (h *Handler) write(w *response, r *request, t target) error {
	release, err := h.writes.Load().Enter(r.Context())
	if err != nil {
		h.metrics.refused.Inc()
		return err
	}
	defer release()
	h.metrics.writing.Inc()
	defer h.metrics.writing.Dec()
	if err := h.store(w, r, &t); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// store reads, parses and writes a body. All of it is durable when store returns nil.
func (h *Handler) store(w *response, r *request, t *target) (failed error) {
	if err := r.authorize(meta.WritePrivilege, "write to", t.db); err != nil {
		return err // before a user can learn whether the database exists
	}
	table, rp, unknown, err := h.destination(r, t)
	switch {
	case h.opt.Cluster != nil && !h.opt.Cluster.Leads() && (err != nil || unknown != nil || r.forwarded):
		return h.forward(w, r) // this node may not have them yet, or no room for them
	case err != nil:
		return databaseError(err, t.db)
	}
	h.countClient(r, true)
	s := parseStates.Get().(*parseState)
	defer func() { point.WhenEnded(failed, s.release) }()
	s.batch.Reset()
	s.batch.Untimed = t.unit
	left, err := t.parse(w, r, t, table, s)
	if err != nil {
		return err
	}
	points := len(s.batch.Rows)
	if points == 0 && left.nothing() {
		return t.finish(w, left, nil) // only comments and blanks
	}
	if unknown != nil {
		return policyError(unknown, t)
	}
	to := h.opt.Writer
	if h.opt.Cluster != nil {
		w.leader = http.Header{}
		to = h.opt.Cluster.Writer(w.leader, r.forwarded)
	}
	if points > 0 {
		reason, dropped, err := writeBatch(r.Context(), to, t, &s.batch) // the leader knows the default policy best
		if err != nil {
			h.metrics.failed.Add(float64(points))
			return policyError(err, t)
		}
		h.metrics.points.Add(int64(points - dropped))
		if dropped == 0 { // otherwise the number of stored values is unknown
			h.metrics.values.Add(float64(len(s.batch.Values)))
		}
		left.dropped += dropped
		if reason != "" {
			left.reason = reason
		}
	}
	if len(left.metadata) > 0 {
		reason, err := h.writeMetadata(r.Context(), to, t, rp, table, left.metadata, &s.batch)
		if err != nil {
			return policyError(err, t)
		}
		left.reason = cmp.Or(left.reason, reason)
	}
	if len(left.exemplars) > 0 {
		if left.kept, left.older, err = to.WriteExemplars(r.Context(), t.db, left.exemplars); err != nil {
			return policyError(err, t)
		}
	}
	return t.finish(w, left, h.partial(w, t, rp, left))
}

// finish calls done.
func (t *target) finish(w *response, left parsed, refused error) error {
	if t.done == nil {
		return refused
	}
	return t.done(w, left, refused)
}

// destination returns the table of the database, which is created if it may be, and the name
// of the policy, or why that is unknown.
func (h *Handler) destination(r *request, t *target) (table *point.Table, rp string, unknown, err error) {
	table, err = h.opt.Writer.Table(t.db)
	if t.create && errors.Is(err, meta.ErrDatabaseNotFound) && (h.opt.Cluster == nil || h.opt.Cluster.Leads()) {
		if err = h.run(r.Context(), &influxql.CreateDatabaseStatement{Name: t.db, RetentionPolicyCreate: true}, query.ExecuteOptions{User: r.userName()}); err == nil {
			table, err = h.opt.Writer.Table(t.db)
		}
	}
	rp, unknown = h.opt.Writer.RetentionPolicy(t.db, t.rp)
	return table, rp, unknown, err
}

// parseLines reads line protocol into a batch.
func (h *Handler) parseLines(w *response, r *request, t *target, table *point.Table, s *parseState) (parsed, error) {
	var err error
	if s.body, err = h.readBody(w, r); err != nil || s.body.Len() == 0 {
		return parsed{}, err
	}
	points, err := s.parser.Parse(&s.batch, table, s.body.Bytes(), lineproto.Options{Unit: t.unit, Now: point.NoTime, MaxErrorBytes: maxErrorBytes})
	var bad *lineproto.Errors
	if err != nil && !errors.As(err, &bad) {
		return parsed{}, err
	}
	var left parsed
	if bad != nil {
		left.dropped, left.reason = bad.Refused, bad.RefusedReason
	}
	if bad != nil && bad.BadLines > 0 {
		h.metrics.parseErrors.Inc()
		if points == 0 && bad.Refused == 0 {
			w.Header().Set(droppedHeader, strconv.Itoa(bad.BadLines))
			return parsed{}, badRequest(bad.Error())
		}
		left.bad, left.lines = bad, bad.BadLines
	}
	if !slices.Contains(consistencies, strings.ToLower(t.consistency)) {
		return parsed{}, errConsistency
	}
	return left, nil
}

// writeBatch writes a batch. Points that the Writer refuses are not an error.
func writeBatch(ctx context.Context, to Writer, t *target, batch *point.Batch) (reason string, dropped int, err error) {
	err = to.Write(ctx, t.db, t.rp, batch)
	if reason, dropped, ok := point.Partial(err); ok {
		return reason, dropped, nil
	}
	return "", 0, err
}

// writeMetadata writes the entries that were not written within this hour. It returns
// the reason why some of them cannot be stored.
func (h *Handler) writeMetadata(ctx context.Context, to Writer, t *target, rp string, table *point.Table, entries []metadata.Entry, batch *point.Batch) (reason string, err error) {
	now := time.Now()
	entries = h.metadata.Fresh(entries, table.Database(), rp, now)
	batch.Reset()
	batch.Untimed = point.FromNow
	b := point.NewBuilder(table, batch)
	for i := range entries {
		if err := metadata.Append(b, &entries[i], int64(i)); err != nil && reason == "" {
			reason = err.Error()
		}
	}
	if len(batch.Rows) == 0 {
		return reason, nil
	}
	refused, dropped, err := writeBatch(ctx, to, t, batch)
	if err != nil {
		return "", err
	}
	h.metrics.dropped.Add(float64(dropped))
	h.metadata.Written(entries, table.Database(), rp, now)
	return cmp.Or(reason, refused), nil
}

// partial returns the error for the points and lines of a durable write that were
// left out, or nil. The error has one reason: refused points come before lines that
// do not parse.
func (h *Handler) partial(w *response, t *target, rp string, left parsed) error {
	if left.reason != "" || left.bad != nil {
		w.Header().Set(droppedHeader, strconv.Itoa(left.dropped+left.lines))
	}
	h.metrics.dropped.Add(float64(left.dropped))
	switch {
	case left.reason != "":
		return badRequest((&point.PartialWriteError{Reason: left.reason, Dropped: left.dropped, Database: t.db, RetentionPolicy: rp}).Error())
	case left.bad != nil:
		// Without a policy in the request the text names none, as in InfluxDB.
		return badRequest((&point.PartialWriteError{Reason: left.bad.Error(), Database: t.db, RetentionPolicy: t.rp}).Error())
	}
	return nil
}

// databaseError names an unknown database as 1.x does.
func databaseError(err error, db string) error {
	if errors.Is(err, meta.ErrDatabaseNotFound) {
		return &apiError{http.StatusNotFound, fmt.Sprintf("database not found: %q", db)}
	}
	return err
}

// policyError names an unknown policy as 1.x does.
func policyError(err error, t *target) error {
	switch {
	case t.create && errors.Is(err, meta.ErrDatabaseNotFound):
		return errDropped
	case err == meta.ErrRetentionPolicyNotFound: // else it is the default policy, whose name only the store knows
		return fmt.Errorf("%w: %s", meta.ErrRetentionPolicyNotFound, t.rp)
	}
	return databaseError(err, t.db)
}
