package admin

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tsdbd/exchange"
)

// node answers as a node would, and notes what it is asked.
func node(t *testing.T, asked *[]string, answers map[string]any) *exchange.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
		answer, ok := answers[strings.TrimPrefix(r.URL.Path, Prefix)]
		if text, failed := answer.(string); failed {
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = map[string]string{"error": text}
		} else if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]string{"error": "not found"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return &exchange.Client{URL: s.URL}
}

func TestClient(t *testing.T) {
	ctx := context.Background()
	var asked []string
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	well := node(t, &asked, map[string]any{
		"status": Status{Node: "n2", Leader: "n1", Applied: 7}, "verify": Verification{Equal: true, Sequence: 7},
		"add": struct{}{}, "remove": struct{}{}, "transfer-leader": map[string]string{"leader": "n3"},
	})
	c := &Client{Nodes: []*exchange.Client{{URL: "http://127.0.0.1:1"}, {URL: silent.URL}, well}, Timeout: 200 * time.Millisecond}
	if s, err := c.Status(ctx); err != nil || s.Node != "n2" || s.Applied != 7 {
		t.Errorf("%+v %v", s, err)
	}
	c.Nodes, asked = c.Nodes[2:], nil
	if v, err := c.Verify(ctx); err != nil || !v.Equal || v.Sequence != 7 {
		t.Errorf("%+v %v", v, err)
	}
	if err := c.Add(ctx, "n 4", false); err != nil {
		t.Error(err)
	}
	if err := c.Remove(ctx, "n4"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "n3"} {
		if leader, err := c.TransferLeader(ctx, name); err != nil || leader != "n3" {
			t.Errorf("leader %s %v", leader, err)
		}
	}
	var posts []string
	for _, a := range asked {
		if strings.HasPrefix(a, "POST ") {
			posts = append(posts, strings.TrimPrefix(a, "POST "+Prefix))
		}
	}
	if got, want := strings.Join(posts, " "), "verify? add?name=n+4&voter=false remove?name=n4 transfer-leader? transfer-leader?name=n3"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// TestClientErrors: a node that answers with an error is not passed over, and
// when none answers, the error names each.
func TestClientErrors(t *testing.T) {
	ctx := context.Background()
	var asked []string
	alone, leaderless := node(t, &asked, nil), node(t, &asked, map[string]any{"status": Status{}, "remove": "no leader"})
	if _, err := (&Client{Nodes: []*exchange.Client{alone, leaderless}}).Status(ctx); err == nil || !strings.HasPrefix(err.Error(), alone.URL+" is not a node of a cluster: ") {
		t.Errorf("a server without a cluster: %v", err)
	}
	if err := (&Client{Nodes: []*exchange.Client{leaderless}}).Remove(ctx, "n1"); err == nil || !strings.Contains(err.Error(), "503: no leader") {
		t.Errorf("without a leader: %v", err)
	}
	_, err := (&Client{Nodes: []*exchange.Client{{URL: "http://127.0.0.1:1"}, {URL: "http://127.0.0.1:2"}}}).Status(ctx)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "127.0.0.1:2") {
		t.Errorf("no node: %v", err)
	}
}

// TestLasting: what may heal by itself is told from what cannot.
func TestLasting(t *testing.T) {
	answers := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return s.URL
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	const refused = "http://127.0.0.1:1"
	f := func(want bool, urls ...string) {
		t.Helper()
		c := &Client{}
		for _, u := range urls {
			c.Nodes = append(c.Nodes, &exchange.Client{URL: u})
		}
		if _, err := c.Status(t.Context()); err == nil || Lasting(err) != want {
			t.Errorf("%v: lasting is not %t", err, want)
		}
	}
	f(true, answers(400))
	f(true, answers(401))
	f(true, answers(403))
	f(false, answers(404))
	f(false, answers(503))
	f(false, refused)
	f(true, secure.URL)
	f(true, strings.Replace(secure.URL, "https", "http", 1))
	f(true, strings.Replace(answers(200), "http", "https", 1))
	f(false, refused, secure.URL)
	f(true, secure.URL, secure.URL)
	if Lasting(nil) {
		t.Error("no error is lasting")
	}
}

func TestDegraded(t *testing.T) {
	f := func(want string, change func(s *Status)) {
		t.Helper()
		s := &Status{Leader: "n1", Members: []Member{{Name: "n1", Reachable: true}, {Name: "n2", Address: "127.0.0.1:2", Reachable: true}}}
		change(s)
		if got := strings.Join(s.Degraded(), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f("", func(*Status) {})
	f("no leader is known: writes get 503 until there is one", func(s *Status) { s.Leader = "" })
	f("n2: not reachable at 127.0.0.1:2", func(s *Status) { s.Members[1].Problem = "not reachable at 127.0.0.1:2" })
	f("The log is damaged.", func(s *Status) { s.Problems = []string{"The log is damaged."} })
	// What a node has in its problems is not there twice.
	f("no leader is known: writes get 503 until there is one; The log is damaged.; n2: its clock is off", func(s *Status) {
		s.Leader, s.Problems, s.Members[1].Problem = "", []string{"The log is damaged."}, "its clock is off"
		s.Problems = s.Degraded()
	})
}
