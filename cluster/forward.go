package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/relay"
	"tsdbd/cluster/rows"
	"tsdbd/exchange"
)

// Leads reports whether this node takes writes.
func (n *Node) Leads() bool { return n.current() != nil && n.replica.Leads() }

// Term returns the term of the leader that this node knows.
func (n *Node) Term() uint64 { return n.replica.Term() }

// TakesRows reports whether the leader reads all that this node passes on in place of the body
// of a write. While it runs an older program, or has not said, it does not.
func (n *Node) TakesRows() bool {
	id, _ := n.leader()
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.mu.peers[id]
	return p != nil && p.RowsFormat >= rows.Newest
}

// WriteWaits is called when a write has waited in the store of this node for an election
// timeout.
func (n *Node) WriteWaits() {
	if n.current() != nil {
		n.replica.Probe()
	}
}

// Position returns how far this node has applied the log.
func (n *Node) Position() uint64 {
	if n.current() == nil {
		return 0
	}
	return n.replica.Applied()
}

// disksHeader says on how many disks a write is at least that is acknowledged.
const disksHeader = "X-Tsdbd-Disks"

// Stamp is called before a request is answered. What it returns adds to the header of
// the answer how far this node has applied the log and, for what only the leader does, on
// how many disks it is at least: the membership may have changed meanwhile.
func (n *Node) Stamp(leader bool) func(http.Header) {
	before := n.disks()
	return func(h http.Header) {
		h.Set(exchange.PositionHeader, strconv.FormatUint(n.Position(), 10))
		if leader {
			h.Set(disksHeader, strconv.Itoa(min(before, n.disks())))
		}
	}
}

// disks returns on how many disks something is when it is acknowledged: on those of most
// voters.
func (n *Node) disks() int { return len(votersOf(n.members()))/2 + 1 }

// Read returns when this node may answer a query: it has applied the log up to position,
// for a "strong" read all that was acknowledged before the call. It returns forward if the
// leader must answer, because this node is too far behind. For a "stale" read, and where
// there is no leader to ask, the node answers with everything that it knows to be committed.
// What others have committed within the time behind may be missing. replica.Unknown is any
// time.
func (n *Node) Read(ctx context.Context, position uint64, consistency string) (forward bool, behind time.Duration, err error) {
	if n.current() == nil {
		return false, 0, n.notReady()
	}
	strong, stale := consistency == "strong", consistency == "stale"
	if !n.replica.Ready() || n.replica.Lag() > n.opt.MaxLag {
		if strong || !stale && n.hasLeader() {
			return true, 0, nil
		}
		stale = true
	}
	switch {
	case strong:
		now, err := n.leaderPosition(ctx)
		if err != nil {
			return false, 0, err
		}
		position = max(position, now.Sequence)
	case stale:
		if err := n.replica.CaughtUp(ctx); err != nil {
			return false, 0, err
		}
		behind = n.replica.Lag()
	}
	return false, behind, n.replica.Wait(ctx, position)
}

// hasLeader says whether there may be a leader, other than this node, that can answer. It
// takes a node that has just started to learn of one.
func (n *Node) hasLeader() bool {
	switch leader, _ := n.leader(); leader {
	case "", raft.ServerID(n.identity().ID):
		return time.Since(n.open.Load().since) < n.leaderWait()
	}
	return true
}

// readPosition is the answer to a request for the position of a linearizable read.
type readPosition struct {
	Sequence uint64 `json:"sequence"`
}

// position returns what a linearizable read must wait for, at the leader.
func (n *Node) position(ctx context.Context) (readPosition, error) {
	if n.current() == nil {
		return readPosition{}, n.notReady()
	}
	sequence, err := n.replica.ReadPosition(ctx)
	return readPosition{sequence}, err
}

// leaderPosition asks the leader for it. It asks again, for a little, where the lead
// changes meanwhile.
func (n *Node) leaderPosition(ctx context.Context) (p readPosition, err error) {
	wait, cancel := context.WithTimeout(ctx, n.leaderWait())
	defer cancel()
	for {
		address, err := n.awaitLeader(wait)
		switch {
		case ctx.Err() != nil:
			return p, ctx.Err()
		case err != nil:
			return p, n.noLeader()
		case address == "":
			p, err = n.position(ctx)
		default:
			err = n.get(ctx, address, "position", nil, &p)
		}
		if err == nil || ctx.Err() != nil {
			return p, err
		}
		if !n.pause(wait, n.opt.ElectionTimeout/10) {
			return p, refuse(http.StatusServiceUnavailable, "ask the leader for a position: %v", plain(err))
		}
	}
}

// awaitLeader waits a little for a leader. It returns its address, or "" if this node
// leads.
func (n *Node) awaitLeader(ctx context.Context) (address string, err error) {
	wait, cancel := context.WithTimeout(ctx, n.leaderWait())
	defer cancel()
	for {
		id, address := n.leader()
		switch {
		case n.replica.Leads():
			return "", nil
		case address != "" && string(id) != n.identity().ID:
			return address, nil
		}
		if !n.pause(wait, n.opt.ElectionTimeout/20) {
			return "", cmp.Or(ctx.Err(), n.noLeader())
		}
	}
}

// notLeadingHeader is in the answer of a node that refuses a request that was passed on to
// it, because it does not lead, or leads in another term than that of the request.
const notLeadingHeader = "X-Tsdbd-Not-Leading"

// The values of notLeadingHeader. Any other one is as notLeading.
const notLeading, otherTerm = "1", "term"

// declined returns an error if the answer says that the node has refused a request because of
// the lead. The error reaches the client in the form of its API, the answer would not.
func (n *Node) declined(answer *http.Response) error {
	switch answer.Header.Get(notLeadingHeader) {
	case "":
		return nil
	case otherTerm:
		return refuse(http.StatusServiceUnavailable, "the lead changed while the request was passed on: it may be repeated")
	}
	return n.noLeader()
}

// termHeader has the term in which a node passes a request on. The leader refuses one of
// another term: the client may have repeated it meanwhile, and written newer points.
const termHeader = "X-Tsdbd-Term"

// sameTerm returns an error if a request was passed on in another term.
func (n *Node) sameTerm(r *http.Request) error {
	sent := r.Header.Get(termHeader)
	if now := strconv.FormatUint(n.replica.Term(), 10); sent != "" && sent != now {
		return refuse(http.StatusServiceUnavailable, "the request was passed on in term %s, it is term %s now: it may be repeated", sent, now)
	}
	return nil
}

// Forward sends a request of a client to the leader, with its body as it comes, and
// copies the answer to w. As long as nothing was sent, it waits a little for a leader
// that takes the request. If an error comes after the first byte of the answer, w has a
// part of it.
func (n *Node) Forward(w http.ResponseWriter, r *http.Request) error {
	if n.current() == nil {
		return n.notReady()
	}
	wait, cancel := context.WithTimeout(r.Context(), n.leaderWait())
	defer cancel()
	body := &relay.Body{ReadCloser: r.Body}
	for {
		address, err := n.awaitLeader(wait)
		if err != nil {
			return cmp.Or(r.Context().Err(), n.noLeader())
		}
		n.forwarded.Add(1)
		if address == "" {
			n.open.Load().api.ServeHTTP(w, r)
			return nil
		}
		sent, err := n.forwardTo(w, r, address, true, body, n.declined)
		switch {
		case err == nil:
			return nil
		case r.Context().Err() != nil:
			return r.Context().Err()
		case errors.As(err, new(*refusal)):
			return err
		case sent || body.Used():
			return refuse(http.StatusServiceUnavailable, "pass the request on to the leader: %v", plain(err))
		}
		// Nobody has seen the request. A new leader may be known soon.
		if !n.pause(wait, n.opt.ElectionTimeout/10) {
			return refuse(http.StatusServiceUnavailable, "the leader cannot be reached: %v", plain(err))
		}
	}
}

// forwardTo sends a request to the node at an address. Before the answer begins, it ends the
// request if the node is the leader and loses the lead, or if another node stops answering
// questions for its status. taken may decline the answer. sent says that the node may have seen
// the request.
func (n *Node) forwardTo(w http.ResponseWriter, r *http.Request, address string, leads bool, body *relay.Body, taken func(*http.Response) error) (sent bool, err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	r = r.WithContext(ctx)
	var lost context.Context
	if leads {
		lost = n.leadOf(address)
		r.Header = r.Header.Clone()
		r.Header.Set(termHeader, strconv.FormatUint(n.replica.Term(), 10))
	} else {
		lost = n.silenceOf(ctx, address)
	}
	answered := context.AfterFunc(lost, func() { cancel(errGone) })
	defer answered()
	return relay.Send(n.transport.Client().Transport, w, r, address, n.opt.Name, body, func(answer *http.Response) error {
		answered()
		return taken(answer)
	})
}

// Others returns the addresses of the other nodes, the leader's first.
func (n *Node) Others() (addresses []string) {
	leader, _ := n.leader()
	for _, s := range n.members() {
		switch {
		case string(s.ID) == n.identity().ID:
		case s.ID == leader:
			addresses = slices.Insert(addresses, 0, string(s.Address))
		default:
			addresses = append(addresses, string(s.Address))
		}
	}
	return addresses
}

// wholeHeader marks a request that another node cannot answer whole. Package httpapi fails
// with a 5xx if it cannot either.
const wholeHeader = "X-Tsdbd-Whole"

// Ask sends a request of a client to the node at an address and copies the answer to w,
// unless that says that the node cannot do it: 5xx. Then w has nothing.
func (n *Node) Ask(address string, w http.ResponseWriter, r *http.Request) error {
	n.forwarded.Add(1)
	r.Header.Set(wholeHeader, "true")
	_, leader := n.leader()
	_, err := n.forwardTo(w, r, address, leader == address, &relay.Body{ReadCloser: r.Body}, func(answer *http.Response) error {
		switch code := answer.StatusCode; {
		case code >= http.StatusInternalServerError, code == http.StatusUnauthorized, code == http.StatusForbidden: // it may not know the user yet
			return refuse(answer.StatusCode, "the node at %s cannot answer", address)
		}
		return nil
	})
	return err
}

// errGone ends a request to a node that has not answered it.
var errGone = errors.New("it does not lead any more, or says nothing, and has not answered")

// silenceOf returns a context that ends when a node has twice not answered how it is.
func (n *Node) silenceOf(ctx context.Context, address string) context.Context {
	silence, end := context.WithCancel(ctx)
	go func() {
		defer end()
		for failed := 0; failed < 2; {
			failed++
			if _, err := n.statusOf(ctx, address); err == nil {
				failed = 0
			}
			if !n.pause(ctx, n.timeout()/4) {
				return
			}
		}
	}()
	return silence
}

// lead is the time in which a node leads, as this one sees it.
type lead struct {
	address string
	seen    time.Time // when it led for sure
	ctx     context.Context
	end     context.CancelFunc
}

// leadOf returns a context that ends when another node than that at an address leads,
// or none is known for an election timeout.
func (n *Node) leadOf(address string) context.Context {
	if _, now := n.leader(); now != "" && now != address {
		ctx, end := context.WithCancel(n.ctx)
		end()
		return ctx
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.lead == nil || n.mu.lead.address != address {
		n.endLeadLocked()
		l := &lead{address: address, seen: time.Now()}
		l.ctx, l.end = context.WithCancel(n.ctx)
		n.mu.lead = l
	}
	return n.mu.lead.ctx
}

func (n *Node) endLeadLocked() {
	if n.mu.lead != nil {
		n.mu.lead.end()
		n.mu.lead = nil
	}
}

// watchLead ends the contexts of leadOf. It runs until Close.
func (n *Node) watchLead() {
	tick := time.NewTicker(n.opt.ElectionTimeout / 4)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		_, now := n.leader()
		n.mu.Lock()
		switch l := n.mu.lead; {
		case l == nil:
		case now == l.address:
			l.seen = time.Now()
		case now != "", time.Since(l.seen) > n.opt.ElectionTimeout:
			n.endLeadLocked()
		}
		n.mu.Unlock()
	}
}
