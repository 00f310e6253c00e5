package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/age"
	"tsdbd/cluster/clock"
	"tsdbd/cluster/heal"
	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/self"
	"tsdbd/cluster/transport"
	"tsdbd/exchange"
)

// pathPrefix is where a node answers other nodes. What is not below it are requests of
// clients that another node passes on.
const pathPrefix = "/cluster/v1/"

// peerStatus is what a node says of itself to another one.
type peerStatus struct {
	Cluster string `json:"cluster"`
	Name    string `json:"name"`
	ID      string `json:"id"`
	Address string `json:"address"`
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason"` // of the state
	Joined  bool   `json:"joined"`
	// At a first start.
	HasData bool   `json:"has_data"`
	Founder string `json:"founder"`
	Voter   bool   `json:"voter"` // it is to have a vote

	LogFormat  byte `json:"log_format"`  // the newest form of the log that its program reads
	RowsFormat byte `json:"rows_format"` // of messages with rows, as LogFormat
	// With which members the cluster was founded.
	Seats []self.Seat `json:"seats,omitempty"`

	Runs    bool    `json:"runs"`  // its store is open
	Ready   bool    `json:"ready"` // it has caught up since its start
	Leads   bool    `json:"leads"`
	Applied uint64  `json:"applied"`
	Lag     float64 `json:"lag_seconds"`
	Refuses string  `json:"refuses"` // why its store takes no writes
	Damage  string  `json:"damage"`  // why no other node may copy its state
	Damaged int     `json:"damaged"` // files and databases with damage
	Problem string  `json:"problem"`
	// Parts are those of its data that have damage.
	Parts []heal.Part `json:"parts,omitempty"`

	age.Sighting                         // of this node
	Seen         map[string]age.Sighting `json:"seen"`     // of the others, by id
	OldCopy      string                  `json:"old_copy"` // why the node does not take part
	Aside        string                  `json:"aside"`    // what it has set aside

	Now        int64  `json:"now"`         // its clock, in microseconds since 1970
	Clock      string `json:"clock"`       // what is wrong with it
	ClockWrong bool   `json:"clock_wrong"` // most voters have another time

	ahead time.Duration // its clock, of that of the node that has asked
}

// listen opens the port of the node.
func (n *Node) listen() error {
	var err error
	n.transport, err = transport.Listen(transport.Options{
		Bind: n.opt.Bind, Advertise: n.opt.address(), Secret: n.opt.Secret, TLS: n.opt.TLS,
		Self: n.hello, Check: n.greet, Logger: n.logger, Now: n.opt.Now,
		Dial: n.opt.Dial, Listen: n.opt.Listen,
	})
	if err != nil {
		return err
	}
	n.http = &http.Server{
		Handler:     n.whileOpen(n.peerHandler()),
		BaseContext: func(net.Listener) context.Context { return n.ctx }, ReadHeaderTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	listener := n.transport.HTTP()
	n.running.Go(func() { _ = n.http.Serve(listener) })
	return nil
}

// whileOpen has Close wait for requests under way.
func (n *Node) whileOpen(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		if n.mu.closed {
			n.mu.Unlock()
			fail(w, refuse(http.StatusServiceUnavailable, "node %s is shutting down", n.opt.Name))
			return
		}
		n.running.Add(1)
		n.mu.Unlock()
		defer n.running.Done()
		h.ServeHTTP(w, r)
	})
}

// hello is what the node says at the start of each connection.
func (n *Node) hello() transport.Hello {
	h := transport.Hello{Version: n.opt.Version, Name: n.opt.Name, Address: n.opt.address()}
	if i := n.identity(); i != nil {
		h.Cluster = i.Cluster
		if own := n.ages.Own(i.ID); own.Age > 0 { // before, it takes no part
			h.ID, h.Age, h.Process = i.ID, own.Age, own.Process
		}
	}
	return h
}

// members returns the servers in the latest configuration that the node knows.
func (n *Node) members() []raft.Server {
	if n.log == nil {
		return nil
	}
	return membersIn(n.log)
}

// membersIn returns the servers in the latest configuration of a log.
func membersIn(log *raftlog.Store) []raft.Server {
	last, err := log.LastIndex()
	if err != nil {
		return nil
	}
	c, _ := log.Configuration(max(last, log.Base().Index))
	return c.Servers
}

// votersOf returns those of some servers that have a vote.
func votersOf(servers []raft.Server) (voters []raft.Server) {
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, s)
		}
	}
	return voters
}

// refusal is an error with a status of HTTP.
type refusal struct {
	status int
	text   string
}

// Error returns the text.
func (r *refusal) Error() string { return r.text }

// Temporary reports whether the same request may succeed later.
func (r *refusal) Temporary() bool { return r.status == http.StatusServiceUnavailable }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var r *refusal
	var temporary interface{ Temporary() bool }
	var passed *exchange.WriteError
	text := err.Error()
	switch {
	case errors.As(err, &r):
		status = r.status
	case errors.As(err, &passed):
		status, text = passed.Status, passed.Message
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &temporary) && temporary.Temporary():
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text})
}

// answer answers a request with what f returns.
func answer(w http.ResponseWriter, r *http.Request, f func(r *http.Request) (any, error)) {
	v, err := f(r)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// peerHandler answers other nodes.
func (n *Node) peerHandler() http.Handler {
	mux := http.NewServeMux()
	handle := func(method, name string, f func(r *http.Request) (any, error)) {
		mux.HandleFunc(method+" "+pathPrefix+name, func(w http.ResponseWriter, r *http.Request) { answer(w, r, f) })
	}
	handle("GET", "status", func(*http.Request) (any, error) { return n.ownStatus(), nil })
	handle("GET", "base", func(*http.Request) (any, error) { return n.base() })
	handle("GET", "position", func(r *http.Request) (any, error) { return n.position(r.Context()) })
	handle("GET", "sums", func(r *http.Request) (any, error) { return n.markSums(r.Context(), r.FormValue("id")) })
	handle("POST", "removed", func(r *http.Request) (any, error) { return struct{}{}, n.removed(r.FormValue("id")) })
	handle("POST", "join", n.serveJoin)
	for operation := range operations {
		handle("POST", operation, n.operate)
	}
	mux.HandleFunc(pathPrefix+"api/tsdbd/backup", func(w http.ResponseWriter, r *http.Request) {
		o := n.open.Load()
		if o == nil || n.ctx.Err() != nil {
			fail(w, n.notReady())
			return
		}
		o.backups.ServeHTTP(w, r)
	})
	mux.HandleFunc(pathPrefix, func(w http.ResponseWriter, r *http.Request) {
		fail(w, refuse(http.StatusNotFound, "%s does not know the request %s: are the nodes of the same version?", n.opt.Name, r.URL.Path))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		o := n.open.Load()
		if o == nil {
			fail(w, n.notReady())
			return
		}
		if r.Header.Get(wholeHeader) == "" { // else what it reads may be anywhere
			if !n.replica.Leads() {
				w.Header().Set(notLeadingHeader, notLeading)
				fail(w, n.noLeader())
				return
			}
			if err := n.sameTerm(r); err != nil {
				w.Header().Set(notLeadingHeader, otherTerm)
				fail(w, err)
				return
			}
		}
		o.api.ServeHTTP(w, r)
	})
	return mux
}

func (n *Node) notReady() error {
	return refuse(http.StatusServiceUnavailable, "node %s is starting", n.opt.Name)
}

// base returns the log position that belongs to the state that a joining node copies from
// this node.
func (n *Node) base() (raftlog.Base, error) {
	st := n.current()
	if st == nil || !n.replica.Ready() {
		return raftlog.Base{}, n.notReady()
	}
	if d := n.opt.damage(st); d.first != "" {
		return raftlog.Base{}, refuse(http.StatusConflict, "%s has damage: %s", n.opt.Name, d.first)
	}
	return n.log.Base(), nil
}

// clientOf returns a client for requests of package backup at a node.
func (n *Node) clientOf(address string) *exchange.Client {
	return &exchange.Client{URL: "http://" + address + strings.TrimSuffix(pathPrefix, "/"), HTTP: n.transport.Client()}
}

// get asks the node at an address.
func (n *Node) get(ctx context.Context, address, path string, params url.Values, to any) error {
	return n.clientOf(address).Ask(ctx, http.MethodGet, "/"+path, params, nil, nil, to)
}

// post sends a request to the node at an address. body is sent as JSON unless it is nil.
func (n *Node) post(ctx context.Context, address, path string, params url.Values, body, to any) error {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	return n.clientOf(address).Ask(ctx, http.MethodPost, "/"+path, params, nil, r, to)
}

// statusOf asks the node at an address how it is.
func (n *Node) statusOf(ctx context.Context, address string) (*peerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout())
	defer cancel()
	s := new(peerStatus)
	sent := n.opt.Now()
	if err := n.get(ctx, address, "status", nil, s); err != nil {
		return nil, plain(err)
	}
	s.ahead = clock.Offset(s.Now, sent, n.opt.Now())
	n.hear(s)
	return s, nil
}

// plain leaves the request out of an error of HTTP: what it says of the connection is
// enough.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// leader returns where the leader is, "" if none is known. Requests that arrive before
// Start must not call it: Open makes the replica beside them.
func (n *Node) leader() (id raft.ServerID, address string) {
	if n.replica == nil {
		return "", ""
	}
	id, at := n.replica.Leader()
	if id == "" {
		return "", ""
	}
	return id, string(at)
}

// noLeader says that a request finds no leader, and what keeps the others from having
// one.
func (n *Node) noLeader() error {
	n.mu.Lock()
	hindered := slices.Clone(n.mu.hindered)
	n.mu.Unlock()
	if st := n.current(); st != nil {
		if reason := n.refuses(st); reason != "" {
			hindered = append(hindered, fmt.Sprintf("%s: takes no writes: %s", n.opt.Name, reason))
		}
	}
	return refuse(http.StatusServiceUnavailable, "%s", strings.Join(append([]string{"the cluster has no leader now"}, hindered...), "; "))
}

// atLeader sends a request to the leader. It waits a little for one.
func (n *Node) atLeader(ctx context.Context, path string, params url.Values, body, to any) error {
	address, err := n.awaitLeader(ctx)
	switch {
	case err != nil:
		return err
	case address == "":
		return n.noLeader() // this node leads since a moment ago
	}
	return plain(n.post(ctx, address, path, params, body, to))
}

// leaderWait is how long a request waits for a leader: an election takes about one
// election timeout after another one in which the loss of the leader is noticed.
func (n *Node) leaderWait() time.Duration { return 4 * n.opt.ElectionTimeout }
