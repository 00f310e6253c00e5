package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/httpapi"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// fakeCluster is a node of a cluster whose leader is a handler.
type fakeCluster struct {
	mu       sync.Mutex
	leads    bool
	leader   http.Handler  // nil: there is none
	store    *fakeStore    // of the leader, which is at position 9; nil: there is none
	old      bool          // the leader does not take all rows
	lost     bool          // it no longer leads when it writes
	behind   bool          // reads go to the leader
	age      time.Duration // of what reads show, if there is no leader, and of stale ones
	others   []http.Handler
	position uint64
	calls    []string // ask, forward, read and what it asked for
	remote   string   // the latest forwarded request
	header   http.Header
	body     string
}

func (c *fakeCluster) Leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leads
}

func (c *fakeCluster) TakesRows() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.old
}

func (c *fakeCluster) Position() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position
}

func (c *fakeCluster) Stamp(leader bool) func(http.Header) {
	return func(h http.Header) {
		h.Set("X-Tsdbd-Position", strconv.FormatUint(c.Position(), 10))
		if leader {
			h.Set("X-Tsdbd-Disks", "2")
		}
	}
}

func (c *fakeCluster) Forward(w http.ResponseWriter, r *http.Request) error {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.calls, c.remote, c.header, c.body = append(c.calls, "forward"), r.RemoteAddr, r.Header, string(b)
	leader := c.leader
	c.mu.Unlock()
	if leader == nil {
		return errors.New("the cluster has no leader")
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	r.RemoteAddr = "peer:1"
	leader.ServeHTTP(w, r)
	return nil
}

func (c *fakeCluster) Read(ctx context.Context, position uint64, consistency string) (bool, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, strings.TrimSpace(consistency+" read"))
	if position > c.position {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return false, 0, ctx.Err()
	}
	if c.behind && consistency != "stale" {
		return true, 0, nil
	}
	return false, c.age, nil
}

func (c *fakeCluster) Writer(stamp http.Header, here bool) httpapi.Writer {
	if here && c.lost {
		return &atLeader{cluster: &fakeCluster{}, stamp: stamp} // it no longer leads
	}
	return &atLeader{cluster: c, stamp: stamp}
}

// atLeader writes to the store of the leader.
type atLeader struct {
	httpapi.Writer
	cluster *fakeCluster
	stamp   http.Header
}

func (w *atLeader) begin(call string) (*fakeStore, error) {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	if c.store == nil {
		return nil, notLeader{}
	}
	w.stamp.Set("X-Tsdbd-Position", "9")
	w.stamp.Set("X-Tsdbd-Disks", "2")
	return c.store, nil
}

func (w *atLeader) Write(ctx context.Context, db, rp string, b *point.Batch) error {
	store, err := w.begin("write")
	if err != nil {
		return err
	}
	b.GiveTime(9e9 + 1)
	return store.Write(ctx, db, rp, b)
}

func (w *atLeader) WriteExemplars(ctx context.Context, db string, list []model.Exemplar) (kept, older int, err error) {
	store, err := w.begin("exemplars")
	if err != nil {
		return 0, 0, err
	}
	return store.WriteExemplars(ctx, db, list)
}

func (c *fakeCluster) Others() (names []string) {
	for i := range c.others {
		names = append(names, strconv.Itoa(i))
	}
	return names
}

func (c *fakeCluster) Ask(address string, w http.ResponseWriter, r *http.Request) error {
	c.mu.Lock()
	c.calls, c.header = append(c.calls, "ask "+address), r.Header
	c.mu.Unlock()
	i, err := strconv.Atoi(address)
	if err != nil {
		return err
	}
	answer := httptest.NewRecorder()
	r.RemoteAddr = "peer:1"
	r.Header.Set("X-Tsdbd-Whole", "true")
	if r.Body == nil {
		r.Body = http.NoBody
	}
	c.others[i].ServeHTTP(answer, r)
	if answer.Code >= 500 {
		return errors.New("it cannot answer")
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, err = w.Write(answer.Body.Bytes())
	return err
}

// did returns the calls since the last time.
func (c *fakeCluster) did() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := strings.Join(c.calls, ", ")
	c.calls = nil
	return s
}

// pair returns a follower, and its leader with a store of its own.
func pair(t *testing.T, opt httpapi.Options) (follower http.Handler, of, at *fakeCluster, own, leaders *fakeStore) {
	t.Helper()
	own, leaders = newFakeStore(), newFakeStore()
	own.create("d")
	leaders.create("d")
	at = &fakeCluster{leads: true, position: 9, store: leaders}
	opt.Writer, opt.Query, opt.Cluster = leaders, leaders, at
	leader := httpapi.New(opt)
	t.Cleanup(leader.Close)
	of = &fakeCluster{position: 7, leader: leader.Forwarded(), store: leaders}
	opt.Writer, opt.Query, opt.Cluster = own, own, of
	h := httpapi.New(opt)
	t.Cleanup(h.Close)
	return h, of, at, own, leaders
}

const form = "application/x-www-form-urlencoded"

func TestFollower(t *testing.T) {
	var access strings.Builder
	h, of, _, own, leaders := pair(t, httpapi.Options{AccessLog: slog.New(slog.NewTextHandler(&access, nil))})
	var target string // of the latest request
	ask := func(method, at, body string, header ...string) *httptest.ResponseRecorder {
		t.Helper()
		target, _, _ = strings.Cut(at, "?")
		r := httptest.NewRequest(method, at, strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return serveRequest(h, r)
	}
	f := func(w *httptest.ResponseRecorder, calls string, status int, position string) {
		t.Helper()
		if got := of.did(); got != calls || w.Code != status || w.Header().Get("X-Tsdbd-Position") != position {
			t.Errorf("%q, status %d, position %q, want %q, %d, %q: %s", got, w.Code, w.Header().Get("X-Tsdbd-Position"), calls, status, position, w.Body)
		}
		// Only the leader's answer to what it alone does says on how many disks that is.
		if disks, want := w.Header().Get("X-Tsdbd-Disks"), map[string]string{"/write": "2"}[target]; status == 204 && disks != want || calls == "read" && disks != "" {
			t.Errorf("%s is on %q disks, want %q", target, disks, want)
		}
		for key, values := range w.Header() {
			if len(values) > 1 {
				t.Errorf("%s: %q", key, values)
			}
		}
	}
	// The rows of a write go to the leader, with those that do not parse in the answer. A
	// row without a time gets the leader's.
	f(ask("POST", "/write?db=d", "m v=1 1"), "read, write", 204, "9")
	f(ask("POST", "/write?db=d&precision=s", "m v=3"), "read, write", 204, "9")
	if got := leaders.fingerprint(); !strings.Contains(got, "9000000000") {
		t.Errorf("the leader has %s", got)
	}
	bad := ask("POST", "/write?db=d", "m v=1 3\nm v= 4")
	f(bad, "read, write", 400, "9")
	if !strings.Contains(bad.Body.String(), "unable to parse 'm v= 4'") {
		t.Error(bad.Body)
	}
	f(ask("POST", "/write?db=d", "m v="), "read", 400, "7")
	f(ask("POST", "/write?db=d", "m v=1i 1"), "read, write", 400, "9")
	// A write to what this node does not know goes as it came.
	w := ask("POST", "/write?db=none", "m v=1 1", "X-Request-Id", "mine")
	f(w, "read, forward", 404, "9")
	if want := `{"error":"database not found: \"none\""}` + "\n"; w.Body.String() != want || w.Header().Get("X-Request-Id") != "mine" {
		t.Errorf("%s %v", w.Body, w.Header())
	}
	// So does one that a leader of an older program could not take as rows.
	of.old = true
	f(ask("POST", "/write?db=d", "m v=2 2"), "read, forward", 204, "9")
	of.old = false
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, "m v=2 2")
	_ = z.Close()
	f(ask("POST", "/write?db=d", packed.String(), "Content-Encoding", "gzip"), "read, write", 204, "9")
	leaders.create("late")
	f(ask("POST", "/write?db=late", packed.String(), "Content-Encoding", "gzip"), "read, forward", 204, "9")
	if of.body != packed.String() {
		t.Error("the compressed body was changed")
	}
	if got := own.fingerprint(); strings.Contains(got, "v") && strings.Contains(got, "m v") {
		t.Errorf("the follower wrote: %s", got)
	}
	if got := leaders.fingerprint(); strings.Count(got, "m v ") != 5 {
		t.Errorf("the leader has %s", got)
	}
	// So do statements that change something, wherever they stand.
	f(ask("POST", "/query?q=CREATE+DATABASE+x", ""), "forward", 200, "9")
	f(ask("GET", "/query?q=CREATE+DATABASE+x", ""), "forward", 200, "9")
	f(ask("POST", "/query", "q=CREATE+DATABASE+y&epoch=s", "Content-Type", form), "forward", 200, "9")
	if of.body != "q=CREATE+DATABASE+y&epoch=s" {
		t.Errorf("forwarded form %q", of.body)
	}
	packed.Reset()
	z.Reset(&packed)
	_, _ = io.WriteString(z, "q=CREATE+DATABASE+z")
	_ = z.Close()
	f(ask("POST", "/query", packed.String(), "Content-Type", form, "Content-Encoding", "gzip"), "forward", 200, "9")
	f(ask("POST", "/query?q=CREATE+DATABASE+w", "a body that nobody reads"), "forward", 200, "9")
	if of.body != "a body that nobody reads" {
		t.Errorf("forwarded body %q", of.body)
	}
	f(ask("POST", "/query?q=CREATE+DATABASE+async&async=true", ""), "forward", 204, "9")
	for _, name := range []string{"x", "y", "z", "w"} {
		if _, err := leaders.database(name); err != nil {
			t.Error(err)
		}
		if _, err := own.database(name); err == nil {
			t.Errorf("the follower made %s", name)
		}
	}
	f(ask("POST", "/api/v2/delete?bucket=d", `{"start":"2020-01-01T00:00:00Z","stop":"2021-01-01T00:00:00Z"}`), "forward", 200, "9")
	f(ask("GET", "/query?q=KILL+QUERY+1;CREATE+DATABASE+k", ""), "", 400, "7")

	// What reads is answered here, unless this node is behind.
	f(ask("GET", "/query?q=SELECT+v+FROM+m", ""), "read", 200, "7")
	f(ask("POST", "/query", "q=SELECT+v+FROM+m&consistency=strong", "Content-Type", form), "strong read", 200, "7")
	f(ask("GET", "/query?q=SELECT+v+FROM+m&consistency=all", ""), "read", 200, "7")
	f(ask("GET", "/query?q=SELECT+v+FROM+m&consistency=storng", ""), "", 400, "7")
	f(ask("GET", "/query?q=SELECT+v+FROM+m", "", "X-Tsdbd-Position", "7"), "read", 200, "7")
	f(ask("GET", "/query?q=SELECT+v+FROM+m", "", "X-Tsdbd-Position", "7x"), "", 400, "7")
	f(ask("GET", "/query?q=SHOW+QUERIES", "", "X-Tsdbd-Position", "7x"), "", 200, "7")
	f(ask("GET", "/query?q=SELECT", ""), "", 400, "7") // does not parse
	of.behind = true
	f(ask("GET", "/query?q=SELECT+v+FROM+m", ""), "read, forward", 200, "9")
	f(ask("GET", "/query?q=SHOW+QUERIES", ""), "", 200, "7")
	of.behind = false

	// The log of the leader has the client, that of the follower the same request.
	access.Reset()
	f(ask("POST", "/write?db=late", "m v=1 1", "X-Request-Id", "once"), "read, forward", 204, "9")
	if strings.Count(access.String(), "remote=192.0.2.1:1234") != 2 || strings.Count(access.String(), "request_id=once") != 2 {
		t.Error(access.String())
	}

	// Without a leader nothing is lost: the client comes again.
	of.leader, of.store = nil, nil
	for _, c := range [][]string{
		{"/write?db=d", "m v=1 1", "read, write", "7", "this node is not the leader"},
		{"/write?db=late", "m v=1 1", "read, forward", "", "the cluster has no leader"},
		{"/query", "q=DROP+DATABASE+d", "forward", "", "the cluster has no leader"},
	} {
		w := ask("POST", c[0], c[1], "Content-Type", form)
		f(w, c[2], 503, c[3])
		if w.Header().Get("Retry-After") != "1" || w.Body.String() != `{"error":"`+c[4]+`"}`+"\n" {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
	}
	f(ask("GET", "/query?q=SELECT+v+FROM+m", ""), "read", 200, "7")
}

// TestRowsOfEveryProtocol: a follower parses what every protocol brings, and sends rows,
// metadata and exemplars to the leader. The answer is that of a leader that was asked itself.
func TestRowsOfEveryProtocol(t *testing.T) {
	const proto, second = "application/x-protobuf", "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	label := func(name, value string) []byte {
		return member(1, append(member(1, []byte(name)), member(2, []byte(value))...))
	}
	number := func(n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.VarintType), v)
	}
	value := func(n protowire.Number, ms uint64) []byte { // and the time behind it
		return append(protowire.AppendFixed64(protowire.AppendTag(nil, n, protowire.Fixed64Type), math.Float64bits(1)), number(n+1, ms)...)
	}
	sample := func(ms uint64) []byte { return value(1, ms) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	about := func(help string) []byte { // metadata
		return member(3, join(number(1, 1), member(2, []byte("m")), member(4, []byte(help))))
	}
	exemplar := member(3, join(label("trace", "a"), value(2, 1)))
	write1 := func(parts ...[]byte) string { return string(snappy.Encode(nil, join(parts...))) }
	series := func(parts ...[]byte) []byte {
		return member(1, join(append([][]byte{label("__name__", "m")}, parts...)...))
	}
	write2 := func(series ...[]byte) string {
		var b []byte
		for _, symbol := range []string{"", "__name__", "m", "conflict", "trace", "a", "some help"} {
			b = append(b, member(4, []byte(symbol))...)
		}
		return string(snappy.Encode(nil, append(b, join(series...)...)))
	}
	series2 := func(name byte, parts ...[]byte) []byte {
		return member(5, join(append([][]byte{member(1, []byte{1, name})}, parts...)...))
	}
	exemplar2 := member(4, join(member(1, []byte{4, 5}), value(2, 1)))
	about2 := member(5, join(number(1, 1), number(3, 6)))
	const line = `{"metric":{"__name__":"m"},"values":[1],"timestamps":[1]}` + "\n"
	gauge := func(points string) string {
		return `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","description":"some help","gauge":{"dataPoints":[` + points + `]}}]}]}]}`
	}
	for _, c := range []struct {
		path, media, encoding, body string
		calls                       string // of the follower
		status                      int
	}{
		{"/api/v1/write", proto, "snappy", write1(series(member(2, sample(1)))), "read, write", 204},
		{"/api/v1/prom/write", proto, "snappy", write1(series(member(2, sample(1)), exemplar), about("a"), about("b")), "read, write, write, exemplars", 204},
		{"/api/v1/write", proto, "snappy", write1(about("a")), "read, write", 204},
		{"/api/v1/write", proto, "snappy", write1(series(member(2, sample(1)), member(2, sample(math.MaxInt64)))), "read, write", 400},
		{"/api/v1/write", proto, "snappy", write1([]byte{0xff}), "read", 400},
		{"/api/v1/write", proto, "snappy", "\xff", "read", 400},
		{"/api/v1/write", second, "snappy", write2(series2(2, member(2, sample(1)), exemplar2, about2)), "read, write, write, exemplars", 204},
		{"/api/v1/write", second, "snappy", write2(series2(2, member(2, sample(1))), series2(3, member(2, sample(1)), exemplar2)), "read, write, exemplars", 400},
		{"/api/v1/write", second, "snappy", write2(series2(99, member(2, sample(1)))), "read", 400},
		{"/v1/metrics", "application/json", "", gauge(`{"timeUnixNano":"1000000","asDouble":1,"exemplars":[{"timeUnixNano":"1000000","asDouble":1}]}`), "read, write, write, exemplars", 200},
		{"/v1/metrics", "application/json", "", gauge(`{"timeUnixNano":"1000000","asDouble":1},{"asDouble":1}`), "read, write, write", 200},
		{"/v1/metrics", "application/json", "", strings.ReplaceAll(gauge(`{"timeUnixNano":"1000000","asDouble":1},{"asDouble":1}`), `"m"`, `"conflict"`), "read, write, write", 200},
		{"/v1/metrics", "application/json", "", `{"resource`, "read", 400},
		{"/api/v1/import", "", "", line, "read, write", 204},
		{"/api/v1/import", "", "", line + "{}\n", "read, write", 400},
		{"/api/v1/import", "", "", line + strings.ReplaceAll(line, `"m"`, `"conflict"`), "read, write", 400},
		{"/api/v1/import", "", "", strings.ReplaceAll(line, "[1]}", "[-9223372036854775808]}"), "read", 400},
		{"/api/v1/import/prometheus", "", "", "# HELP m some help\nm 1\n", "read, write, write", 204},
		{"/api/v1/import/prometheus", "", "", "m 1 1\nm 1 -9223372036854775808\n{\nconflict 1\n", "read, write", 400},
		{"/api/v1/import/prometheus/metrics/job/a", "", "", "", "read", 204},
		{"/write", "", "", "m value=1 1\nconflict value=1 1\nm value=\n", "read, write", 400},
		// The database and the policy are as unknown as at the leader.
		{"/api/v1/write?db=none", proto, "snappy", write1(series(member(2, sample(1)))), "read, forward", 404},
		{"/api/v1/write?rp=none", proto, "snappy", write1(series(member(2, sample(1)))), "read, forward", 404},
	} {
		var got [2]string
		for i, place := range []string{"follower", "leader"} {
			follower, of, _, own, leaders := pair(t, httpapi.Options{})
			for _, s := range []*fakeStore{own, leaders} {
				s.databases["d"].types["conflict\x00value"] = model.Integer
			}
			target, params, _ := strings.Cut(c.path, "?")
			if params != "db=none" {
				params += "&db=d"
			}
			r := httptest.NewRequest("POST", target+"?"+params, strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.media)
			r.Header.Set("Content-Encoding", c.encoding)
			w := httptest.NewRecorder()
			if place == "follower" {
				follower.ServeHTTP(w, r)
			} else {
				of.leader.ServeHTTP(w, r)
			}
			if calls := of.did(); place == "follower" && calls != c.calls || w.Code != c.status {
				t.Errorf("%s %q at the %s: %d, %q, want %d, %q: %s", c.path, c.body, place, w.Code, calls, c.status, c.calls, w.Body)
			}
			for _, name := range []string{"X-Request-Id", "Request-Id", "X-Tsdbd-Position"} {
				w.Header().Del(name)
			}
			got[i] = fmt.Sprintf("%d %v %q", w.Code, w.Header(), w.Body) + leaders.fingerprint()
			if text := own.fingerprint(); strings.Contains(text, "value=") {
				t.Errorf("%s: the follower has stored %s", c.path, text)
			}
		}
		if got[0] != got[1] {
			t.Errorf("%s %q:\n at the follower %s\nat the leader %s", c.path, c.body, got[0], got[1])
		}
	}
}

// TestDefaultDatabaseInACluster: the leader makes the default database of Prometheus' API.
// Where it was dropped and this node does not know, the client comes again.
func TestDefaultDatabaseInACluster(t *testing.T) {
	h, of, _, own, leaders := pair(t, httpapi.Options{})
	f := func(calls string, status int) {
		t.Helper()
		w := serve(h, "POST", "/api/v1/import", strings.NewReader(`{"metric":{"__name__":"m"},"values":[1],"timestamps":[1]}`))
		if got := of.did(); w.Code != status || got != calls || (status == 503) != (w.Header().Get("Retry-After") == "1") {
			t.Errorf("%d, %q, want %d, %q: %s", w.Code, got, status, calls, w.Body)
		}
	}
	f("read, forward", 204)
	if _, err := leaders.database("prometheus"); err != nil {
		t.Error(err)
	}
	own.create("prometheus")
	f("read, write", 204)
	delete(leaders.databases, "prometheus")
	f("read, write", 503)
	delete(own.databases, "prometheus")
	f("read, forward", 204)
}

// closed is a store that cannot open a database, as on a full disk.
type closed struct{ *fakeStore }

func (closed) Table(string) (*point.Table, error) { return nil, errors.New("no space left") }

// TestWriteAtClosedDatabase: a write to a database that a follower cannot open goes to the
// leader as it came.
func TestWriteAtClosedDatabase(t *testing.T) {
	own, leaders := newFakeStore(), newFakeStore()
	own.create("d")
	leaders.create("d")
	leader := httpapi.New(httpapi.Options{Writer: leaders, Query: leaders, Cluster: &fakeCluster{leads: true, store: leaders}})
	defer leader.Close()
	of := &fakeCluster{leader: leader.Forwarded()}
	h := httpapi.New(httpapi.Options{Writer: closed{own}, Query: own, Cluster: of})
	defer h.Close()
	if w := serve(h, "POST", "/write?db=d", strings.NewReader("m v=1 1")); w.Code != 204 || of.did() != "read, forward" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestForwardedOnce: a request that reaches a node that does not lead either goes no
// further.
func TestForwardedOnce(t *testing.T) {
	s, c := newFakeStore(), &fakeCluster{behind: true}
	s.create("d")
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Cluster: c})
	defer h.Close()
	for _, target := range []string{"/write?db=d", "/query?q=CREATE+DATABASE+x", "/query?q=SELECT+v+FROM+m"} {
		w := serve(h.Forwarded(), "POST", target, strings.NewReader("m v=1 1"))
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if got := strings.ReplaceAll(c.did(), "read", ""); strings.Trim(got, ", ") != "" {
		t.Error(got)
	}
}

// TestForwardedInItsTerm: a write that was forwarded to a leader does not go on to the next one.
func TestForwardedInItsTerm(t *testing.T) {
	s, c := newFakeStore(), &fakeCluster{leads: true, lost: true, store: newFakeStore()}
	s.create("d")
	c.store.create("d")
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Cluster: c})
	defer h.Close()
	w := serve(h.Forwarded(), "POST", "/write?db=d", strings.NewReader("m v=1 1"))
	if calls := c.did(); w.Code != 503 || strings.Contains(calls, "write") {
		t.Errorf("%d %s: %s", w.Code, w.Body, calls)
	}
}

// hasty answers before it has read the body, as a leader that refuses does.
type hasty struct {
	fakeCluster
	body io.Reader
}

func (c *hasty) Forward(w http.ResponseWriter, r *http.Request) error {
	c.body = r.Body
	w.WriteHeader(http.StatusForbidden)
	return nil
}

// TestLentForm: what sends a form to the leader reads nothing of it after the answer, when
// its memory may have the form of another client.
func TestLentForm(t *testing.T) {
	s, c := newFakeStore(), &hasty{}
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Cluster: c})
	defer h.Close()
	r := httptest.NewRequest("POST", "/query", strings.NewReader("q=CREATE+DATABASE+d"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if w := serveRequest(h, r); w.Code != http.StatusForbidden || c.body == nil {
		t.Fatal(w.Code, c.body)
	}
	if b, err := io.ReadAll(c.body); len(b) > 0 || err == nil {
		t.Errorf("read %q, %v", b, err)
	}
}

// TestPositionWait: a position that the node does not reach is an error that a client
// survives, within the time that the limits give.
func TestPositionWait(t *testing.T) {
	s := newFakeStore()
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Cluster: &fakeCluster{position: 7}, Limits: httpapi.Limits{PositionWait: time.Millisecond}})
	defer h.Close()
	r := httptest.NewRequest("GET", "/query?q=SHOW+DATABASES", nil)
	r.Header.Set("X-Tsdbd-Position", "8")
	w := serveRequest(h, r)
	if want := `{"error":"this node has not caught up within 1ms: it is at position 7"}` + "\n"; w.Code != 503 || w.Body.String() != want || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestReadWithoutLeader: an answer that is older than it may be says so, and so does one
// that may be.
func TestReadWithoutLeader(t *testing.T) {
	c := &fakeCluster{position: 7}
	h, store := promServer(t, httpapi.Options{Cluster: c, Memory: admission.NewMemory(64 << 20)}, admission.Limits{})
	store.Write(t, "mydb", "autogen", "s", "m,__name__=m value=1 60")
	message := snappy.Encode(nil, member(1, append(
		protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 120_000),
		member(3, append(member(2, []byte("__name__")), member(3, []byte("m"))...))...)))
	f := func(target, body, calls, behind string) {
		t.Helper()
		method := "GET"
		if body != "" {
			method = "POST"
		}
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		if !strings.HasPrefix(body, string(message)) {
			r.Header.Set("Content-Type", form)
		}
		w := serveRequest(h, r)
		status := 200
		if strings.HasPrefix(behind, "503") {
			status, behind = 503, ""
		}
		if got := c.did(); got != calls || w.Code != status || w.Header().Get("X-Tsdbd-Behind") != behind {
			t.Errorf("%s: %q, %d, behind %q, want %q, %d, %q: %s", target, got, w.Code, w.Header().Get("X-Tsdbd-Behind"), calls, status, behind, w.Body)
		}
		if position := w.Header().Get("X-Tsdbd-Position"); status == 200 && position != "7" {
			t.Errorf("%s: position %q", target, position)
		}
		if status == 200 && strings.Contains(target, "query=m") && !strings.Contains(w.Body.String(), `"1"`) {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
	const select1 = "/query?db=mydb&q=SELECT+value+FROM+m"
	f(select1, "", "read", "")
	f(select1+"&consistency=stale", "", "stale read", "0.0")
	f("/query", "db=mydb&q=SELECT+value+FROM+m&consistency=stale", "stale read", "0.0")
	f("/prometheus/mydb/api/v1/query?query=m&time=60&consistency=stale", "", "stale read", "0.0")
	c.age = 12340 * time.Millisecond
	f(select1, "", "read", "12.3")
	// Where the leader does not answer, this node does.
	c.behind = true
	both := "read, forward, stale read"
	f(select1, "", both, "12.3")
	f("/query", "db=mydb&q=SELECT+value+FROM+m", both, "12.3")
	f("/prometheus/mydb/api/v1/query?query=m&time=60", "", both, "12.3")
	f("/prometheus/mydb/api/v1/query", "query=m&time=60", both, "12.3")
	f("/prometheus/mydb/api/v1/query_range?query=m&start=0&end=60&step=60", "", both, "12.3")
	f("/prometheus/mydb/api/v1/series?match[]=m", "", both, "12.3")
	f("/prometheus/mydb/api/v1/labels", "", both, "12.3")
	f("/prometheus/mydb/api/v1/export?match[]=m", "", both, "12.3")
	f("/prometheus/mydb/api/v1/read", string(message), both, "12.3")
	c.age = math.MaxInt64
	f(select1, "", both, "unknown")
	f(select1+"&consistency=stale", "", "stale read", "unknown")
	// What may not be stale is refused, and so is what changes something.
	f(select1+"&consistency=strong", "", "strong read, forward", "503")
	f("/prometheus/mydb/api/v1/query?query=m&time=60&consistency=strong", "", "strong read, forward", "503")
	f("/query?q=CREATE+DATABASE+x&consistency=stale", "", "forward", "503")
	// Another node asks this one because it takes it for the leader.
	if w := serve(h.Forwarded(), "GET", select1, nil); w.Code != 503 || !strings.Contains(w.Body.String(), "the lead of the cluster has changed") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// notLeader is a fake of the store's error.
type notLeader struct{}

func (notLeader) Error() string   { return "this node is not the leader" }
func (notLeader) Temporary() bool { return true }

// TestLeadershipLost: a statement that fails because the node no longer leads is a
// 503. Other temporary errors, and those behind the first byte, stay in the answer.
func TestLeadershipLost(t *testing.T) {
	s, c := newFakeStore(), &fakeCluster{leads: true}
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Cluster: c})
	defer h.Close()
	fail := func(lose bool, before ...*result.Result) {
		s.execute = func(_ context.Context, emit func(*result.Result) error) error {
			for _, r := range before {
				if err := emit(r); err != nil {
					return err
				}
			}
			c.mu.Lock()
			c.leads = !lose
			c.mu.Unlock()
			return emit(&result.Result{StatementID: len(before), Err: notLeader{}})
		}
	}
	fail(true)
	w := serve(h, "POST", "/query?q=SELECT+v+INTO+t+FROM+m", nil)
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || w.Body.String() != `{"error":"this node is not the leader"}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	c.leads = true
	fail(false)
	if w := serve(h, "POST", "/query?q=SELECT+v+INTO+t+FROM+m", nil); w.Code != 200 || !strings.Contains(w.Body.String(), "not the leader") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	c.leads = true
	table := result.NewTable("m", "time", "v")
	table.AddRow(int64(1), 1.0)
	fail(true, &result.Result{Series: []*result.Series{table}})
	if w := serve(h, "POST", "/query?chunked=true&q=SELECT+v+INTO+t+FROM+m", nil); w.Code != 200 || !strings.Contains(w.Body.String(), "not the leader") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// The store's own error of a write.
	c.leads, s.writeErr = true, notLeader{}
	s.create("d")
	if w := serve(h, "POST", "/write?db=d", strings.NewReader("m v=1 1")); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestSingleNode: without a cluster, the headers and the parameter mean nothing.
func TestSingleNode(t *testing.T) {
	s := newFakeStore()
	h := httpapi.New(httpapi.Options{Writer: s, Query: s})
	defer h.Close()
	r := httptest.NewRequest("GET", "/query?q=SHOW+DATABASES&consistency=storng", nil)
	r.Header.Set("X-Tsdbd-Position", "x")
	if w := serveRequest(h, r); w.Code != 200 || w.Header().Get("X-Tsdbd-Position") != "" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

// TestRightsInACluster: the leader has the last word, because a follower may not have
// the latest users and grants yet.
func TestRightsInACluster(t *testing.T) {
	users, _, opt := withUsers(t)
	_, _, stale := withUsers(t)
	users.apply(t, meta.CreateUser{Name: "bob", Hash: "#bobpw"})
	users.apply(t, meta.SetPrivilege{Name: "bob", Database: "db", Privilege: meta.ReadPrivilege})
	users.apply(t, meta.SetPrivilege{Name: "ann", Database: "db", Privilege: meta.AllPrivileges})
	s := newFakeStore()
	s.create("db")
	opt.Writer, opt.Query, opt.Cluster = s, s, &fakeCluster{leads: true}
	leader := httpapi.New(opt)
	defer leader.Close()
	c := &fakeCluster{leader: leader.Forwarded(), store: s}
	stale.Writer, stale.Query, stale.Cluster = s, s, c
	h := httpapi.New(stale)
	defer h.Close()
	f := func(login, method, target, body, calls string, status int) {
		t.Helper()
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", form)
		name, password, _ := strings.Cut(login, ":")
		r.SetBasicAuth(name, password)
		w := serveRequest(h, r)
		if got := c.did(); got != calls || w.Code != status {
			t.Errorf("%s %s %s by %s: %q, %d, want %q, %d: %s", method, target, body, login, got, w.Code, calls, status, w.Body)
		}
		if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %v", login, w.Header())
		}
	}
	f("root:rootpw", "GET", "/query?q=SHOW+USERS", "", "read", 200)
	f("bob:bobpw", "GET", "/query?db=db&q=SELECT+v+FROM+m", "", "forward", 200)
	f("bob:bobpw", "POST", "/query?db=db", "q=SELECT+v+FROM+m", "forward", 200)
	f("bob:bobpw", "POST", "/write?db=db", "m v=1", "read, forward", 403)
	f("bob:bobpw", "GET", "/api/v2/buckets", "", "read, forward", 200)
	f("bob:wrong", "GET", "/query?db=db&q=SELECT+v+FROM+m", "", "forward", 401)
	f("ann:annpw", "POST", "/query?db=db", "q=SELECT+v+FROM+m", "read, forward", 200)
	f("ann:annpw", "POST", "/query?db=db", "q=SHOW+USERS", "read, forward", 403)
	f("ann:annpw", "POST", "/write?db=db", "m v=1", "read, write", 204)
	f("bob:bobpw", "GET", "/debug/vars", "", "", 401)
}

// TestRightsAfterTheWait: a right that was taken away before the position of a query
// is gone.
func TestRightsAfterTheWait(t *testing.T) {
	users, _, opt := withUsers(t)
	users.apply(t, meta.SetPrivilege{Name: "ann", Database: "db", Privilege: meta.ReadPrivilege})
	s := newFakeStore()
	s.create("db")
	revoked := &waiter{wait: func() { users.apply(t, meta.SetPrivilege{Name: "ann", Database: "db"}) }}
	opt.Writer, opt.Query, opt.Cluster = s, s, revoked
	h := httpapi.New(opt)
	defer h.Close()
	r := httptest.NewRequest("GET", "/query?db=db&q=SELECT+v+FROM+m", nil)
	r.SetBasicAuth("ann", "annpw")
	if w := serveRequest(h, r); w.Code != 403 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// waiter is a leader that calls wait when a request waits.
type waiter struct {
	fakeCluster
	wait func()
}

func (*waiter) Leads() bool { return true }

func (w *waiter) Read(context.Context, uint64, string) (bool, time.Duration, error) {
	w.wait()
	return false, 0, nil
}
