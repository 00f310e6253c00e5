package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/transport"
)

// ageInterval is how often the age of a node grows while it runs. A copy of its
// directory that was made before the last time is noticed.
const ageInterval = time.Minute

// The keys under which the log keeps the age of its node, and what other nodes have said.
// They are beside the term and the vote: a log that is put back has the age of then.
var (
	ageKey  = []byte("Age")
	seenKey = []byte("Seen")
	// contradictionKey has what the log of the cluster contradicts in this one, once that
	// was found: the node takes no part any more.
	contradictionKey = []byte("Contradiction")
)

// sighting is what a node says of its age.
type sighting struct {
	Age     uint64 `json:"age"`
	Process uint64 `json:"process"`
}

// olderThan reports whether a node that says s has an older copy of the directory of one
// that has said seen. An age is given once: another process that says it has a copy. What
// one process says may arrive late, by less than an interval.
func (s sighting) olderThan(seen sighting) bool {
	return s.Age > 0 && (s.Age+1 < seen.Age || s.Age <= seen.Age && s.Process != seen.Process)
}

// ages are that of this node, and what the others have said of theirs.
//
// An old copy of a directory does not know what the node has confirmed since, and could
// vote for a leader that does not either. So raft runs over no connection with a node that
// has said a higher age before. Nodes tell each other what they have seen, and an old copy
// learns it with the status of any of them.
type ages struct {
	news   chan struct{} // has an element after an accusation, and when there is something to save
	saving sync.Mutex

	mu struct {
		sync.Mutex
		id      string // under which own is said: that to which the log belongs
		own     sighting
		seen    map[string]sighting
		unsaved bool
		refused map[string]sighting // that were logged
		accused string              // who says that this directory is an old copy, and why
	}
}

func (a *ages) init() {
	a.news = make(chan struct{}, 1)
	a.mu.own.Process = rand.Uint64()
	a.mu.seen, a.mu.refused = map[string]sighting{}, map[string]sighting{}
}

// own returns what this node says of itself under an id, nothing before the log is open that
// belongs to it.
func (a *ages) own(id string) sighting {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != a.mu.id {
		return sighting{}
	}
	return a.mu.own
}

// open takes the age of the node with an id from its log, and raises it.
func (a *ages) open(log *raftlog.Store, id string) error {
	b, err := log.Get(seenKey)
	if err == nil {
		seen := map[string]sighting{}
		if err := json.Unmarshal(b, &seen); err != nil {
			return fmt.Errorf("read what other nodes have said of their age: %w", err)
		}
		a.mu.Lock()
		for id, s := range seen {
			if heard := a.mu.seen[id]; s.Age > heard.Age || heard.olderThan(s) { // before the log was open
				a.mu.seen[id] = s
			}
		}
		a.mu.Unlock()
	}
	if err := a.raise(log); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.id, a.mu.unsaved = id, true // the log may be a new one
	return nil
}

// raise raises the age of this node, durably before it is said.
func (a *ages) raise(log *raftlog.Store) error {
	age, err := log.GetUint64(ageKey)
	if err == nil {
		err = log.SetUint64(ageKey, age+1)
	}
	if err != nil {
		return fmt.Errorf("raise the age of the node: %w", err)
	}
	a.mu.Lock()
	a.mu.own.Age = age + 1
	a.mu.Unlock()
	return nil
}

// note takes what a node says. It returns an error if that node has an old copy.
func (a *ages) note(id string, said sighting) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.mu.seen[id]
	if said.olderThan(seen) {
		return fmt.Errorf("its directory is an old copy: it has the age %d now, and was seen with the age %d before", said.Age, seen.Age)
	}
	if said.Age > seen.Age && id != "" {
		a.mu.seen[id], a.mu.unsaved = said, true
		signal(a.news)
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take has an old copy count from now on.
func (a *ages) take(id string, said sighting) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.seen[id], a.mu.unsaved = said, true
	signal(a.news)
}

// firstRefusal reports whether a refusal was not logged yet.
func (a *ages) firstRefusal(id string, said sighting) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first = a.mu.refused[id].Process != said.Process
	a.mu.refused[id] = said
	return first
}

// save makes durable what the members have said.
func (a *ages) save(log *raftlog.Store, members []raft.Server) error {
	a.saving.Lock()
	defer a.saving.Unlock()
	a.mu.Lock()
	if !a.mu.unsaved {
		a.mu.Unlock()
		return nil
	}
	a.mu.unsaved = false
	seen := map[string]sighting{}
	for _, s := range members {
		if at, ok := a.mu.seen[string(s.ID)]; ok {
			seen[string(s.ID)] = at
		}
	}
	a.mu.Unlock()
	b, err := json.Marshal(seen)
	if err == nil {
		err = log.Set(seenKey, b)
	}
	if err != nil {
		a.mu.Lock()
		a.mu.unsaved = true
		a.mu.Unlock()
		return fmt.Errorf("save what other nodes say of their age: %w", err)
	}
	return nil
}

// greet takes the age of a node with which a connection begins. It refuses nobody: a node
// with an old copy learns so by the status of this one.
func (n *Node) greet(h transport.Hello) error {
	_ = n.ages.note(h.ID, sighting{h.Age, h.Process})
	return nil
}

// meet returns an error if raft must not run with a node: it has an old copy of its
// directory. What the node says is durable then.
func (n *Node) meet(h transport.Hello) error {
	said := sighting{h.Age, h.Process}
	if err := n.ages.note(h.ID, said); err != nil {
		if n.ages.firstRefusal(h.ID, said) {
			n.logger.Error("a node is refused, its directory is an old copy", "node", h.Name, "id", h.ID, "err", err)
		}
		return fmt.Errorf("%s is refused: %w", h, err)
	}
	return n.ages.save(n.log, n.members())
}

// hear takes what the status of another node says of ages.
//
// If a majority has taken an old copy for the node that it was, because nobody was there
// who knew better, it has gone on without what the node had confirmed. Then it is too late
// to refuse it: this node takes it too, and finds out with the next entries whether it has
// confirmed what is no longer in the log of the cluster.
func (n *Node) hear(s *peerStatus) {
	i := n.identity()
	if i == nil || i.Cluster == "" || s.Cluster != i.Cluster || s.ID == i.ID {
		return
	}
	said := sighting{s.Age, s.Process}
	if err := n.ages.note(s.ID, said); err != nil && s.Ready {
		n.logger.Error("the cluster has gone on with an old copy of a node: acknowledged points may be only here", "node", s.Name, "id", s.ID, "err", err)
		n.ages.take(s.ID, said)
	}
	for id, seen := range s.Seen {
		if id != i.ID {
			_ = n.ages.note(id, seen)
		} else if own := n.ages.own(i.ID); own.olderThan(seen) && !(n.current() != nil && n.replica.Ready()) {
			n.ages.accuse(fmt.Sprintf("this directory is an old copy of that of %s: it has the age %d now, and %s has seen it with the age %d before", id, own.Age, s.Name, seen.Age))
		}
	}
}

func (a *ages) accuse(why string) {
	a.mu.Lock()
	a.mu.accused = why
	a.mu.Unlock()
	signal(a.news)
}

func (a *ages) acquit() {
	a.mu.Lock()
	a.mu.accused = ""
	a.mu.Unlock()
}

// accused returns why this directory is an old copy, or "".
func (a *ages) accused() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.accused
}

// sightings returns what the others have said.
func (a *ages) sightings() map[string]sighting {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.mu.seen)
}

// contradicted ends the part of the node in the cluster, for the leader has replaced what
// this node knows to be committed. An old copy of another node must have made it possible
// where nobody could know. One of the two histories is to go on, and nothing of either is
// lost: the next Open waits until the others have a leader without this node, and sets
// aside what it has. If they have none, because the leader is the only one with its
// history, an administrator must choose.
func (n *Node) contradicted(cause error) {
	reason := fmt.Sprintf("the cluster has gone on without what this node knows to be acknowledged (%v)", cause)
	n.logger.Error("acknowledged points may be only on this node, which no longer takes part", "node", n.opt.Name, "reason", reason)
	if err := n.log.Set(contradictionKey, []byte(reason[:min(len(reason), 1<<10)])); err != nil {
		n.ask(errors.Join(cause, err))
		return
	}
	n.ask(fmt.Errorf("%w: %s", ErrReopen, reason))
}

// checkCopy asks the other nodes whether the directory of this one is an old copy. If it is,
// or if this node was contradicted, checkCopy
// waits until they have a leader without this node, and returns why: the node gives up its
// id only when it gets another one. If they never have one, the directory is as it was, and
// an administrator can choose.
func (n *Node) checkCopy(ctx context.Context) (reason string, err error) {
	contradiction, err := n.log.Get(contradictionKey)
	for told := ""; ; {
		n.ages.acquit()
		if err == nil {
			n.ages.accuse(string(contradiction))
		}
		sources := n.sources(ctx, n.knownPeers())
		reason := n.ages.accused()
		switch {
		case reason == "":
			n.setProblem("")
			return "", nil
		case slices.ContainsFunc(sources, func(s source) bool { return s.err == nil && s.status.Leads }):
			return reason, nil
		case reason != told:
			told = reason
			n.logger.Error("the node takes no part, and waits until the others have a leader", "node", n.opt.Name, "reason", reason)
			n.setProblem(fmt.Sprintf("%s: it waits until the others have a leader, sets the directory aside and joins again", reason))
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %s", ctx.Err(), reason)
		case <-time.After(n.opt.ElectionTimeout / 2):
		}
	}
}

// keepAge raises the age of the node while it runs, and has it end when another node says
// that its directory is an old copy: the next Open deals with that.
func (n *Node) keepAge() {
	n.lookAside()
	tick := time.NewTicker(n.timeout())
	defer tick.Stop()
	for raised := time.Now(); ; {
		select {
		case <-n.ctx.Done():
			return
		case <-n.ages.news:
		case <-tick.C:
			n.lookAside()
		}
		if time.Since(raised) >= ageInterval {
			raised = time.Now()
			if err := n.ages.raise(n.log); err != nil {
				n.logger.Warn("age of the node not raised, which is tried again", "err", err)
			}
		}
		if reason := n.ages.accused(); reason != "" {
			n.logger.Error("the directory of the node is an old copy, the node no longer takes part", "node", n.opt.Name, "reason", reason)
			n.ask(fmt.Errorf("%w: %s", ErrReopen, reason))
			return
		}
		if err := n.ages.save(n.log, n.members()); err != nil {
			n.logger.Warn("ages of the other nodes not kept, which is tried again", "err", err)
		}
	}
}
