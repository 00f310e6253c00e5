package server

import (
	"bytes"
	"cmp"
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
	"tsdbd/exchange"
	"tsdbd/httpapi"
	"tsdbd/internal/body"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/store"
)

// A node that does not lead parses what its clients and its inputs write, and passes the
// rows and exemplars on to the leader. Logins are not asked for: the leader answers these
// paths only to nodes, which have shown to each other who they are.
const (
	passedPrefix    = "/passed/v1/"
	passedWrite     = passedPrefix + "write"
	passedExemplars = passedPrefix + "exemplars"
	passedEnsure    = passedPrefix + "ensure"
)

// passedBytes is the size above which a batch is sent, and logged, in parts, so that one
// large request does not keep the others, and heartbeats, waiting. A row can add more than
// that only once.
const passedBytes = 4 << 20

// maxPassedBytes bounds what a node accepts at once.
const maxPassedBytes = 64 << 20

// passedAnswer is what a leader says of a request that another node passes on. The zero
// value is success.
type passedAnswer struct {
	Kind    string `json:"kind,omitempty"` // of an error
	Text    string `json:"error,omitempty"`
	Policy  string `json:"policy,omitempty"` // of a partial write, as Reason and Dropped
	Reason  string `json:"reason,omitempty"`
	Dropped int    `json:"dropped,omitempty"`
	Kept    int    `json:"kept,omitempty"` // exemplars, as Older
	Older   int    `json:"older,omitempty"`

	header http.Header // what the leader's stamp adds
}

// The kinds of errors.
const (
	kindTemporary = "temporary"
	kindDatabase  = "database"
	kindPolicy    = "policy"
	kindPartial   = "partial"
	kindTooLarge  = "too large"
	kindRefused   = "refused" // to try again does not help
)

// refuse describes an error of a write, so that remote returns the same.
func (e *passedAnswer) refuse(err error) {
	var partial *point.PartialWriteError
	e.Kind, e.Text = kindRefused, err.Error()
	switch {
	case errors.As(err, &partial):
		e.Kind, e.Text, e.Policy, e.Dropped = kindPartial, "", partial.RetentionPolicy, partial.Dropped
		e.Reason = partial.Reason[:min(len(partial.Reason), maxAnswer/8)] // JSON takes up to 6 bytes for one
	case errors.Is(err, meta.ErrDatabaseNotFound):
		e.Kind = kindDatabase
	case errors.Is(err, meta.ErrRetentionPolicyNotFound):
		e.Kind = kindPolicy
	case errors.Is(err, body.ErrTooLarge):
		e.Kind = kindTooLarge
	case point.Temporary(err), errors.Is(err, rows.ErrDatabase), errors.Is(err, rows.ErrDamaged), errors.Is(err, rows.ErrVersion),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind = kindTemporary
	}
}

// remote returns the error of a write to db that the leader described, nil for none.
func (e *passedAnswer) remote(db string) error {
	switch e.Kind {
	case "":
		return nil
	case kindPartial:
		return &point.PartialWriteError{Database: db, RetentionPolicy: e.Policy, Reason: e.Reason, Dropped: e.Dropped}
	case kindDatabase:
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, db)
	case kindPolicy:
		if name, ok := strings.CutPrefix(e.Text, meta.ErrRetentionPolicyNotFound.Error()); ok && name != "" {
			return fmt.Errorf("%w%s", meta.ErrRetentionPolicyNotFound, name)
		}
		return meta.ErrRetentionPolicyNotFound
	case kindTooLarge:
		return body.ErrTooLarge
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

// localWriter writes at this node.
type localWriter interface {
	httpapi.Writer
	Ensure(ctx context.Context, db, rp string) error
}

// passer is the writer of clients and of inputs in a cluster. It writes here if this node
// leads, else at the leader.
type passer struct {
	localWriter
	node    passingNode
	catalog func() *meta.Data
	bodies  *body.Budget  // of what goes to the leader and comes from other nodes
	limit   time.Duration // of a request to the leader; 0: none
	only    bool          // it writes here, or not at all
	stamp   http.Header   // gets what the stamp of the leader adds; nil: nobody asks
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
		return p.localWriter.Ensure(ctx, db, rp)
	}
	answer, err := p.pass(ctx, passedEnsure, db, rp, 0, func(dst []byte) []byte { return dst })
	if err != nil {
		return err
	}
	position, err := strconv.ParseUint(answer.header.Get(exchange.PositionHeader), 10, 64)
	if err != nil {
		return &leaderError{"no position in its answer"}
	}
	ctx, cancel := context.WithTimeout(ctx, httpapi.DefaultPositionWait)
	defer cancel()
	behind, _, err := p.node.Read(ctx, position, "")
	if err != nil || behind {
		return &leaderError{fmt.Sprintf("this node has not caught up with it: %v", cmp.Or(err, errors.New("it is too far behind")))}
	}
	return nil
}

// Write implements httpapi.Writer and input.Writer. A batch that goes in several parts is
// durable as a whole when Write returns nil. To write it again writes the same points.
func (p *passer) Write(ctx context.Context, db, rp string, b *point.Batch) error {
	var refused *point.PartialWriteError
	for rest := b.Rows; len(rest) > 0; {
		n, size := rows.Part(b, rest, p.bodies.Share(passedBytes))
		var partial *point.PartialWriteError
		switch err := p.writePart(ctx, db, rp, b, rest[:n], size); {
		case errors.As(err, &partial) && refused == nil:
			refused = partial
		case partial != nil:
			refused.Dropped += partial.Dropped
		case err != nil:
			return err
		}
		rest = rest[n:]
	}
	if refused != nil {
		return refused
	}
	return nil
}

// encoders are reused.
var encoders = sync.Pool{New: func() any { return new(rows.Encoder) }}

func (p *passer) writePart(ctx context.Context, db, rp string, b *point.Batch, part []point.Row, size int) error {
	if p.only || p.node.Leads() {
		local := *b
		local.Rows = part
		defer p.here()()
		return p.localWriter.Write(ctx, db, rp, &local)
	}
	_, err := p.pass(ctx, passedWrite, db, rp, size, func(dst []byte) []byte {
		e := encoders.Get().(*rows.Encoder)
		defer encoders.Put(e)
		return e.Append(dst, b, part)
	})
	return err
}

// WriteExemplars implements httpapi.Writer.
func (p *passer) WriteExemplars(ctx context.Context, db string, list []model.Exemplar) (kept, older int, err error) {
	if p.only || p.node.Leads() {
		defer p.here()()
		return p.localWriter.WriteExemplars(ctx, db, list)
	}
	for len(list) > 0 {
		n, size := rows.ExemplarsPart(list, p.bodies.Share(passedBytes))
		answer, err := p.pass(ctx, passedExemplars, db, "", size, func(dst []byte) []byte { return rows.AppendExemplars(dst, list[:n]) })
		if err != nil {
			return 0, 0, err
		}
		kept, older, list = kept+answer.Kept, older+answer.Older, list[n:]
	}
	return kept, older, nil
}

// here is called before a write at this node. What it returns ends it.
func (p *passer) here() func() {
	add := p.node.Stamp(true)
	return func() {
		if p.stamp != nil {
			add(p.stamp)
		}
	}
}

// pass sends a request to the leader, with a message of at most so many bytes.
func (p *passer) pass(ctx context.Context, path, db, rp string, size int, appendTo func([]byte) []byte) (*passedAnswer, error) {
	message, err := p.bodies.Empty(size)
	if err != nil {
		return nil, roomError(err)
	}
	defer message.Release()
	_, _ = message.Write(appendTo(message.AvailableBuffer())) // in place
	lent := body.Lend(message.Bytes())
	defer lent.TakeBack() // what sends a request may read on after its answer
	params := url.Values{"db": {db}, "rp": {rp}}
	if p.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.limit)
		defer cancel()
		params.Set("within", p.limit.String())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://leader"+path+"?"+params.Encode(), lent)
	if err != nil {
		return nil, err
	}
	if r.ContentLength = int64(message.Len()); message.Len() == 0 {
		r.Body = http.NoBody
	}
	w := &shortAnswer{header: http.Header{}}
	if err := p.node.Forward(w, r); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &leaderError{err.Error()}
	}
	answer := &passedAnswer{header: w.header}
	if w.status != http.StatusNoContent && (json.Unmarshal(w.body.Bytes(), answer) != nil || w.status != http.StatusOK && answer.Kind == "") {
		// A node that starts or stops answers otherwise.
		return nil, &leaderError{fmt.Sprintf("status %d: %s", w.status, strings.TrimSpace(w.body.String()))}
	}
	maps.DeleteFunc(answer.header, func(name string, _ []string) bool { return !strings.HasPrefix(name, "X-Tsdbd-") })
	if p.stamp != nil {
		maps.Copy(p.stamp, answer.header)
	}
	return answer, answer.remote(db)
}

// roomError returns the error for a message that could not be read or has no room. One that
// is larger than all the room stays so.
func roomError(err error) error {
	if errors.Is(err, body.ErrTooLarge) {
		return err
	}
	return stuckError(err.Error())
}

// shortAnswer is a short answer in memory.
type shortAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// maxAnswer bounds the body of an answer.
const maxAnswer = 64 << 10

// Header implements http.ResponseWriter.
func (w *shortAnswer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *shortAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter. It keeps the beginning.
func (w *shortAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body.Write(b[:min(len(b), maxAnswer-w.body.Len())])
	return len(b), nil
}

// passedHandler answers what other nodes pass on to the leader.
type passedHandler struct {
	writer  localWriter
	node    passingNode
	bodies  *body.Budget
	batches sync.Pool
}

// ServeHTTP answers a request of another node.
func (h *passedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var err error
	var answer passedAnswer
	stamp := h.node.Stamp(true)
	params := r.URL.Query()
	db, rp := params.Get("db"), params.Get("rp")
	if within, err := time.ParseDuration(params.Get("within")); err == nil {
		// The store refuses what it has not begun to log by then: the client may have
		// repeated it, and written newer points.
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		r = r.WithContext(ctx)
	}
	switch {
	case !h.node.Leads():
		err = store.ErrNotLeader
	case r.URL.Path == passedWrite:
		err = h.write(w, r, db, rp)
	case r.URL.Path == passedExemplars:
		answer.Kept, answer.Older, err = h.writeExemplars(w, r, db)
	case r.URL.Path == passedEnsure:
		err = h.writer.Ensure(r.Context(), db, rp)
	default:
		err = stuckError(r.URL.Path + " is unknown: are the nodes of the same version?")
	}
	stamp(w.Header())
	status := http.StatusOK
	if err != nil {
		answer.refuse(err)
		status = http.StatusServiceUnavailable
	} else if answer.Kept == 0 && answer.Older == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&answer) // the node is gone if this fails
}

// write writes the rows of a request.
func (h *passedHandler) write(w http.ResponseWriter, r *http.Request, db, rp string) (failed error) {
	message, err := h.bodies.Read(w, r, maxPassedBytes)
	if err != nil {
		return roomError(err)
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
		return roomError(err)
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
	return h.writer.Write(r.Context(), db, rp, batch)
}

// writeExemplars writes the exemplars of a request.
func (h *passedHandler) writeExemplars(w http.ResponseWriter, r *http.Request, db string) (kept, older int, failed error) {
	message, err := h.bodies.Read(w, r, maxPassedBytes)
	if err != nil {
		return 0, 0, roomError(err)
	}
	defer func() { point.WhenEnded(failed, message.Release) }()
	m, err := rows.OpenExemplars(message.Bytes())
	if err != nil {
		return 0, 0, err
	}
	if err := message.Charge(m.Bytes()); err != nil {
		return 0, 0, roomError(err)
	}
	list, err := m.Exemplars()
	if err != nil {
		return 0, 0, err
	}
	return h.writer.WriteExemplars(r.Context(), db, list)
}
