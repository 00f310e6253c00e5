package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/store"
)

// settled starts three nodes of which n1 leads.
func settled(t *testing.T, options ...func(*Options)) *group {
	t.Helper()
	g := three(t, options...)
	g.done("n1", "POST transfer-leader?name=n1")
	g.await("n1 leads", func() bool { n, _ := g.servers["n1"].now(); return n != nil && n.Leads() })
	g.create("n1", "d")
	g.equal("n1", "n2", "n3")
	return g
}

// setAPI has other requests answered at a server that another node passes on.
func (s *server) setAPI(h http.HandlerFunc) {
	n, _ := s.now()
	o := *n.open.Load()
	o.api = h
	n.open.Store(&o)
}

// TestForward holds what arrives at the leader, and what comes back, against what was
// sent.
func TestForward(t *testing.T) {
	g := settled(t)
	g.servers["n1"].setAPI(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		for name, want := range map[string]string{
			"Authorization": "Token x", "X-Tsdbd-Forwarded": "n2", "Connection": "", "X-Hop": "", "Content-Encoding": "gzip",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("header %s: %q, want %q", name, got, want)
			}
		}
		if err != nil || string(body) != "body" || r.URL.RequestURI() != "/a%2Fb?x=1&y=%20" || r.Method != http.MethodPut || r.Host != "client.example" {
			t.Errorf("%s %s %q at %s, %v", r.Method, r.URL.RequestURI(), body, r.Host, err)
		}
		w.Header().Set("X-Answer", "yes")
		w.Header().Set("Trailer", "X-End")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "answer")
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, " goes on")
		w.Header().Set("X-End", "end")
	})
	n2, _ := g.servers["n2"].now()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := n2.Forward(w, r); err != nil {
			t.Error(err)
		}
	}))
	defer front.Close()
	req, err := http.NewRequest(http.MethodPut, front.URL+"/a%2Fb?x=1&y=%20", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "client.example"
	req.Header = http.Header{"Authorization": {"Token x"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Content-Encoding": {"gzip"}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "answer goes on" || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Answer") != "yes" || resp.Trailer.Get("X-End") != "end" {
		t.Errorf("%d %v %q %v %v", resp.StatusCode, resp.Header, body, resp.Trailer, err)
	}
	if n := n2.forwarded.Load(); n == 0 {
		t.Error("the request is not counted")
	}
}

// TestForwardOnce: a request that the leader may have seen is not sent again, and one
// to a leader that hangs ends when another node leads.
func TestForwardOnce(t *testing.T) {
	g := settled(t)
	var seen atomic.Int64
	began := make(chan struct{})
	g.servers["n1"].setAPI(func(_ http.ResponseWriter, r *http.Request) {
		if seen.Add(1) == 1 {
			close(began)
		}
		<-r.Context().Done()
	})
	for _, name := range []string{"n2", "n3"} {
		g.servers[name].setAPI(func(http.ResponseWriter, *http.Request) { seen.Add(1) })
	}
	n2, _ := g.servers["n2"].now()
	result := make(chan error, 1)
	go func() {
		result <- n2.Forward(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/write", strings.NewReader("x")))
	}()
	<-began
	// The leader hangs: nothing comes from it or goes to it, and no connection ends.
	g.net.Partition("n1")
	err := <-result
	var temporary interface{ Temporary() bool }
	if !errors.As(err, &temporary) || !temporary.Temporary() || !strings.Contains(err.Error(), "does not lead any more") {
		t.Errorf("a request to a leader that hangs: %v", err)
	}
	if n := seen.Load(); n != 1 {
		t.Errorf("the request was seen %d times", n)
	}
	g.net.HealAll()
}

// TestForwardedLate: a request that was passed on in another term does nothing. It may have
// lain in the socket of a node that stood still, and its client has repeated it.
func TestForwardedLate(t *testing.T) {
	g := settled(t)
	var seen atomic.Int64
	g.servers["n1"].setAPI(func(http.ResponseWriter, *http.Request) { seen.Add(1) })
	n1, _ := g.servers["n1"].now()
	n2, _ := g.servers["n2"].now()
	f := func(term uint64, status int) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/write", strings.NewReader("x"))
		r.Header.Set(termHeader, strconv.FormatUint(term, 10))
		w := httptest.NewRecorder()
		n1.peerHandler().ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("term %d: %d %s", term, w.Code, w.Body)
		}
		// The client gets it in the form of its API, from the node that has passed it on.
		err := n2.declined(w.Result())
		var refused *refusal
		if (status != http.StatusOK) != (errors.As(err, &refused) && refused.Temporary() && strings.Contains(err.Error(), "may be repeated")) {
			t.Errorf("term %d: the node that has passed the request on takes the answer for %v", term, err)
		}
	}
	now := n1.replica.Term()
	f(now, http.StatusOK)
	f(now-1, http.StatusServiceUnavailable)
	f(now+1, http.StatusServiceUnavailable)
	if n := seen.Load(); n != 1 {
		t.Errorf("%d requests were seen", n)
	}
}

// TestAsk: a node asks the others for what it cannot answer, the leader first. An answer
// that says that a node has failed is none.
func TestAsk(t *testing.T) {
	g := settled(t)
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Answer", r.Header.Get("X-Tsdbd-Forwarded"))
			w.WriteHeader(status)
			fmt.Fprintf(w, "%s of %d", body, status)
		}
	}
	g.servers["n1"].setAPI(answer(http.StatusInternalServerError))
	g.servers["n3"].setAPI(answer(http.StatusNotFound))
	n2, _ := g.servers["n2"].now()
	others := n2.Others()
	if _, leader := n2.leader(); len(others) != 2 || others[0] != leader {
		t.Fatalf("others %v, leader %s", others, leader)
	}
	ask := func(address string) (*httptest.ResponseRecorder, error) {
		w := httptest.NewRecorder()
		err := n2.Ask(address, w, httptest.NewRequest(http.MethodPost, "/query", strings.NewReader("q")))
		return w, err
	}
	if w, err := ask(others[0]); err == nil || w.Body.Len() != 0 || len(w.Header()) != 0 {
		t.Errorf("a node that has failed: %v, %d %v %q", err, w.Code, w.Header(), w.Body)
	}
	if w, err := ask(others[1]); err != nil || w.Code != http.StatusNotFound || w.Body.String() != "q of 404" || w.Header().Get("X-Answer") != "n2" {
		t.Errorf("a node that answers: %v, %d %v %q", err, w.Code, w.Header(), w.Body)
	}
	g.servers["n3"].setAPI(answer(http.StatusForbidden))
	if w, err := ask(others[1]); err == nil || w.Body.Len() != 0 {
		t.Errorf("a node that may not know the user yet: %v, %d %q", err, w.Code, w.Body)
	}
	// One that hangs is given up; a slow one is not.
	g.servers["n3"].setAPI(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * n2.timeout())
		w.WriteHeader(http.StatusOK)
	})
	if w, err := ask(others[1]); err != nil || w.Code != http.StatusOK {
		t.Errorf("a slow node: %v, %d", err, w.Code)
	}
	hangs, end := context.WithCancel(t.Context())
	defer end()
	g.servers["n3"].setAPI(func(http.ResponseWriter, *http.Request) {
		g.net.Cut("n3", "n2") // as if it were stopped
		<-hangs.Done()
	})
	done := make(chan error, 1)
	go func() { _, err := ask(others[1]); done <- err }()
	select {
	case err := <-done:
		if !errors.Is(err, errGone) {
			t.Errorf("a node that hangs: %v", err)
		}
	case <-time.After(patience):
		t.Error("a node that hangs is asked for ever")
	}
	g.net.HealAll()
}

// TestForwardWaits: a request for which there is no leader yet waits for one and is
// then answered; without one it ends.
func TestForwardWaits(t *testing.T) {
	g := settled(t)
	var answered atomic.Int64
	for _, name := range []string{"n2", "n3"} {
		g.servers[name].setAPI(func(w http.ResponseWriter, _ *http.Request) {
			answered.Add(1)
			w.WriteHeader(http.StatusNoContent)
		})
	}
	g.servers["n1"].stop()
	for _, name := range []string{"n2", "n3"} {
		n, _ := g.servers[name].now()
		g.await("a request at "+name+" is answered", func() bool { // at once, unless the machine is slow
			w := httptest.NewRecorder()
			err := n.Forward(w, httptest.NewRequest(http.MethodPost, "/write", strings.NewReader("x")))
			if err == nil && w.Code != http.StatusNoContent {
				t.Errorf("at %s: %d", name, w.Code)
			}
			return err == nil
		})
	}
	if n := answered.Load(); n < 2 {
		t.Errorf("%d requests of 2 answered", n)
	}
	g.servers["n3"].stop()
	n2, _ := g.servers["n2"].now()
	g.await("no leader", func() bool { id, _ := n2.leader(); return id == "" && !n2.Leads() })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := n2.Forward(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/write", strings.NewReader("x")))
	if err == nil {
		t.Error("a request without a leader succeeds")
	}
}

// TestAnswerAtClose: another node gets the answer to a request under which this node
// closes, as to its own removal.
func TestAnswerAtClose(t *testing.T) {
	g := settled(t)
	began := make(chan struct{})
	g.servers["n1"].setAPI(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done() // Close has begun
		time.Sleep(50 * time.Millisecond)
		w.WriteHeader(http.StatusTeapot)
	})
	n2, _ := g.servers["n2"].now()
	result := make(chan error, 1)
	go func() {
		resp, err := n2.transport.Client().Get("http://" + g.address("n1") + "/")
		if err == nil {
			err = resp.Body.Close()
			if resp.StatusCode != http.StatusTeapot {
				err = fmt.Errorf("answer %d", resp.StatusCode)
			}
		}
		result <- err
	}()
	<-began
	g.servers["n1"].stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// TestRead: a position is waited for, a strong read sees what was acknowledged anywhere,
// and a node that is behind has the leader answer.
func TestRead(t *testing.T) {
	g := settled(t)
	n1, _ := g.servers["n1"].now()
	for i := range 50 {
		g.write("n1", "d", i, 1)
		position := n1.Position()
		for _, name := range []string{"n1", "n2", "n3"} {
			n, _ := g.servers[name].now()
			at, strong := position, ""
			if i%2 == 0 {
				at, strong = 0, "strong"
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			forward, behind, err := n.Read(ctx, at, strong)
			cancel()
			if err != nil || forward || behind != 0 || n.Position() < position {
				t.Fatalf("%s, %q: forward %t, %v, at %d of %d", name, strong, forward, err, n.Position(), position)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := n1.Read(ctx, n1.Position()+1000, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a position that is not there: %v", err)
	}
	g.servers["n3"].stop()
	g.servers["n3"].options = func(o *Options) { o.MaxLag = 2 * time.Second }
	g.start("n3")
	g.voters("n1", "n2", "n3")
	n3, _ := g.servers["n3"].now()
	g.net.Partition("n3")
	g.await("n3 is behind", func() bool {
		forward, behind, err := n3.Read(t.Context(), 0, "")
		if err != nil {
			t.Fatal(err)
		}
		if forward && behind != 0 || behind != 0 && behind <= 2*time.Second {
			t.Fatalf("forward %t, behind %s", forward, behind)
		}
		return behind > 0
	})
	if forward, _, err := n3.Read(t.Context(), 0, "strong"); err != nil || !forward {
		t.Errorf("a strong read without a leader: forward %t, %v", forward, err)
	}
	if ok, text := n3.Health(); ok {
		t.Errorf("a node that is behind is healthy: %s", text)
	}
	g.net.HealAll()
	g.await("n3 has caught up", func() bool {
		forward, behind, err := n3.Read(t.Context(), 0, "")
		return err == nil && !forward && behind == 0
	})
}

// TestStrongReadsDuringTransfers: no strong read fails because the lead changes.
func TestStrongReadsDuringTransfers(t *testing.T) {
	// A read waits a multiple of it for a leader: long enough for a busy machine.
	g := settled(t, func(o *Options) { o.ElectionTimeout = 3 * time.Second })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, name := range []string{"n1", "n2", "n3"} {
		n, _ := g.servers[name].now()
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := n.Read(ctx, 0, "strong"); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	for _, name := range []string{"n2", "n3", "n1", "n2", "n1", "n3"} {
		g.done("n1", "POST transfer-leader?name="+name)
	}
	close(stop)
	readers.Wait()
}

// TestVerifyFinds: what one node has and the others do not is found, with the place.
func TestVerifyFinds(t *testing.T) {
	g := settled(t)
	g.write("n1", "d", 0, 100)
	g.equal("n1", "n2", "n3")
	s := g.servers["n3"]
	s.stop()
	// A point comes into the files of one node, past the cluster.
	st, err := store.Open(s.dir, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	put(t, st, "d", 150, 1) // into a shard that is there
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	g.write("n1", "d", 100, 10) // the log goes on, or n3 would see that its files are ahead
	g.write("n1", "d", 110, 10)
	s.start()
	g.voters("n1", "n2", "n3")
	for _, name := range []string{"n1", "n3"} {
		v := g.verify(name)
		if v.Equal || len(v.Nodes) != 3 || len(v.Differences) == 0 {
			t.Fatalf("%+v", v)
		}
		for _, d := range v.Differences {
			if d.Database != "d" || d.RetentionPolicy != "autogen" || d.Sums["n1"] != d.Sums["n2"] || d.Sums["n1"] == d.Sums["n3"] {
				t.Errorf("difference %+v", d)
			}
		}
	}
	n1, _ := g.servers["n1"].now()
	n1.sums.mu.Lock()
	defer n1.sums.mu.Unlock()
	if len(n1.sums.mu.marks) > maxSums {
		t.Errorf("%d marks are kept", len(n1.sums.mu.marks))
	}
}

// TestTakesRows: a node knows whether its leader reads what it sends in place of a body.
func TestTakesRows(t *testing.T) {
	g := settled(t)
	n, _ := g.servers["n2"].now()
	g.await("n2 knows that n1 takes rows", n.TakesRows)
	id, _ := n.leader()
	for _, p := range []*peerStatus{nil, {}} { // of another program: it says nothing of rows
		older := &Node{}
		older.replica = n.replica
		older.mu.peers = map[raft.ServerID]*peerStatus{id: p}
		if older.TakesRows() {
			t.Errorf("a leader that says %v takes rows", p)
		}
	}
}
