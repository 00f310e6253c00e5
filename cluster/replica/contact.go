package replica

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
)

// contact is the transport that raft gets. It looks at the messages that pass: those of
// a leader tell how far behind this node is, and the answers to this node's heartbeats
// who follows it.
type contact struct {
	raft.Transport
	r        *Replica
	consumer chan raft.RPC
	// pipelines has the open *pipeline as keys.
	pipelines sync.Map

	mu struct {
		sync.Mutex
		ready   bool
		caught  time.Time // everything that was committed then is applied
		pending sample    // a later one, if its commit index is not 0
		acks    map[raft.ServerID]ack
		spoke   map[raft.ServerID]time.Time // when the latest message was sent that a node has answered, accepted or not
		heard   leader                      // of the latest term
	}
}

// errSilent is what raft gets for its messages while the disk hangs.
var errSilent = errors.New("the disk of this node hangs: it sends nothing as a leader")

// leader is who leads in a term.
type leader struct {
	term    uint64
	id      raft.ServerID
	address raft.ServerAddress
}

// sample is what a message said of the leader's log.
type sample struct {
	at           time.Time
	commit, term uint64
}

// ack is the latest heartbeat that a node has accepted.
type ack struct {
	sent time.Time
	term uint64
}

func newContact(r *Replica) *contact {
	c := &contact{Transport: r.opt.Transport, r: r, consumer: make(chan raft.RPC)}
	c.mu.acks, c.mu.spoke = make(map[raft.ServerID]ack), make(map[raft.ServerID]time.Time)
	return c
}

// run hands messages on to raft.
func (c *contact) run() {
	from := c.Transport.Consumer()
	for {
		select {
		case <-c.r.stop:
			return
		case rpc := <-from:
			if a, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
				c.hear(a)
				c.observe(a)
				base := c.r.opt.Log.Base()
				if err := c.contradicts(a, base); err != nil {
					c.r.fail(err)
					continue // the end of the transport is its answer
				}
				rpc.Command = behind(a, base)
			}
			select {
			case c.consumer <- rpc:
			case <-c.r.stop:
				return // the end of the transport is its answer
			}
		}
	}
}

// SetHeartbeatHandler gives raft the heartbeats that do not wait behind other messages.
func (c *contact) SetHeartbeatHandler(f func(raft.RPC)) {
	c.Transport.SetHeartbeatHandler(func(rpc raft.RPC) {
		if a, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
			c.hear(a)
		}
		f(rpc)
	})
}

// hear notes who sends messages of a leader. Raft notes it behind a write to the disk.
func (c *contact) hear(a *raft.AppendEntriesRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Term > c.mu.heard.term {
		c.mu.heard = leader{a.Term, raft.ServerID(a.ID), c.DecodePeer(a.Addr)}
	}
}

// leader returns the leader of the latest term that this node has heard of.
func (c *contact) leader() leader {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.heard
}

// contradicts returns an error if the leader has another entry than this log had up to
// its base. That one was committed, and is in the files of the store. The leader must be
// that of now: entries of an earlier one, which come late, may be others.
func (c *contact) contradicts(a *raft.AppendEntriesRequest, base raftlog.Base) error {
	if r := c.r.Raft(); r == nil || a.Term < r.CurrentTerm() {
		return nil
	}
	other := func(index, term uint64) bool {
		// Terms do not fall along a log.
		return index > 0 && (index < base.Index && term > base.Term || index == base.Index && term != base.Term)
	}
	index, term := a.PrevLogEntry, a.PrevLogTerm
	for _, l := range a.Entries {
		if other(index, term) {
			break
		}
		index, term = l.Index, l.Term
	}
	if other(index, term) {
		return fmt.Errorf("the leader has entry %d with term %d, the files of this node have the entries up to %d, with term %d: %w", index, term, base.Index, base.Term, raftlog.ErrCommitted)
	}
	return nil
}

// behind leaves out of a message of the leader the entries up to the base. They are
// committed, so they are those that this node had, and the log may lack them. Raft would
// refuse the message; the leader would go back to its first entry and try that for ever.
func behind(a *raft.AppendEntriesRequest, base raftlog.Base) *raft.AppendEntriesRequest {
	if a.PrevLogEntry >= base.Index || a.PrevLogEntry == 0 && len(a.Entries) == 0 {
		return a // the latter is a heartbeat
	}
	n := 0
	for n < len(a.Entries) && a.Entries[n].Index <= base.Index {
		n++
	}
	b := *a
	b.Entries, b.PrevLogEntry, b.PrevLogTerm = a.Entries[n:], base.Index, base.Term
	return &b
}

// committed tells raft that the entries of its log up to index are committed, as a leader
// would. It returns false if raft ends.
func (c *contact) committed(index uint64) bool {
	r := c.r.Raft()
	address, id := r.LeaderWithID()
	a := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: c.EncodePeer(id, address)},
		Term:      r.CurrentTerm(), LeaderCommitIndex: index,
	}
	done := make(chan raft.RPCResponse, 1)
	select {
	case c.consumer <- raft.RPC{Command: a, RespChan: done}:
	case <-c.r.stop:
		return false
	}
	select {
	case <-done:
		return true
	case <-c.r.stop:
		return false
	}
}

// Consumer returns the messages for raft.
func (c *contact) Consumer() <-chan raft.RPC { return c.consumer }

// observe takes the commit index from a message of the leader. Heartbeats have none.
func (c *contact) observe(a *raft.AppendEntriesRequest) {
	r := c.r.Raft()
	if r == nil || a.LeaderCommitIndex == 0 || a.Term < r.CurrentTerm() {
		return
	}
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.pending.commit == 0 || c.mu.pending.term < a.Term {
		c.mu.pending = sample{time.Now(), a.LeaderCommitIndex, a.Term}
	}
}

// settle notes whether everything that the pending sample knows is applied.
func (c *contact) settle() {
	c.mu.Lock()
	p := c.mu.pending
	c.mu.Unlock()
	if p.commit == 0 {
		return
	}
	reached, valid := c.r.reached(p.commit, p.term)
	if valid && !reached {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.pending == p {
		c.mu.pending = sample{}
	}
	if valid {
		c.mu.ready = true
		if p.at.After(c.mu.caught) {
			c.mu.caught = p.at
		}
	}
}

// alone notes when the leader of then took the last entry that is known to be committed.
func (c *contact) alone(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); at.After(now) { // by the clock of another node
		at = now
	}
	if c.mu.caught.IsZero() {
		c.mu.caught = at
	}
}

// led notes that this node leads.
func (c *contact) led() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ready, c.mu.caught = true, time.Now()
}

// retired notes that this node no longer leads. What others have committed since they
// followed it last is not applied here.
func (c *contact) retired(voters []raft.Server, term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.caught = c.followedLocked(voters, term)
}

// followed returns the latest time at which this node surely led in a term.
func (c *contact) followed(voters []raft.Server, term uint64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.followedLocked(voters, term)
}

func (c *contact) followedLocked(voters []raft.Server, term uint64) time.Time {
	if at := c.acceptedLocked(voters, term); at.After(c.mu.caught) {
		return at
	}
	return c.mu.caught // when it began
}

// acceptedLocked returns the latest time for which a majority of the voters has
// accepted, in a term, messages that were sent then or later.
func (c *contact) acceptedLocked(voters []raft.Server, term uint64) time.Time {
	if len(voters) == 0 {
		return time.Time{}
	}
	sent := make([]time.Time, len(voters))
	for i, v := range voters {
		if a := c.mu.acks[v.ID]; v.ID == c.r.opt.ID {
			sent[i] = time.Now()
		} else if a.term == term {
			sent[i] = a.sent
		}
	}
	slices.SortFunc(sent, func(a, b time.Time) int { return b.Compare(a) })
	return sent[len(sent)/2]
}

// lag returns how old the applied state is, at most.
func (c *contact) lag() (lag time.Duration, ready bool) {
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.caught.IsZero() {
		return Unknown, false
	}
	return max(time.Since(c.mu.caught), 0), c.mu.ready // another clock may have given it
}

// AppendEntries sends a heartbeat, or entries to a node that is behind. A leader that
// cannot store anything sends nothing, so that the others elect another one. Raft itself
// would go on with heartbeats, from another goroutine than the one that stores.
func (c *contact) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if c.r.hangs() {
		return errSilent
	}
	bound(args)
	sent := time.Now()
	if err := c.Transport.AppendEntries(id, target, args, resp); err != nil {
		if heartbeat := args.PrevLogEntry == 0 && len(args.Entries) == 0; !heartbeat {
			c.awaitReturn(id, args.Term, sent)
		}
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.spoke[id].Before(sent) {
		c.mu.spoke[id] = sent
	}
	if a := c.mu.acks[id]; resp.Success && resp.Term == args.Term && (a.term < args.Term || a.term == args.Term && a.sent.Before(sent)) {
		c.mu.acks[id] = ack{sent, args.Term}
	}
	return nil
}

// awaitReturn waits, after a message has failed, until the node answers a heartbeat. Raft
// waits longer behind each failure, up to 10 s, and would go on with that when the node is
// back; of a wait here it counts one failure. The wait ends with the term, and when the
// node is removed.
func (c *contact) awaitReturn(id raft.ServerID, term uint64, failed time.Time) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for r := c.r.Raft(); r != nil && r.State() == raft.Leader && r.CurrentTerm() == term && !c.spokeSince(id, failed); {
		if f := r.GetConfiguration(); f.Error() != nil || !slices.ContainsFunc(f.Configuration().Servers, func(s raft.Server) bool { return s.ID == id }) {
			return
		}
		select {
		case <-look.C:
		case <-c.r.stop:
			return
		}
	}
}

// spokeSince says that a node has answered a message that was sent after a time.
func (c *contact) spokeSince(id raft.ServerID, at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.spoke[id].After(at)
}

// lookEvery is the time between two looks whether a node answers again.
const lookEvery = 10 * time.Millisecond

// maxMessageBytes bounds the entries of a message that has more than one.
const maxMessageBytes = 16 << 20

// bound leaves entries at the end of a message out if it would be too long. Raft looks at
// the message for what was sent, and sends the rest next.
func bound(a *raft.AppendEntriesRequest) {
	size := 0
	for i, l := range a.Entries {
		if size += len(l.Data); i > 0 && size > maxMessageBytes {
			a.Entries = a.Entries[:i]
			return
		}
	}
}

// AppendEntriesPipeline sends entries to a node that follows, several at a time.
func (c *contact) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := c.Transport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return newPipeline(p, c), nil
}

// applied notes, at the leader, that more is committed, and applied here.
func (c *contact) applied() {
	c.pipelines.Range(func(p, _ any) bool {
		p.(*pipeline).news()
		return true
	})
}

// commit returns the commit index, 0 if it may be of a later term than term. Raft raises the
// term first.
func (c *contact) commit(term uint64) uint64 {
	if r := c.r.Raft(); r != nil {
		if commit := r.CommitIndex(); r.CurrentTerm() == term {
			return commit
		}
	}
	return 0
}

// confirmed says that a majority of the voters has accepted, in this term, messages
// that were sent after a time.
func (c *contact) confirmed(voters []raft.Server, term uint64, after time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(voters) > 0 && !c.acceptedLocked(voters, term).Before(after)
}

// answered returns when the latest heartbeat was sent that a node has accepted.
func (c *contact) answered(id raft.ServerID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.acks[id].sent
}

// RequestPreVote asks for a vote before an election.
func (c *contact) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return c.Transport.(raft.WithPreVote).RequestPreVote(id, target, args, resp)
}
