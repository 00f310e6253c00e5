package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/self"
	"tsdbd/exchange"
	"tsdbd/meta"
)

// joinRequest asks the leader to take a node into the cluster, or to note its new
// address.
type joinRequest struct {
	Name    string   `json:"name"`
	ID      string   `json:"id"`
	Address string   `json:"address"`
	Former  []string `json:"former"` // ids that the node has given up
	Joined  bool     `json:"joined"` // the cluster has had the node with this id
	Ask     bool     `json:"ask"`    // only whether it would be taken
	// LogFormat is the newest form of the log that the program of the node reads.
	LogFormat byte `json:"log_format"`
	Passed    bool `json:"passed"` // by a node that does not lead: it is not passed on again
}

// attend has the node become the member that it is to be: it joins, tells its new
// address, and asks for a vote. It runs until Close.
func (n *Node) attend() {
	told := ""
	lead := time.Now() // when a leader was known last
	for {
		if _, address := n.leader(); address != "" {
			lead = time.Now()
		}
		err := n.attendOnce(time.Since(lead) > 5*n.opt.ElectionTimeout)
		text := ""
		if err != nil && n.ctx.Err() == nil {
			text = err.Error()
			n.setProblem("The node is not yet the member that it is to be: " + text + ".")
		} else {
			n.setProblem("")
		}
		if text != told && text != "" {
			n.logger.Warn("the node is not yet the member that it is to be, which is tried again", "err", err)
		}
		told = text
		if !n.pause(n.ctx, n.opt.ElectionTimeout/2) {
			return
		}
	}
}

// attendOnce makes one step. lonely says that no leader has been known for long: the
// node may have been removed.
func (n *Node) attendOnce(lonely bool) error {
	i := n.identity()
	if i.State != self.Member {
		return nil
	}
	own, err := find(n.members(), n.opt.Name)
	ok := err == nil && string(own.ID) == i.ID
	request := joinRequest{Name: i.Name, ID: i.ID, Address: n.opt.address(), Former: i.Former, Joined: i.Joined}
	switch {
	case !i.Joined && ok: // the answer was lost
	case !ok, !i.Joined, string(own.Address) != request.Address:
		if err := n.askMembers(n.ctx, i, request); err != nil {
			return n.gone(err)
		}
	case lonely:
		request.Ask = true
		_ = n.gone(n.askMembers(n.ctx, i, request)) // the others may be silent too
		return nil
	default:
		if own.Suffrage == raft.Voter && !i.Voted {
			return n.setIdentity(func(i *self.Identity) { i.Voted = true })
		}
		if own.Suffrage == raft.Nonvoter && n.opt.Voter && !i.Voted && n.replica.Ready() {
			return n.atLeader(n.ctx, "promote", url.Values{"name": {i.Name}}, nil, nil)
		}
		n.giveWay()
		return nil
	}
	if i.Joined && len(i.Former) == 0 && i.Address == request.Address {
		return nil
	}
	return n.setIdentity(func(i *self.Identity) { i.Joined, i.Former, i.Address = true, nil, request.Address })
}

// gone looks whether an error of a join says that the cluster has removed the node, or
// that another server runs as this node.
func (n *Node) gone(err error) error {
	var refusal *exchange.WriteError
	switch {
	case !errors.As(err, &refusal):
	case refusal.Status == http.StatusGone:
		return n.removed(n.identity().ID)
	case refusal.Status == http.StatusLocked:
		n.ask(err)
	}
	return err
}

// checkMoved refuses to start at a new address while a server runs with the same
// identity at the old one. If no leader answers, the node starts.
func (n *Node) checkMoved(ctx context.Context) error {
	i := n.identity()
	if !i.Joined || i.Address == n.opt.address() {
		return nil
	}
	err := n.askMembers(ctx, i, joinRequest{Name: i.Name, ID: i.ID, Address: n.opt.address(), Former: i.Former, Joined: true, Ask: true})
	var refusal *exchange.WriteError
	if errors.As(err, &refusal) && refusal.Status == http.StatusLocked {
		return err
	}
	return nil
}

// removed notes that the cluster has removed the node.
func (n *Node) removed(id string) error {
	i := n.identity()
	if i == nil || id != i.ID {
		return refuse(http.StatusConflict, "%s is not %s", n.opt.Name, id)
	}
	if i.State == self.Left {
		return nil
	}
	reason := "was removed from cluster " + i.Cluster
	if err := n.setIdentity(func(i *self.Identity) { i.State, i.Reason = self.Left, reason }); err != nil {
		return err
	}
	n.ask(fmt.Errorf("node %s %s", n.opt.Name, reason))
	return nil
}

// askMembers sends a join request to the nodes that may be members until one has
// answered for the leader.
func (n *Node) askMembers(ctx context.Context, i *self.Identity, request joinRequest) error {
	request.LogFormat = n.opt.LogFormat
	var addresses []string
	if _, address := n.leader(); address != "" {
		addresses = append(addresses, address)
	}
	for _, p := range n.knownPeers() {
		if !slices.Contains(addresses, p.Address) {
			addresses = append(addresses, p.Address)
		}
	}
	var errs []error
	for _, address := range addresses {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, n.timeout()+n.leaderWait())
			defer cancel()
			return plain(n.post(ctx, address, "join", nil, request, nil))
		}()
		var refused *exchange.WriteError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable:
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	if len(errs) == 0 {
		return fmt.Errorf("no other node of cluster %s is known: name the members in cluster.join", i.Cluster)
	}
	return fmt.Errorf("%w: %w", errSilent, errors.Join(errs...))
}

// errSilent says that no member could answer a join request.
var errSilent = errors.New("no member answers for the leader")

// serveJoin answers a node that wants to join, or passes the request on to the leader.
func (n *Node) serveJoin(r *http.Request) (any, error) {
	var request joinRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&request); err != nil {
		return nil, refuse(http.StatusBadRequest, "read join request: %v", err)
	}
	if n.current() == nil {
		return nil, n.notReady()
	}
	if !n.replica.Leads() {
		if request.Passed {
			return nil, n.noLeader()
		}
		address, err := n.awaitLeader(r.Context())
		if err != nil {
			return nil, err
		}
		if address != "" {
			request.Passed = true
			return struct{}{}, plain(n.post(r.Context(), address, "join", nil, request, nil))
		}
	}
	return struct{}{}, n.join(r.Context(), &request)
}

// change does one change of the membership at a time, at the leader. f gets the members.
func (n *Node) change(f func(rf *raft.Raft, servers []raft.Server) error) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if !n.replica.Leads() {
		return n.noLeader()
	}
	rf := n.replica.Raft()
	members := rf.GetConfiguration()
	if err := members.Error(); err != nil {
		return err
	}
	return f(rf, members.Configuration().Servers)
}

// changeTimeout bounds how long a change waits for its place in the log.
const changeTimeout = 10 * time.Second

// outcome returns what became of a change.
func outcome(f raft.Future) error {
	err := f.Error()
	if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, raft.ErrEnqueueTimeout) || errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		return refuse(http.StatusServiceUnavailable, "change the membership: %v", err)
	}
	return err
}

// join takes a node into the cluster, without a vote.
func (n *Node) join(ctx context.Context, request *joinRequest) error {
	if err := self.CheckName(request.Name); err != nil || request.Name == "" || self.NameOf(raft.ServerID(request.ID)) != request.Name || request.Address == "" {
		return refuse(http.StatusBadRequest, "join as %q at %q: %v", request.ID, request.Address, err)
	}
	return n.change(func(rf *raft.Raft, servers []raft.Server) error {
		here := -1
		for at, s := range servers {
			switch {
			case string(s.ID) == request.ID:
				here = at
			case self.NameOf(s.ID) == request.Name && !slices.Contains(request.Former, string(s.ID)):
				return refuse(http.StatusConflict, "a member %s exists, and the directory of this node is not that member's: if %s is lost for good, run tsdbd cluster remove %s and start this node again; otherwise give this node another name", request.Name, request.Name, request.Name)
			case self.NameOf(s.ID) != request.Name && string(s.Address) == request.Address:
				return refuse(http.StatusConflict, "member %s has the address %s: give %s an address of its own, or run tsdbd cluster remove %s", self.NameOf(s.ID), s.Address, request.Name, self.NameOf(s.ID))
			}
		}
		for _, s := range servers {
			if self.NameOf(s.ID) != request.Name || string(s.Address) == request.Address {
				continue
			}
			at, err := n.statusOf(ctx, string(s.Address))
			if err == nil && at.ID == string(s.ID) && at.Address != request.Address {
				return refuse(http.StatusLocked, "%s runs at %s with a copy of this directory: two such servers could undo what the cluster has acknowledged. Stop the one at %s, or start this one with an empty directory and a name of its own", request.Name, at.Address, at.Address)
			}
		}
		switch {
		case max(request.LogFormat, 1) < n.logFormat():
			return refuse(http.StatusConflict, "%s runs a program that reads the log up to format %d, and the cluster writes format %d: start it with the program of the other nodes", request.Name, max(request.LogFormat, 1), n.logFormat())
		case here < 0 && request.Joined:
			return refuse(http.StatusGone, "%s was removed from the cluster", request.Name)
		case request.Ask, here >= 0 && string(servers[here].Address) == request.Address:
			return nil
		case here >= 0 && servers[here].Suffrage == raft.Voter: // a new address
			n.logger.Info("member has a new address", "node", request.Name, "address", request.Address)
			return outcome(rf.AddVoter(raft.ServerID(request.ID), raft.ServerAddress(request.Address), 0, changeTimeout))
		}
		for _, s := range servers {
			if self.NameOf(s.ID) == request.Name && string(s.ID) != request.ID {
				if err := n.mayLose(ctx, servers, s.ID); err != nil {
					return err
				}
				n.logger.Info("member is replaced, it joins again", "node", request.Name, "id", s.ID)
				if err := outcome(rf.RemoveServer(s.ID, 0, changeTimeout)); err != nil {
					return err
				}
			}
		}
		n.logger.Info("node joins", "node", request.Name, "id", request.ID, "address", request.Address)
		return outcome(rf.AddNonvoter(raft.ServerID(request.ID), raft.ServerAddress(request.Address), 0, changeTimeout))
	})
}

// reach asks all servers how they are, by id. Those that are not there are missing.
func (n *Node) reach(ctx context.Context, servers []raft.Server) map[raft.ServerID]*peerStatus {
	at := n.answers(ctx, servers)
	for _, s := range servers {
		if !isServer(at[s.ID], s) {
			delete(at, s.ID)
		}
	}
	return at
}

// answers asks the nodes at the addresses of servers how they are. They may be others.
func (n *Node) answers(ctx context.Context, servers []raft.Server) map[raft.ServerID]*peerStatus {
	at := map[raft.ServerID]*peerStatus{}
	var others []raft.Server
	var peers []Peer
	for _, s := range servers {
		if string(s.ID) == n.identity().ID {
			at[s.ID] = n.ownStatus()
			continue
		}
		others, peers = append(others, s), append(peers, peerOf(s))
	}
	for i, h := range n.askAll(ctx, peers) {
		if h.err == nil {
			at[others[i].ID] = h.status
		}
	}
	return at
}

// mayLose returns an error if the cluster could not go on without a server: the voters
// that answer must be a majority of those that are left.
func (n *Node) mayLose(ctx context.Context, servers []raft.Server, id raft.ServerID) error {
	at := n.reach(ctx, servers)
	voters, reachable, isVoter := 0, 0, false
	var silent []string
	for _, s := range votersOf(servers) {
		if s.ID == id {
			isVoter = true
			continue
		}
		voters++
		if at[s.ID] != nil {
			reachable++
		} else {
			silent = append(silent, self.NameOf(s.ID))
		}
	}
	switch {
	case !isVoter:
		return nil
	case voters == 0:
		return refuse(http.StatusConflict, "%s is the only voter: stop it and run tsdbd cluster leave to make it a server of its own", self.NameOf(id))
	case reachable <= voters/2:
		return refuse(http.StatusConflict, "without %s, %d of %d voters would answer, which is no majority: start %s first", self.NameOf(id), reachable, voters, strings.Join(silent, " and "))
	}
	return nil
}

// allReachable returns an error if a voter does not answer.
func (n *Node) allReachable(ctx context.Context, servers []raft.Server) error {
	at := n.reach(ctx, servers)
	for _, s := range votersOf(servers) {
		if at[s.ID] == nil {
			return refuse(http.StatusConflict, "voter %s cannot be reached at %s: another voter now would make it harder to get a majority; start %s, or run tsdbd cluster remove %s", self.NameOf(s.ID), s.Address, self.NameOf(s.ID), self.NameOf(s.ID))
		}
	}
	return nil
}

// find returns the member with a name.
func find(servers []raft.Server, name string) (raft.Server, error) {
	var names []string
	for _, s := range servers {
		if self.NameOf(s.ID) == name {
			return s, nil
		}
		names = append(names, self.NameOf(s.ID))
	}
	slices.Sort(names)
	return raft.Server{}, refuse(http.StatusBadRequest, "no member has the name %q: the members are %s", name, strings.Join(names, ", "))
}

// logFormat returns in which form the cluster writes its log, as far as this node knows.
func (n *Node) logFormat() byte {
	if st := n.current(); st != nil {
		return max(st.Catalog().LogFormat, 1)
	}
	return 1
}

// finishUpgrade has the log be written in the newest form that all members read, and
// returns it. Every member must answer: what it reads is not known otherwise.
func (n *Node) finishUpgrade(ctx context.Context) (format byte, err error) {
	return format, n.change(func(_ *raft.Raft, servers []raft.Server) error {
		at := n.reach(ctx, servers)
		format = n.opt.LogFormat
		for _, s := range servers {
			p := at[s.ID]
			if p == nil {
				return refuse(http.StatusConflict, "%s cannot be reached at %s, so it is not known what it reads: start it, or run tsdbd cluster remove %s", self.NameOf(s.ID), s.Address, self.NameOf(s.ID))
			}
			format = min(format, max(p.LogFormat, 1))
		}
		if format <= n.logFormat() {
			format = n.logFormat()
			return nil
		}
		n.logger.Info("log is written in a newer form", "format", format)
		return n.current().Apply(ctx, meta.SetLogFormat{Format: format})
	})
}

// setVote gives a member a vote, or takes it.
func (n *Node) setVote(ctx context.Context, name string, voter bool) error {
	return n.change(func(rf *raft.Raft, servers []raft.Server) error {
		s, err := find(servers, name)
		switch {
		case err != nil:
			return err
		case voter && s.Suffrage == raft.Voter, !voter && s.Suffrage != raft.Voter:
			return nil
		case !voter && len(votersOf(servers)) == 1:
			return refuse(http.StatusConflict, "%s is the last voter, which must stay: give another node a vote first, with tsdbd cluster add", name)
		case !voter:
			if string(s.ID) == n.identity().ID {
				return refuse(http.StatusConflict, "%s leads: run tsdbd cluster transfer-leader first", name)
			}
			if err := n.mayLose(ctx, servers, s.ID); err != nil {
				return err
			}
			n.logger.Info("member loses its vote", "node", name)
			return outcome(rf.DemoteVoter(s.ID, 0, changeTimeout))
		}
		if err := n.allReachable(ctx, servers); err != nil {
			return err
		}
		if at := n.reach(ctx, []raft.Server{s})[s.ID]; at == nil || !at.Ready || at.Lag > n.opt.MaxLag.Seconds() {
			return refuse(http.StatusConflict, "%s has not caught up with the leader: it gets a vote when it has", name)
		}
		n.logger.Info("member gets a vote", "node", name)
		return outcome(rf.AddVoter(s.ID, s.Address, 0, changeTimeout))
	})
}

// remove removes a member.
func (n *Node) remove(ctx context.Context, name string) error {
	var gone raft.Server
	err := n.change(func(rf *raft.Raft, servers []raft.Server) (err error) {
		if gone, err = find(servers, name); err != nil {
			return err
		}
		if err := n.mayLose(ctx, servers, gone.ID); err != nil {
			return err
		}
		n.logger.Info("member is removed", "node", name, "id", gone.ID)
		return outcome(rf.RemoveServer(gone.ID, 0, changeTimeout))
	})
	if err != nil {
		return err
	}
	if string(gone.ID) == n.identity().ID {
		return n.removed(string(gone.ID))
	}
	// A node that is down finds out when it starts.
	told, cancel := context.WithTimeout(ctx, n.timeout())
	defer cancel()
	if err := n.post(told, string(gone.Address), "removed", url.Values{"id": {string(gone.ID)}}, nil, nil); err != nil {
		n.logger.Info("the removed node does not know it yet", "node", name, "err", plain(err))
	}
	return nil
}

// transferLeader has another node lead and returns its name.
func (n *Node) transferLeader(ctx context.Context, name string) (string, error) {
	err := n.change(func(_ *raft.Raft, servers []raft.Server) error {
		if name == "" {
			rivals := n.rivals(ctx)
			if len(rivals) == 0 {
				return n.handOver(ctx, "")
			}
			name = rivals[0].status.Name
		}
		s, err := find(servers, name)
		if err != nil {
			return err
		}
		at := n.reach(ctx, []raft.Server{s})[s.ID]
		switch {
		case string(s.ID) == n.identity().ID:
			return nil
		case s.Suffrage != raft.Voter:
			return refuse(http.StatusConflict, "%s has no vote: run tsdbd cluster add %s first", name, name)
		case at == nil:
			return refuse(http.StatusConflict, "%s cannot be reached at %s", name, s.Address)
		case !at.Runs:
			return refuse(http.StatusConflict, "%s is starting", name)
		case compareFlaws(at, n.ownStatus()) > 0:
			return refuse(http.StatusConflict, "%s must not lead while a better node can: %s", name, unfit(at))
		}
		return n.handOver(ctx, s.ID)
	})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, n.leaderWait())
	defer cancel()
	for {
		if id, _ := n.leader(); id != "" && (name != "" && self.NameOf(id) == name || name == "" && string(id) != n.identity().ID) {
			return self.NameOf(id), nil
		}
		if !n.pause(ctx, n.opt.ElectionTimeout/20) {
			return "", refuse(http.StatusServiceUnavailable, "%s was asked to lead and does not yet", name)
		}
	}
}

// handOver has a voter lead, any if id is empty.
func (n *Node) handOver(ctx context.Context, id raft.ServerID) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if err := n.replica.TransferLeadership(ctx, id); err != nil {
		return refuse(http.StatusServiceUnavailable, "transfer the lead: %v", err)
	}
	return nil
}

// operate does an operation of an administrator, or has the leader do it.
func (n *Node) operate(r *http.Request) (any, error) {
	operation := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if n.current() == nil {
		return nil, n.notReady()
	}
	if !n.replica.Leads() {
		if r.Header.Get(passedHeader) != "" {
			return nil, n.noLeader()
		}
		return n.passOperation(r, operation)
	}
	o, name := operations[operation], r.FormValue("name")
	if name == "" && o.named {
		return nil, refuse(http.StatusBadRequest, "name the member: name=n3")
	}
	return o.do(n, r, name)
}

// operation is what an administrator, or another node, asks of the leader.
type operation struct {
	named bool // it is about a member
	nodes bool // only nodes ask for it
	do    func(n *Node, r *http.Request, name string) (any, error)
}

var operations = map[string]operation{
	"add":     {named: true, do: (*Node).serveVote},
	"promote": {named: true, nodes: true, do: (*Node).serveVote},
	"remove": {named: true, do: func(n *Node, r *http.Request, name string) (any, error) {
		return struct{}{}, n.remove(r.Context(), name)
	}},
	"transfer-leader": {do: func(n *Node, r *http.Request, name string) (any, error) {
		leader, err := n.transferLeader(r.Context(), name)
		return map[string]string{"leader": leader}, err
	}},
	"finish-upgrade": {do: func(n *Node, r *http.Request, _ string) (any, error) {
		format, err := n.finishUpgrade(r.Context())
		return map[string]byte{"format": format}, err
	}},
	"verify": {do: func(n *Node, r *http.Request, _ string) (any, error) { return n.verify(r) }},
}

func (n *Node) serveVote(r *http.Request, name string) (any, error) {
	text := cmp.Or(r.FormValue("voter"), "true")
	voter, err := strconv.ParseBool(text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "voter=%s: true or false is expected", text)
	}
	return struct{}{}, n.setVote(r.Context(), name, voter)
}

// passedHeader marks a request that was passed on to the leader.
const passedHeader = "X-Tsdbd-Passed"

// passOperation has the leader do an operation.
func (n *Node) passOperation(r *http.Request, operation string) (any, error) {
	if err := r.ParseForm(); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	address, err := n.awaitLeader(r.Context())
	if err != nil {
		return nil, err
	}
	if address == "" {
		return nil, refuse(http.StatusServiceUnavailable, "%s leads since a moment ago: repeat the request", n.opt.Name)
	}
	var raw json.RawMessage
	err = n.clientOf(address).Ask(r.Context(), http.MethodPost, "/"+operation, r.Form, http.Header{passedHeader: {n.opt.Name}}, nil, &raw)
	if err != nil && !errors.As(err, new(*exchange.WriteError)) { // it is gone, and another one may lead soon
		return nil, refuse(http.StatusServiceUnavailable, "the leader cannot be reached: %v", plain(err))
	}
	return raw, err
}

// Handler answers administrators at the paths of package admin.
func (n *Node) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, admin.Prefix)
		o, known := operations[name]
		switch {
		case ok && r.Method == http.MethodGet && name == "status":
			answer(w, r, func(*http.Request) (any, error) { return n.statusWith(r.Context()), nil })
		case ok && r.Method == http.MethodPost && known && !o.nodes:
			answer(w, r, n.operate)
		default:
			fail(w, refuse(http.StatusNotFound, "no such request: GET status, POST verify, add, remove, transfer-leader, finish-upgrade"))
		}
	})
}
