package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tsdbd/httpapi"
	"tsdbd/internal/body"
	"tsdbd/lineproto"
	"tsdbd/lineproto/wire"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/services/input"
	"tsdbd/store"
	"tsdbd/transfer"
)

// Inputs listen on every node. A node that does not lead passes what they receive on to
// the leader, as line protocol. Logins are not asked for: the leader answers these
// paths only to nodes, which have shown to each other who they are.
const (
	passedPrefix = "/input/v1/"
	passedWrite  = passedPrefix + "write"
	passedEnsure = passedPrefix + "ensure"
)

// passedBytes is the size at which the lines of a batch are sent. A row can add more
// than that only once.
const passedBytes = 4 << 20

// maxPassedBytes bounds what a node accepts at once.
const maxPassedBytes = 64 << 20

// passedError is how a leader refuses what another node passes on.
type passedError struct {
	Kind    string `json:"kind"`
	Text    string `json:"error"`
	Policy  string `json:"policy,omitempty"` // of a partial write, as Reason and Dropped
	Reason  string `json:"reason,omitempty"`
	Dropped int    `json:"dropped,omitempty"`
}

// The kinds of a passedError.
const (
	kindTemporary = "temporary"
	kindDatabase  = "database"
	kindPolicy    = "policy"
	kindPartial   = "partial"
	kindRefused   = "refused" // to try again does not help
)

// newPassedError describes an error of a write, so that remote returns the same.
func newPassedError(err error) *passedError {
	var partial *point.PartialWriteError
	e := &passedError{Kind: kindRefused, Text: err.Error()}
	switch {
	case errors.As(err, &partial):
		e.Kind, e.Policy, e.Reason, e.Dropped = kindPartial, partial.RetentionPolicy, partial.Reason, partial.Dropped
	case errors.Is(err, meta.ErrDatabaseNotFound):
		e.Kind = kindDatabase
	case errors.Is(err, meta.ErrRetentionPolicyNotFound):
		e.Kind = kindPolicy
	case point.Temporary(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind = kindTemporary
	}
	return e
}

// remote returns the error of a write to db that the leader described.
func (e *passedError) remote(db string) error {
	switch e.Kind {
	case kindPartial:
		return &point.PartialWriteError{Database: db, RetentionPolicy: e.Policy, Reason: e.Reason, Dropped: e.Dropped}
	case kindDatabase:
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, db)
	case kindPolicy:
		return fmt.Errorf("%w (the leader: %s)", meta.ErrRetentionPolicyNotFound, e.Text)
	case kindTemporary:
		return &leaderError{e.Text}
	}
	return errors.New(e.Text)
}

// leaderError is an error of the leader, or on the way to it, that goes away by itself.
type leaderError struct{ text string }

func (e *leaderError) Error() string { return "leader of the cluster: " + e.text }

// Temporary reports that to try again may help.
func (*leaderError) Temporary() bool { return true }

// passer is the writer of inputs in a cluster. It writes here if this node leads, else
// at the leader.
type passer struct {
	input.Writer // here
	node         httpapi.Cluster
	catalog      func() *meta.Data
}

// Ensure implements input.Writer. When it returns, this node knows what it asked for.
func (p *passer) Ensure(ctx context.Context, db, rp string) error {
	if d := p.catalog().Database(db); d != nil && (rp == "" || d.RetentionPolicy(rp) != nil) {
		return nil
	}
	if p.node.Leads() {
		return p.Writer.Ensure(ctx, db, rp)
	}
	head, err := p.pass(ctx, passedEnsure, db, rp, nil)
	if err != nil {
		return err
	}
	position, err := strconv.ParseUint(head.Get(transfer.PositionHeader), 10, 64)
	if err != nil {
		return &leaderError{"no position in its answer"}
	}
	ctx, cancel := context.WithTimeout(ctx, httpapi.DefaultPositionWait)
	defer cancel()
	if _, _, err := p.node.Read(ctx, position, ""); err != nil {
		return &leaderError{fmt.Sprintf("this node has not caught up with it: %v", err)}
	}
	return nil
}

// Write implements input.Writer. A batch that is sent in several parts is durable as a
// whole when Write returns nil. To write it again writes the same points.
func (p *passer) Write(ctx context.Context, db, rp string, b *point.Batch) error {
	if p.node.Leads() {
		return p.Writer.Write(ctx, db, rp, b)
	}
	var refused *point.PartialWriteError
	var lines []byte
	var e wire.Encoder
	for i := range b.Rows {
		lines = e.AppendRow(lines, b, &b.Rows[i])
		if len(lines) < passedBytes && i < len(b.Rows)-1 {
			continue
		}
		_, err := p.pass(ctx, passedWrite, db, rp, lines)
		var partial *point.PartialWriteError
		switch {
		case errors.As(err, &partial) && refused == nil:
			refused = partial
		case partial != nil:
			refused.Dropped += partial.Dropped
		case err != nil:
			return err
		}
		lines = lines[:0]
	}
	if refused != nil {
		return refused
	}
	return nil
}

// pass sends a request to the leader and returns the header of its answer.
func (p *passer) pass(ctx context.Context, path, db, rp string, lines []byte) (http.Header, error) {
	params := url.Values{"db": {db}, "rp": {rp}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://leader"+path+"?"+params.Encode(), bytes.NewReader(lines))
	if err != nil {
		return nil, err
	}
	w := &passedAnswer{header: http.Header{}}
	if err := p.node.Forward(w, r); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &leaderError{err.Error()}
	}
	if w.status == http.StatusNoContent {
		return w.header, nil
	}
	refusal := new(passedError)
	if json.Unmarshal(w.body.Bytes(), refusal) != nil || refusal.Kind == "" {
		// A node that starts or stops answers otherwise.
		return nil, &leaderError{fmt.Sprintf("status %d: %s", w.status, strings.TrimSpace(w.body.String()))}
	}
	return nil, refusal.remote(db)
}

// passedAnswer is a short answer in memory.
type passedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// maxAnswer bounds the body of an answer.
const maxAnswer = 64 << 10

// Header implements http.ResponseWriter.
func (w *passedAnswer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *passedAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter. It keeps the beginning.
func (w *passedAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body.Write(b[:min(len(b), maxAnswer-w.body.Len())])
	return len(b), nil
}

// passedHandler answers what the inputs of other nodes pass on to the leader.
type passedHandler struct {
	writer input.Writer
	node   httpapi.Cluster
	bodies body.Budget
}

func newPassedHandler(w input.Writer, node httpapi.Cluster, memory int64) *passedHandler {
	h := &passedHandler{writer: w, node: node}
	h.bodies.SetLimit(memory)
	return h
}

// ServeHTTP answers a request of another node.
func (h *passedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	db, rp := r.URL.Query().Get("db"), r.URL.Query().Get("rp")
	switch {
	case !h.node.Leads():
		err = store.ErrNotLeader
	case r.URL.Path == passedWrite:
		err = h.write(w, r, db, rp)
	case r.URL.Path == passedEnsure:
		err = h.writer.Ensure(r.Context(), db, rp)
	default:
		err = fmt.Errorf("%s is unknown: are the nodes of the same version?", r.URL.Path)
	}
	if err == nil {
		w.Header().Set(transfer.PositionHeader, strconv.FormatUint(h.node.Position(), 10))
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(newPassedError(err)) // the node is gone if this fails
}

// write writes the lines of a request.
func (h *passedHandler) write(w http.ResponseWriter, r *http.Request, db, rp string) error {
	lines, err := h.bodies.Read(w, r, maxPassedBytes)
	if err != nil {
		return &leaderError{err.Error()}
	}
	defer lines.Release()
	table, err := h.writer.Table(db)
	if err != nil {
		return err
	}
	var batch point.Batch
	var parser lineproto.Parser
	refused := point.PartialWriteError{Database: db, RetentionPolicy: rp}
	_, err = parser.Parse(&batch, table, lines.Bytes(), lineproto.Options{Unit: 1, Now: time.Now().UnixNano(), MaxErrorBytes: 1 << 10})
	var bad *lineproto.Errors
	switch {
	case errors.As(err, &bad):
		refused.Reason, refused.Dropped = bad.Error(), bad.BadLines+bad.Refused
	case err != nil:
		return err
	}
	err = h.writer.Write(r.Context(), db, rp, &batch)
	var partial *point.PartialWriteError
	switch {
	case errors.As(err, &partial):
		refused.Reason, refused.RetentionPolicy = partial.Reason, partial.RetentionPolicy
		refused.Dropped += partial.Dropped
	case err != nil:
		return err
	}
	if refused.Dropped > 0 {
		return &refused
	}
	return nil
}
