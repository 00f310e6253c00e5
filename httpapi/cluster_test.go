package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
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

func (c *fakeCluster) Write(ctx context.Context, db, rp string, b *point.Batch) (http.Header, error) {
	c.mu.Lock()
	c.calls = append(c.calls, "write")
	store := c.store
	c.mu.Unlock()
	if store == nil {
		return nil, notLeader{}
	}
	b.GiveTime(9e9 + 1)
	return http.Header{"X-Tsdbd-Position": {"9"}, "X-Tsdbd-Disks": {"2"}}, store.Write(ctx, db, rp, b)
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
	table := result.NewTable("m", []model.FieldType{model.Integer, model.Float}, "time", "v")
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
