package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"tsdbd/cluster/rows"
	"tsdbd/httpapi"
	"tsdbd/internal/body"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/services/input"
	"tsdbd/store"
	"tsdbd/transfer"
)

// A node that does not lead parses what its clients and its inputs write, and passes the
// rows on to the leader. Logins are not asked for: the leader answers these paths only to
// nodes, which have shown to each other who they are.
const (
	passedPrefix = "/passed/v1/"
	passedWrite  = passedPrefix + "write"
	passedEnsure = passedPrefix + "ensure"
)

// passedBytes is the size above which a batch is sent, and logged, in parts, so that one
// large request does not keep the others, and heartbeats, waiting. A row can add more than
// that only once.
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
	case point.Temporary(err), errors.Is(err, rows.ErrDatabase), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
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

// passer is the writer of clients and of inputs in a cluster. It writes here if this node
// leads, else at the leader.
type passer struct {
	input.Writer // here
	node         passingNode
	catalog      func() *meta.Data
}

// passingNode is what a passer needs of its node.
type passingNode interface {
	Leads() bool
	Stamp(leader bool) func(http.Header)
	Read(ctx context.Context, position uint64, consistency string) (forward bool, behind time.Duration, err error)
	Forward(w http.ResponseWriter, r *http.Request) error
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

// Write implements input.Writer. A batch that goes in several parts is durable as a whole
// when Write returns nil. To write it again writes the same points.
func (p *passer) Write(ctx context.Context, db, rp string, b *point.Batch) error {
	_, err := p.writeAt(ctx, db, rp, b)
	return err
}

// writeAt is Write. It returns what the leader says of the last part.
func (p *passer) writeAt(ctx context.Context, db, rp string, b *point.Batch) (stamp http.Header, err error) {
	var refused *point.PartialWriteError
	for rest := b.Rows; len(rest) > 0; {
		n := partOf(b, rest)
		var partial *point.PartialWriteError
		switch stamp, err = p.writePart(ctx, db, rp, b, rest[:n]); {
		case errors.As(err, &partial) && refused == nil:
			refused = partial
		case partial != nil:
			refused.Dropped += partial.Dropped
		case err != nil:
			return stamp, err
		}
		rest = rest[n:]
	}
	if refused != nil {
		return stamp, refused
	}
	return stamp, nil
}

// partOf returns how many of the rows go together.
func partOf(b *point.Batch, list []point.Row) int {
	bytes := 0
	for i := range list {
		r := &list[i]
		bytes += rowBytes + r.Series.KeyLength() + 8*len(r.Layout.Fields)
		if len(b.Strings) > 0 {
			for j, f := range r.Layout.Fields {
				if f.Type == model.String {
					bytes += len(column.StringAt(b.Values[int(r.First)+j], b.Strings))
				}
			}
		}
		if bytes >= passedBytes {
			return i + 1
		}
	}
	return len(list)
}

// rowBytes is about what a row takes in memory beside its values.
const rowBytes = 32

// encoders are reused. What they append to is not: a request may read on after its answer.
var encoders = sync.Pool{New: func() any { return new(rows.Encoder) }}

func (p *passer) writePart(ctx context.Context, db, rp string, b *point.Batch, part []point.Row) (stamp http.Header, err error) {
	if p.node.Leads() {
		local := *b
		local.Rows = part
		local.GiveTime(time.Now().UnixNano())
		add, stamp := p.node.Stamp(true), http.Header{}
		err := p.Writer.Write(ctx, db, rp, &local)
		add(stamp)
		return stamp, err
	}
	e := encoders.Get().(*rows.Encoder)
	message := e.Append(nil, b, part)
	encoders.Put(e)
	return p.pass(ctx, passedWrite, db, rp, message)
}

// pass sends a request to the leader and returns the stamp of its answer.
func (p *passer) pass(ctx context.Context, path, db, rp string, message []byte) (http.Header, error) {
	params := url.Values{"db": {db}, "rp": {rp}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://leader"+path+"?"+params.Encode(), bytes.NewReader(message))
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
	maps.DeleteFunc(w.header, func(name string, _ []string) bool { return !strings.HasPrefix(name, "X-Tsdbd-") })
	if w.status == http.StatusNoContent {
		return w.header, nil
	}
	refusal := new(passedError)
	if json.Unmarshal(w.body.Bytes(), refusal) != nil || refusal.Kind == "" {
		// A node that starts or stops answers otherwise.
		return nil, &leaderError{fmt.Sprintf("status %d: %s", w.status, strings.TrimSpace(w.body.String()))}
	}
	return w.header, refusal.remote(db)
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

// passedHandler answers what other nodes pass on to the leader.
type passedHandler struct {
	writer  input.Writer
	node    passingNode
	bodies  body.Budget
	batches sync.Pool
}

func newPassedHandler(w input.Writer, node passingNode, memory int64) *passedHandler {
	h := &passedHandler{writer: w, node: node}
	h.bodies.SetLimit(memory)
	return h
}

// ServeHTTP answers a request of another node.
func (h *passedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	stamp := h.node.Stamp(true)
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
	stamp(w.Header())
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(newPassedError(err)) // the node is gone if this fails
}

// write writes the rows of a request.
func (h *passedHandler) write(w http.ResponseWriter, r *http.Request, db, rp string) (failed error) {
	message, err := h.bodies.Read(w, r, maxPassedBytes)
	if err != nil {
		return &leaderError{err.Error()}
	}
	defer func() { point.WhenEnded(failed, message.Release) }()
	table, err := h.writer.Table(db)
	if err != nil {
		return err
	}
	m, err := rows.Open(message.Bytes())
	if err != nil {
		return err
	}
	if err := message.Charge(m.Bytes()); err != nil {
		return &leaderError{err.Error()}
	}
	batch, _ := h.batches.Get().(*point.Batch)
	if batch == nil {
		batch = new(point.Batch)
	}
	defer func() {
		point.WhenEnded(failed, func() {
			if cap(batch.Values) <= passedBytes/8 {
				batch.Reset()
				h.batches.Put(batch)
			}
		})
	}()
	if err := m.Decode(table, batch); err != nil {
		return err
	}
	batch.GiveTime(time.Now().UnixNano())
	return h.writer.Write(r.Context(), db, rp, batch)
}
