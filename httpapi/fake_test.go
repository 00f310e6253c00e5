package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/httpapi"
	"tsdbd/httpapi/listener"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan/scantest"
	"tsdbd/prom/engine"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/query/show"
)

// fakeStore is a store and a querier in a few maps.
type fakeStore struct {
	mu        sync.Mutex
	databases map[string]*fakeDatabase
	writeErr  error                                                   // answers the next writes
	execute   func(context.Context, func(*result.Result) error) error // answers SELECTs
	options   query.ExecuteOptions                                    // of the latest query
	writing   func()                                                  // called inside Write
}

type fakeDatabase struct {
	table    *point.Table
	policies map[string]bool
	types    map[string]model.FieldType
	values   map[string]uint64
}

func newFakeStore() *fakeStore { return &fakeStore{databases: map[string]*fakeDatabase{}} }

func (s *fakeStore) create(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.databases[name] == nil {
		s.databases[name] = &fakeDatabase{
			table: point.NewTable(uint32(len(s.databases) + 1)), policies: map[string]bool{"autogen": true},
			types: map[string]model.FieldType{}, values: map[string]uint64{},
		}
	}
}

func (s *fakeStore) database(name string) (*fakeDatabase, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	db := s.databases[name]
	if db == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, name)
	}
	return db, nil
}

func (s *fakeStore) Table(name string) (*point.Table, error) {
	db, err := s.database(name)
	if err != nil {
		return nil, err
	}
	return db.table, nil
}

func (s *fakeStore) RetentionPolicy(name, rp string) (string, error) {
	db, err := s.database(name)
	if err != nil {
		return "", err
	}
	if rp == "" {
		rp = "autogen"
	}
	if !db.policies[rp] {
		return "", fmt.Errorf("%w: %s", meta.ErrRetentionPolicyNotFound, rp)
	}
	return rp, nil
}

// partialError is a fake of the store's.
type partialError struct {
	reason  string
	dropped int
}

func (e *partialError) Error() string               { return "partial write: " + e.reason }
func (e *partialError) PartialWrite() (string, int) { return e.reason, e.dropped }

func (s *fakeStore) Write(_ context.Context, name, _ string, b *point.Batch) error {
	db, err := s.database(name)
	if err != nil {
		return err
	}
	if s.writing != nil {
		s.writing()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr != nil {
		return s.writeErr
	}
	b.GiveTime(time.Now().UnixNano())
	partial := &partialError{}
	for _, row := range b.Rows {
		if conflict := db.conflict(row.Layout); conflict != "" {
			if partial.reason == "" {
				partial.reason = conflict
			}
			partial.dropped++
			continue
		}
		for i, f := range row.Layout.Fields {
			db.types[row.Layout.Measurement+"\x00"+f.Key] = f.Type
			db.values[fmt.Sprint(row.Series.Key(), " ", f.Key, " ", row.Time)] = b.Values[int(row.First)+i]
		}
	}
	if partial.dropped > 0 {
		return partial
	}
	return nil
}

func (db *fakeDatabase) conflict(l *point.Layout) string {
	for _, f := range l.Fields {
		if have := db.types[l.Measurement+"\x00"+f.Key]; have != 0 && have != f.Type {
			return fmt.Sprintf("field type conflict: input field %q on measurement %q is type %s, already exists as type %s", f.Key, l.Measurement, f.Type, have)
		}
	}
	return ""
}

func (s *fakeStore) Execute(ctx context.Context, q *influxql.Query, opt query.ExecuteOptions, emit func(*result.Result) error) error {
	s.mu.Lock()
	s.options = opt
	s.mu.Unlock()
	for i, stmt := range q.Statements {
		switch stmt := stmt.(type) {
		case *influxql.CreateDatabaseStatement:
			s.create(stmt.Name)
		case *influxql.DropDatabaseStatement:
			s.mu.Lock()
			delete(s.databases, stmt.Name)
			s.mu.Unlock()
		case *influxql.SelectStatement:
			if s.execute != nil {
				if err := s.execute(ctx, emit); err != nil {
					return err
				}
				continue
			}
		}
		if err := emit(&result.Result{StatementID: i}); err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeStore) Statistics(context.Context) ([]show.Statistic, error) { return nil, nil }

// fingerprint tells all of the store's state.
func (s *fakeStore) fingerprint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.databases)) {
		fmt.Fprintln(&b, name, s.databases[name].policies, s.databases[name].types, s.databases[name].values)
	}
	return b.String()
}

// start serves s and returns the handler and its URL.
func start(t *testing.T, s *fakeStore, opt httpapi.Options) (*httpapi.Handler, string) {
	t.Helper()
	opt.Writer, opt.Query = s, s
	if opt.PromQL == nil { // over a storage of its own
		opt.PromQL = engine.New(engine.Options{Storage: scantest.New(), Queries: admission.NewQueries(admission.Limits{}, nil, slog.New(slog.DiscardHandler))})
	}
	if opt.Registry == nil {
		opt.Registry = prometheus.NewRegistry()
	}
	h := httpapi.New(opt)
	srv, err := listener.Listen(h, listener.Options{MaxConnections: 100}) // a limit must not change how connections end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		h.Close()
	})
	return h, "http://" + srv.Addr()
}

// answer is a response read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; headers come in pairs.
func do(t *testing.T, method, url, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// serve answers one request without a connection.
func serve(h http.Handler, method, target string, body io.Reader) *httptest.ResponseRecorder {
	if body == nil {
		body = new(bytes.Buffer)
	}
	return serveRequest(h, httptest.NewRequest(method, target, body))
}

func serveRequest(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func (s *fakeStore) WriteExemplars(_ context.Context, _ string, list []model.Exemplar) (kept, older int, err error) {
	return len(list), 0, nil
}
