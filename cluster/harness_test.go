package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/backup"
	"tsdbd/cluster/admin"
	"tsdbd/cluster/relay"
	"tsdbd/cluster/self"
	"tsdbd/exchange"
	"tsdbd/internal/testkit/faulty"
	"tsdbd/internal/testkit/leak"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/store"
)

// patience is how long tests wait for what must happen. Nothing relies on it being
// short.
const patience = 2 * time.Minute

// Tests wait for elections and for disks: several run at a time.
func TestMain(m *testing.M) { leak.Main(m, 4) }

// group is the nodes of a test.
type group struct {
	t       *testing.T
	net     *faulty.Network
	join    []string // names in cluster.join
	servers map[string]*server
	log     *logs
}

// logs are what all nodes log; the test shows them when it fails.
type logs struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(b)
}

func newGroup(t *testing.T, join ...string) *group {
	t.Helper()
	t.Parallel()
	t.TempDir() // goes after the nodes have ended
	g := &group{t: t, net: faulty.New(testseed.Of(t)), join: join, servers: map[string]*server{}, log: &logs{}}
	t.Cleanup(func() {
		for _, s := range g.servers {
			if s.cancel != nil { // all at once: who closes last has nobody to hand the lead to
				s.cancel()
			}
		}
		for _, s := range g.servers {
			s.stop()
		}
		if err := g.net.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			g.log.Lock()
			defer g.log.Unlock()
			text := g.log.String()
			t.Logf("log of the nodes:\n%s", text[max(len(text)-400_000, 0):])
		}
	})
	return g
}

// server is a node with its store, as package server runs it.
type server struct {
	g       *group
	name    string
	dir     string
	options func(*Options)
	store   store.Options

	mu      sync.Mutex
	node    *Node
	st      *store.Store
	backups *backup.Handler
	reopens int
	fatal   error
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// server returns the server of a name, whose directory is empty at first.
func (g *group) server(name string) *server {
	s := g.servers[name]
	if s == nil {
		s = &server{g: g, name: name, dir: filepath.Join(g.t.TempDir(), name)}
		g.servers[name] = s
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			g.t.Fatal(err)
		}
	}
	return s
}

func (g *group) address(name string) string {
	g.t.Helper()
	a, err := g.net.Address(name)
	if err != nil {
		g.t.Fatal(err)
	}
	return a
}

// start starts the servers of names, in this order, and goes on.
func (g *group) start(names ...string) {
	g.t.Helper()
	for _, name := range names {
		g.server(name).start()
	}
}

// nodeOptions are those of a server.
func (s *server) nodeOptions() Options {
	opt := Options{
		Dir: s.dir, Name: s.name, Bind: s.g.address(s.name), Voter: true, Version: "test",
		ElectionTimeout: 600 * time.Millisecond, Listen: s.g.net.Listen(s.name), Dial: s.g.net.Dial(s.name),
		Logger: slog.New(slog.NewTextHandler(s.g.log, nil)).With("at", s.name),
	}
	for _, name := range s.g.join {
		opt.Join = append(opt.Join, Peer{name, s.g.address(name)})
	}
	if opt.address() == "" {
		opt.Join = append(opt.Join, Peer{s.name, s.g.address(s.name)})
	}
	if s.options != nil {
		s.options(&opt)
	}
	return opt
}

// start opens the node beside the test, and opens it again when it asks for that.
func (s *server) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.fatal = cancel, nil
	s.running.Go(func() {
		for {
			again, err := s.run(ctx)
			s.mu.Lock()
			if err != nil {
				s.fatal = err
				fmt.Fprintf(s.g.log, "%s has ended: %v\n", s.name, err)
			}
			if again {
				s.reopens++
			}
			s.mu.Unlock()
			if !again {
				return
			}
		}
	})
}

// run is the life of an open node.
func (s *server) run(ctx context.Context) (again bool, err error) {
	node, err := Open(ctx, s.nodeOptions())
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, err
	}
	opt := s.store
	opt.OpenLog, opt.LogAfter, opt.Follower, opt.RetentionInterval = node.OpenLog, node.LogAfter(), true, -1
	st, err := store.Open(s.dir, opt)
	if err != nil {
		return false, errors.Join(err, node.Close())
	}
	backups := backup.NewHandler(st, backup.HandlerOptions{Dir: s.dir})
	if err := node.Start(st, api{st}, backups, func(context.Context) {}); err != nil {
		return false, errors.Join(err, node.Close(), st.Close())
	}
	s.mu.Lock()
	s.node, s.st, s.backups = node, st, backups
	s.mu.Unlock()
	var asked error
	select {
	case <-ctx.Done():
	case asked = <-node.Restart():
	}
	s.mu.Lock()
	s.node, s.st, s.backups = nil, nil, nil
	s.mu.Unlock()
	backups.Close()
	if err := errors.Join(node.Close(), st.Close()); err != nil {
		return false, err
	}
	if errors.Is(asked, ErrReopen) {
		return true, nil
	}
	return false, asked
}

// stop ends the server as a signal does.
func (s *server) stop() {
	if s.cancel != nil {
		s.cancel()
	}
	s.running.Wait()
}

// now returns the open node, or nil.
func (s *server) now() (*Node, *store.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node, s.st
}

// ended waits until the server has ended by itself and returns why.
func (s *server) ended() error {
	s.g.t.Helper()
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		s.g.t.Fatalf("%s does not end", s.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fatal
}

// refused waits for the end of a server that must not start, and holds its error
// against a text.
func (s *server) refused(want string) {
	s.g.t.Helper()
	if err := s.ended(); err == nil || !strings.Contains(err.Error(), want) {
		s.g.t.Errorf("%s ends with %v, want %q", s.name, err, want)
	}
}

// oneRefused waits until a server has ended with a text; the others may wait for it.
func (g *group) oneRefused(want string) {
	g.t.Helper()
	g.await("a server refuses: "+want, func() bool {
		for _, s := range g.servers {
			s.mu.Lock()
			err := s.fatal
			s.mu.Unlock()
			if err != nil && !strings.Contains(err.Error(), want) {
				g.t.Fatalf("%s ends with %v, want %q", s.name, err, want)
			}
			if err != nil {
				return true
			}
		}
		return false
	})
	for _, s := range g.servers {
		s.stop()
		if n, _ := s.now(); n != nil {
			g.t.Errorf("%s runs", s.name)
		}
	}
}

// await waits until something is so.
func (g *group) await(what string, f func() bool) {
	g.t.Helper()
	for until := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			for name, s := range g.servers {
				if n, _ := s.now(); n != nil {
					g.t.Logf("%s: %+v", name, n.Status())
				}
			}
			g.t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// leader waits for a leader and returns it.
func (g *group) leader() (leader *server) {
	g.t.Helper()
	g.await("a leader", func() bool {
		for _, s := range g.servers {
			if n, _ := s.now(); n != nil && n.Leads() {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// voters waits until exactly these are voters, all caught up.
func (g *group) voters(names ...string) {
	g.t.Helper()
	slices.Sort(names)
	g.await(fmt.Sprintf("%v are the voters", names), func() bool {
		for _, name := range names {
			n, _ := g.servers[name].now()
			if n == nil || !n.replica.Ready() || n.identity().Joined == false {
				return false
			}
			var have []string
			for _, m := range n.members() {
				if m.Suffrage == 0 {
					have = append(have, self.NameOf(m.ID))
				}
			}
			slices.Sort(have)
			if !slices.Equal(have, names) {
				return false
			}
		}
		return true
	})
}

// three starts three empty nodes and waits for their cluster.
func three(t *testing.T, options ...func(*Options)) *group {
	g := newGroup(t, "n1", "n2", "n3")
	for _, o := range options {
		for _, name := range g.join {
			g.server(name).options = o
		}
	}
	g.start("n1", "n2", "n3")
	g.voters("n1", "n2", "n3")
	return g
}

// api writes lines and makes databases, for requests that nodes pass on.
type api struct{ st *store.Store }

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = a.do(r, string(body))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("X-By", r.Header.Get(relay.Header))
	w.WriteHeader(http.StatusNoContent)
}

func (a api) do(r *http.Request, body string) error {
	db := r.FormValue("db")
	if r.URL.Path == "/create" {
		return a.st.Apply(r.Context(), meta.CreateDatabase{Name: db})
	}
	if r.URL.Path == "/delete" { // what one host has in some hours
		hour, err := strconv.ParseInt(body, 10, 64)
		if err != nil {
			return err
		}
		at := hour * 3600 * second
		return a.st.Delete(r.Context(), scan.DeleteRequest{Database: db, Range: model.TimeRange{Min: at, Max: at + 3600*second - 1}})
	}
	table, err := a.st.Table(db)
	if err != nil {
		return err
	}
	var p lineproto.Parser
	var b point.Batch
	if _, err := p.Parse(&b, table, []byte(body), lineproto.Options{}); err != nil {
		return err
	}
	return a.st.Write(r.Context(), db, "", &b)
}

// send sends a request to a server, which passes it on if it does not lead. It tries
// again as clients do.
func (g *group) send(name, path, body string) {
	g.t.Helper()
	last := ""
	g.await("a request is taken: "+path, func() bool {
		n, st := g.servers[name].now()
		if n == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		if n.Leads() {
			api{st}.ServeHTTP(w, r)
		} else if err := n.Forward(w, r); err != nil {
			last = err.Error()
			return false
		}
		if w.Code != http.StatusNoContent {
			if w.Body.String() != last {
				last = w.Body.String()
				fmt.Fprintln(g.log, "answer", w.Code, last)
			}
			return false
		}
		return true
	})
}

func (g *group) create(name, db string) { g.t.Helper(); g.send(name, "/create?db="+db, "") }

const second = int64(time.Second)

// write writes n points of a series each, from a point on.
func (g *group) write(name, db string, from, n int) {
	g.t.Helper()
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "cpu,host=h%d v=%d,f%d=%di %d\n", i%50, i, i%7, i, int64(i)*3600*second)
	}
	g.send(name, "/write?db="+db, b.String())
}

// content returns all points of a server, sorted.
func (s *server) content() []string {
	s.g.t.Helper()
	_, st := s.now()
	if st == nil {
		return nil
	}
	return exported(s.g.t, st)
}

// linesOf returns all points of a directory that no server has open.
func linesOf(t *testing.T, dir string) []string {
	t.Helper()
	st, err := store.Open(dir, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	lines := exported(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return lines
}

func exported(t *testing.T, st *store.Store) []string {
	t.Helper()
	var b bytes.Buffer
	if _, err := exchange.Export(context.Background(), st, &b, exchange.ExportOptions{LinesOnly: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines)
	return lines
}

// equal waits until the servers have applied the same, and compares all points.
func (g *group) equal(names ...string) {
	g.t.Helper()
	leader := g.leader()
	g.await("all nodes have applied all", func() bool {
		n, _ := leader.now()
		if n == nil {
			return false
		}
		for _, name := range names {
			other, _ := g.servers[name].now()
			if other == nil || other.Position() != n.Position() {
				return false
			}
		}
		return true
	})
	want := leader.content()
	for _, name := range names {
		if got := g.servers[name].content(); !slices.Equal(got, want) {
			g.t.Fatalf("%s has %d lines, the leader %s has %d", name, len(got), leader.name, len(want))
		}
	}
}

// operate asks a server as an administrator does. It returns the status and the
// error's text.
func (g *group) operate(name, request string, to any) (int, string) {
	g.t.Helper()
	n, _ := g.servers[name].now()
	if n == nil {
		g.t.Fatalf("%s is not open", name)
	}
	method, path, _ := strings.Cut(request, " ")
	s := httptest.NewServer(n.Handler())
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c := &exchange.Client{URL: s.URL, HTTP: client}
	path, query, _ := strings.Cut(path, "?")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequest(method, s.URL+"?"+query, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	err = c.Ask(ctx, method, admin.Prefix+path, req.URL.Query(), nil, nil, to)
	var refused *exchange.WriteError
	switch {
	case err == nil:
		return http.StatusOK, ""
	case errors.As(err, &refused):
		return refused.Status, refused.Message
	}
	g.t.Fatal(err)
	return 0, ""
}

// answered is operate for a request that gets its answer from a leader, perhaps not at
// once.
func (g *group) answered(name, request string, to any) (status int, text string) {
	g.t.Helper()
	g.await("a leader answers "+request, func() bool {
		status, text = g.operate(name, request, to)
		return status != http.StatusServiceUnavailable
	})
	return status, text
}

// done is operate for a request that must succeed, perhaps not at once. If the lead
// changes meanwhile, a removal can fail though the member is gone; then the next try says
// that there is none of its name.
func (g *group) done(name, request string) {
	g.t.Helper()
	told := ""
	g.await(request, func() bool {
		status, text := g.operate(name, request, nil)
		if text != told {
			fmt.Fprintln(g.log, request, status, text)
		}
		gone := told != "" && strings.Contains(text, "no member has the name")
		told = text
		return status == http.StatusOK || gone
	})
}

// verify compares the nodes as an administrator does.
func (g *group) verify(name string) *admin.Verification {
	g.t.Helper()
	v := new(admin.Verification)
	if status, text := g.answered(name, "POST verify", v); status != http.StatusOK {
		g.t.Fatalf("verify: %d %s", status, text)
	}
	return v
}
