package backup

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/inspect"
	"tsdbd/internal/object"
	"tsdbd/internal/version"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/shard"
	"tsdbd/shard/manifest"
	"tsdbd/shard/tails"
	"tsdbd/store"
)

// Store is what a Handler needs of the server's store.
type Store interface {
	exchange.Source
	exchange.Catalog
	Backup(ctx context.Context, want func(*meta.Database, *meta.RetentionPolicy, *meta.ShardGroup, uint64) bool) (*store.BackupSet, error)
}

// HandlerOptions adjust a Handler. The zero value works.
type HandlerOptions struct {
	Dir    string // the server's data directory
	FS     vfs.FS // default vfs.OS
	Logger *slog.Logger
	// Authorize decides about each request; nil lets all pass. Its error's text
	// is the answer, with status 401.
	Authorize func(r *http.Request) error
	// Cold is the cold store of the server, nil if it has none.
	Cold object.Store
	// Idle is how long a session lives without a request; default 10 min.
	Idle time.Duration
}

// maxSessions bounds the backups that are taken at a time: each holds files.
const maxSessions = 16

// pieceBytes is the size of the pieces of a series log. The log only grows, so
// that all full pieces but the last few are in the backup before.
const pieceBytes = 4 << 20

// maxDefinitions bounds the definitions in one request.
const maxDefinitions = 64 << 20

// Handler answers backup, export and verify requests of a running server:
//
//	POST   /api/tsdbd/backup?db&rp&shard&start&end   begin; answers a Manifest
//	POST   /api/tsdbd/backup?whole=true              begin, for a copy that follows the log
//	GET    /api/tsdbd/backup?session&object          an object, by ranges if asked
//	GET    /api/tsdbd/backup?session                 keeps the session
//	DELETE /api/tsdbd/backup?session                 end
//	GET    /api/tsdbd/export?db&rp&shard&measurement&start&end&gzip&lponly
//	POST   /api/tsdbd/verify                         an inspect.VerifyReport
//	POST   /api/tsdbd/define                         Definitions; answers Defined
type Handler struct {
	store Store
	opt   HandlerOptions
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
}

// session is a backup being taken: files held, and where their objects are.
type session struct {
	set     *store.BackupSet
	objects map[string]place
	used    time.Time
	busy    int // requests
	ended   bool
}

// place is where an object is: a file of its own, or a piece of an open one.
type place struct {
	path   string
	file   vfs.File
	offset int64
	size   int64
	cold   bool // it is in the cold store
}

// NewHandler returns a handler over a store. Close ends its sessions and must
// come before the store's Close.
func NewHandler(st Store, opt HandlerOptions) *Handler {
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Idle <= 0 {
		opt.Idle = 10 * time.Minute
	}
	h := &Handler{store: st, opt: opt, sessions: map[string]*session{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.wg.Go(h.expire)
	return h
}

// Close ends all sessions and what is under way.
func (h *Handler) Close() {
	h.stop()
	h.wg.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for id, s := range h.sessions {
		h.endLocked(id, s)
	}
}

// expire ends sessions whose clients have gone silent.
func (h *Handler) expire() {
	tick := time.NewTicker(max(h.opt.Idle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case now := <-tick.C:
			h.expireAt(now)
		}
	}
}

func (h *Handler) expireAt(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, s := range h.sessions {
		if s.busy == 0 && now.Sub(s.used) > h.opt.Idle {
			h.opt.Logger.Warn("backup given up, its client is silent", "session", id)
			h.endLocked(id, s)
		}
	}
}

// endLocked takes a session off the list; its files go with its last request.
func (h *Handler) endLocked(id string, s *session) {
	delete(h.sessions, id)
	s.ended = true
	if s.busy == 0 {
		s.set.Release()
	}
}

func (h *Handler) acquire(id string) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[id]
	if s != nil {
		s.busy++
	}
	return s
}

func (h *Handler) release(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy--
	s.used = time.Now()
	if s.ended && s.busy == 0 {
		s.set.Release()
	}
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.opt.Authorize != nil {
		if err := h.opt.Authorize(r); err != nil {
			fail(w, http.StatusUnauthorized, err)
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	r = r.WithContext(ctx)
	switch r.Method + " " + path.Base(r.URL.Path) {
	case "POST backup":
		h.begin(w, r)
	case "GET backup":
		h.object(w, r)
	case "DELETE backup":
		h.end(w, r)
	case "GET export":
		h.export(w, r)
	case "POST verify":
		h.verify(w, r)
	case "POST define":
		h.define(w, r)
	default:
		fail(w, http.StatusNotFound, errors.New("no such endpoint"))
	}
}

func fail(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// statusOf returns the status of an error.
func statusOf(err error) int {
	var temp interface{ Temporary() bool }
	switch {
	case errors.Is(err, meta.ErrDatabaseNotFound), errors.Is(err, meta.ErrRetentionPolicyNotFound), errors.Is(err, meta.ErrShardNotFound):
		return http.StatusNotFound
	case errors.As(err, &temp) && temp.Temporary():
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// statusOfFilter returns the status of an error of Filter.Check.
func statusOfFilter(err error) int {
	if status := statusOf(err); status == http.StatusNotFound {
		return status
	}
	return http.StatusBadRequest
}

// begin makes a session.
func (h *Handler) begin(w http.ResponseWriter, r *http.Request) {
	f, err := exchange.ParseFilter(r.URL.Query())
	if err == nil && len(f.Measurements) > 0 {
		err = errors.New("a backup is of whole files, it cannot choose measurements")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	if err := f.Check(h.store.Catalog()); err != nil {
		fail(w, statusOfFilter(err), err)
		return
	}
	h.mu.Lock()
	full := len(h.sessions) >= maxSessions || h.closed
	h.mu.Unlock()
	if full {
		fail(w, http.StatusServiceUnavailable, errors.New("too many backups at a time"))
		return
	}
	start := time.Now()
	want, whole := f.WantsShard, r.URL.Query().Get("whole") == "true"
	if whole {
		want = nil // fails if a database does not open, even one without shards
	}
	set, err := h.store.Backup(r.Context(), want)
	if err == nil && !whole {
		if err = f.CheckWhole(h.store, set.Catalog); err != nil {
			set.Release()
		}
	}
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	s := &session{set: set, objects: map[string]place{}, used: time.Now()}
	m, err := describe(&f, set, s.objects, whole, false)
	if err != nil {
		set.Release()
		fail(w, statusOf(err), err)
		return
	}
	m.Session = rand.Text()
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		set.Release()
		fail(w, http.StatusServiceUnavailable, errors.New("server is shutting down"))
		return
	}
	h.sessions[m.Session] = s
	h.mu.Unlock()
	h.opt.Logger.Info("backup begins", "session", m.Session, "sequence", m.Sequence, "objects", len(s.objects), "took", time.Since(start))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m)
}

// describe makes the manifest of a backup set and notes where its objects are. The
// catalog of a whole set keeps the shards that have no files: the entries of the log
// behind the set go there. Cold files stay cold, or are described as if they were local.
func describe(f *exchange.Filter, set *store.BackupSet, objects map[string]place, whole, cold bool) (*Manifest, error) {
	m := &Manifest{Version: manifestVersion, Program: version.String(), Created: time.Now().UTC().Truncate(time.Millisecond), Sequence: set.Sequence, Filter: *f}
	held := map[uint64]*shard.Export{}
	for _, e := range set.Shards {
		held[e.ID] = e
	}
	var err, failed error
	if m.Catalog, err = meta.Copy(set.Catalog); err != nil {
		return nil, err
	}
	cut(m.Catalog, f, func(d *meta.Database, _ *meta.RetentionPolicy, _ *meta.ShardGroup, id uint64) bool {
		e := held[id]
		if e != nil {
			one, err := describeShard(d.ID, e, objects, cold)
			failed = errors.Join(failed, err)
			m.Shards = append(m.Shards, one)
		}
		return e != nil || whole
	})
	if failed != nil {
		return nil, failed
	}
	for _, s := range set.Series {
		if m.Catalog.DatabaseByID(s.Database) == nil {
			continue
		}
		l := SeriesLog{Database: s.Database, Given: s.Given}
		for at := int64(0); at < s.Size; at += pieceBytes {
			n := min(pieceBytes, s.Size-at)
			sum := xxhash.New()
			if k, err := io.Copy(sum, io.NewSectionReader(s.File, at, n)); err != nil || k != n {
				return nil, fmt.Errorf("read series of database %d: %w", s.Database, errors.Join(err, io.ErrUnexpectedEOF))
			}
			o := seriesObject(sum.Sum64(), n)
			l.Pieces = append(l.Pieces, o)
			objects[o.Name] = place{file: s.File, offset: at, size: n}
		}
		m.Series = append(m.Series, l)
	}
	return m, nil
}

// describeShard describes a shard. The objects of cold files are in the cold store.
func describeShard(database uint32, e *shard.Export, objects map[string]place, cold bool) (ShardManifest, error) {
	m := e.Manifest
	s := ShardManifest{ID: e.ID, Database: database, Manifest: e.Encoded}
	if !cold && slices.ContainsFunc(m.TSM, func(f manifest.File) bool { return f.Cold() }) {
		m = m.Warm()
		var err error
		if s.Manifest, err = m.Encode(); err != nil {
			return s, err
		}
	}
	add := func(name string, o Object) {
		s.Files = append(s.Files, File{Name: name, Object: o})
		objects[o.Name] = place{path: path.Join(e.Dir, name), size: o.Size}
	}
	for i := range m.TSM {
		o := tsmObject(&m.TSM[i])
		add(m.TSM[i].Name, o)
		if e.Manifest.TSM[i].Cold() {
			objects[o.Name] = place{cold: true, size: o.Size}
			s.Files[i].Cold = !cold
		}
	}
	for i := range e.Manifest.TSI {
		add(e.Manifest.TSI[i].Name, tsiObject(&e.Manifest.TSI[i]))
	}
	return s, nil
}

// object sends one object, or the part of it that the request's Range names.
func (h *Handler) object(w http.ResponseWriter, r *http.Request) {
	s := h.acquire(r.URL.Query().Get("session"))
	if s == nil {
		fail(w, http.StatusGone, errors.New("no such session: it has ended"))
		return
	}
	defer h.release(s)
	name := r.URL.Query().Get("object")
	if name == "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	p, ok := s.objects[name]
	if !ok {
		fail(w, http.StatusNotFound, errors.New("no such object"))
		return
	}
	if p.cold {
		h.coldObject(w, r, Object{name, p.size})
		return
	}
	file := p.file
	if file == nil {
		var err error
		file, err = h.opt.FS.Open(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			fail(w, http.StatusGone, fmt.Errorf("dropped since the backup began: %w", err))
			return
		}
		if err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}
		defer file.Close()
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(file, p.offset, p.size))
}

// coldObject sends an object of the cold store, from the offset on that Range names.
func (h *Handler) coldObject(w http.ResponseWriter, r *http.Request, o Object) {
	if h.opt.Cold == nil {
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("object %s: %w", o.Name, tails.ErrAbsent))
		return
	}
	offset := int64(0)
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		var err error
		if offset, err = strconv.ParseInt(strings.TrimSuffix(text, "-"), 10, 64); err != nil || offset < 0 || offset > o.Size {
			fail(w, http.StatusRequestedRangeNotSatisfiable, fmt.Errorf("range %q of an object in the cold store", text))
			return
		}
	}
	in, err := h.opt.Cold.ReadRange(r.Context(), key(o), offset, o.Size-offset)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("cold store: %w", err))
		return
	}
	defer in.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(o.Size-offset, 10))
	if offset > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, o.Size-1, o.Size))
		w.WriteHeader(http.StatusPartialContent)
	}
	if _, err := io.Copy(w, in); err != nil {
		panic(http.ErrAbortHandler) // the client finds the answer too short, and tries again
	}
}

func (h *Handler) end(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	id := r.URL.Query().Get("session")
	if s := h.sessions[id]; s != nil {
		h.endLocked(id, s)
		h.opt.Logger.Info("backup ended", "session", id)
	}
	h.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// export streams lines, or rows for the other formats of tsdbd export. Trailers have the
// result.
func (h *Handler) export(w http.ResponseWriter, r *http.Request) {
	p := r.URL.Query()
	f, err := exchange.ParseFilter(p)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	opt := exchange.ExportOptions{
		Filter: f, LinesOnly: p.Get("lponly") == "true", Gzip: p.Get("gzip") == "true",
		NewDatabase: p.Get("newdb"), NewPolicy: p.Get("newrp"),
	}
	asRows := p.Get("format") == "rows"
	if format := p.Get("format"); format != "" && format != "line" && !asRows {
		fail(w, http.StatusBadRequest, fmt.Errorf("format %q is neither line nor rows", format))
		return
	}
	if err := f.Check(h.store.Catalog()); err != nil {
		fail(w, statusOfFilter(err), err)
		return
	}
	w.Header().Set("Trailer", exchange.TrailerPoints+", "+exchange.TrailerError)
	var n int64
	if asRows {
		w.Header().Set("Content-Type", rows.StreamType)
		n, err = exchange.ExportRows(r.Context(), h.store, rows.NewEncoder(w), f, nil)
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if opt.Gzip {
			w.Header().Set("Content-Type", "application/gzip")
		}
		n, err = exchange.Export(r.Context(), h.store, w, opt)
	}
	if err != nil {
		w.Header().Set(exchange.TrailerError, err.Error())
		return
	}
	w.Header().Set(exchange.TrailerPoints, strconv.FormatInt(n, 10))
}

// verify checks the published files of all shards, and the log, the catalog
// and the series files.
func (h *Handler) verify(w http.ResponseWriter, r *http.Request) {
	set, err := h.store.Backup(r.Context(), nil)
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	defer set.Release()
	report, err := inspect.Verify(r.Context(), h.opt.Dir, inspect.VerifyOptions{FS: h.opt.FS, Live: set})
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(report)
}

// define answers Define.
func (h *Handler) define(w http.ResponseWriter, r *http.Request) {
	var d exchange.Definitions
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDefinitions)).Decode(&d); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("read definitions: %w", err))
		return
	}
	made, err := exchange.MakeDefinitions(r.Context(), h.store, &d)
	if err != nil {
		fail(w, statusOf(err), err)
		return
	}
	h.opt.Logger.Info("definitions restored", "users", made.Users, "queries", made.Queries, "subscriptions", made.Subscriptions)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(made)
}
