package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"tsdbd/cluster/age"
	"tsdbd/cluster/self"
	"tsdbd/cluster/statetransfer"
	"tsdbd/cluster/transport"
	"tsdbd/internal/vfs"
)

// ageInterval is how often the age of a node grows while it runs. A copy of its
// directory that was made before the last time is noticed.
const ageInterval = time.Minute

// contradictionKey is where the log has what the log of the cluster contradicts in it, once
// that was found: the node takes no part any more.
var contradictionKey = []byte("Contradiction")

// greet takes the age of a node with which a connection begins. It refuses nobody: a node
// with an old copy learns so by the status of this one.
func (n *Node) greet(h transport.Hello) error {
	_ = n.ages.Note(h.ID, age.Sighting{Age: h.Age, Process: h.Process})
	return nil
}

// meet returns an error if raft must not run with a node: it has an old copy of its
// directory. What the node says is durable then.
func (n *Node) meet(h transport.Hello) error {
	said := age.Sighting{Age: h.Age, Process: h.Process}
	if err := n.ages.Note(h.ID, said); err != nil {
		if n.ages.Refuse(h.ID, said) {
			n.logger.Error("a node is refused, its directory is an old copy", "node", h.Name, "id", h.ID, "err", err)
		}
		return fmt.Errorf("%s is refused: %w", h, err)
	}
	return n.ages.Save(n.log, n.members())
}

// hear takes what the status of another node says of ages.
//
// A majority may have accepted an old copy of a node, because no node that had seen its age
// was there. The cluster has then continued without what the node had confirmed, and it is too
// late to refuse the copy. So this node accepts it too. The next entries show whether this node
// has confirmed entries that are no longer in the log of the cluster.
func (n *Node) hear(s *peerStatus) {
	i := n.identity()
	if i == nil || i.Cluster == "" || s.Cluster != i.Cluster || s.ID == i.ID {
		return
	}
	said := age.Sighting{Age: s.Age, Process: s.Process}
	if err := n.ages.Note(s.ID, said); err != nil && !s.Ready {
		n.ages.Refuse(s.ID, said)
	} else if err != nil {
		n.logger.Error("the cluster has continued with an old copy of a node: acknowledged points may be only here", "node", s.Name, "id", s.ID, "err", err)
		n.doubt.Store(true)
		n.ages.Take(s.ID, said)
	}
	for id, seen := range s.Seen {
		if id != i.ID {
			_ = n.ages.Note(id, seen)
		} else if own := n.ages.Own(i.ID); own.OlderThan(seen) && !(n.current() != nil && n.replica.Ready()) {
			n.ages.Accuse(fmt.Sprintf("this directory is an old copy of that of %s: it has the age %d now, and %s has seen it with the age %d before", id, own.Age, s.Name, seen.Age))
		}
	}
}

// contradicted is called when the leader has other entries in place of some that this node
// knows to be committed. An old copy of another node must have voted for it, and no node could
// know. The node takes no part any more, so that one of the two histories goes on and neither
// is lost: the next Open waits until the others have a leader without this node, and then sets
// aside what it has. If they never have one, because the leader is the only node with its
// history, an administrator must choose.
func (n *Node) contradicted(cause error) {
	reason := fmt.Sprintf("the cluster has continued without what this node knows to be acknowledged (%v)", cause)
	n.logger.Error("acknowledged points may be only on this node, which no longer takes part", "node", n.opt.Name, "reason", reason)
	if err := n.contradict(reason); err != nil {
		n.ask(errors.Join(cause, err))
		return
	}
	n.ask(fmt.Errorf("%w: %s", ErrReopen, reason))
}

// contradict notes in the log why the node must take no part with it.
func (n *Node) contradict(reason string) error {
	return n.log.Set(contradictionKey, []byte(reason[:min(len(reason), 1<<10)]))
}

// checkCopy asks the other nodes whether the directory of this one is an old copy. If it is,
// or if this node was contradicted, checkCopy waits until they have a leader without this node, and returns why: the node gives up its
// id only when it gets another one. If they never have one, the directory is as it was, and
// an administrator can choose.
func (n *Node) checkCopy(ctx context.Context) (reason string, err error) {
	n.ages.Acquit()
	if contradiction, err := n.log.Get(contradictionKey); err == nil {
		n.ages.Accuse(string(contradiction))
	}
	for told := ""; ; {
		sources := n.sources(ctx, n.knownPeers())
		reason := n.ages.Accused()
		switch {
		case reason == "":
			n.setProblem("")
			return "", nil
		case slices.ContainsFunc(sources, func(s heard) bool { return s.err == nil && s.status.Leads }):
			return reason, nil
		case reason != told:
			told = reason
			// Who accuses may be gone at the next start.
			if err := n.contradict(reason); err != nil {
				return "", err
			}
			n.logger.Error("the node takes no part, and waits until the others have a leader", "node", n.opt.Name, "reason", reason)
			n.setProblem(fmt.Sprintf("%s: it waits until the others have a leader, sets the directory aside and joins again", reason))
		}
		if !n.pause(ctx, n.opt.ElectionTimeout/2) {
			return "", fmt.Errorf("%w: %s", ctx.Err(), reason)
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
		case <-n.ages.News:
		case <-tick.C:
			n.lookAside()
		}
		if time.Since(raised) >= ageInterval {
			raised = time.Now()
			if err := n.ages.Raise(n.log); err != nil {
				n.logger.Warn("age of the node not raised, which is tried again", "err", err)
			}
		}
		if reason := n.ages.Accused(); reason != "" {
			n.logger.Error("the directory of the node is an old copy, the node no longer takes part", "node", n.opt.Name, "reason", reason)
			if err := n.contradict(reason); err != nil {
				n.ask(err)
				return
			}
			n.ask(fmt.Errorf("%w: %s", ErrReopen, reason))
			return
		}
		if err := n.ages.Save(n.log, n.members()); err != nil {
			n.logger.Warn("ages of the other nodes not kept, which is tried again", "err", err)
		}
	}
}

// asidePrefix begins the names of directories in the data directory. Each has what the node had
// when it gave up its id because the cluster had continued with another history. It is a
// complete data directory of a member, which tsdbd cluster leave makes one of a single server.
// Only an administrator removes it.
const asidePrefix = "set-aside-"

const asideReason = "reason" // the file that says why

// newAside makes a directory for what the node has, with its present identity. What the
// node has is moved there by setAside when nobody has it open.
func (n *Node) newAside(reason string) (name string, err error) {
	for k := 1; ; k++ {
		name = fmt.Sprintf("%s%d", asidePrefix, k)
		if _, err := n.fs.Stat(path.Join(n.opt.Dir, name)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
	}
	dir := path.Join(n.opt.Dir, name)
	if err := n.fs.MkdirAll(dir); err != nil {
		return "", err
	}
	i := *n.identity()
	if err := self.Write(n.fs, dir, &i); err != nil {
		return "", err
	}
	if err := vfs.WriteFileAtomic(n.fs, dir, path.Join(dir, asideReason), []byte(reason+"\n")); err != nil {
		return "", err
	}
	return name, n.fs.SyncDir(n.opt.Dir)
}

// setAside moves state and log of the node to the directory that newAside has made. After
// a crash it goes on.
func (n *Node) setAside(name string) error {
	n.aside = path.Join(n.opt.Dir, name)
	if err := statetransfer.SetAside(n.transferOptions(), n.aside); err != nil {
		return err
	}
	to := path.Join(n.aside, self.Dir)
	err := n.fs.Rename(n.logDir(), path.Join(to, "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(n.fs.SyncDir(to), n.fs.SyncDir(path.Join(n.opt.Dir, self.Dir))); err != nil {
		return err
	}
	if err := n.setIdentity(func(i *self.Identity) { i.Aside = "" }); err != nil {
		return err
	}
	n.logger.Warn("what the node had is set aside and kept", "path", n.aside, "reason", n.identity().Reason)
	return nil
}

// lookAside notes, for the status, what has been set aside and is still there.
func (n *Node) lookAside() {
	names, err := n.fs.List(n.opt.Dir)
	if err != nil {
		return
	}
	var told []string
	for _, name := range names {
		if !strings.HasPrefix(name, asidePrefix) {
			continue
		}
		reason, _ := vfs.ReadFile(n.fs, path.Join(n.opt.Dir, name, asideReason))
		told = append(told, fmt.Sprintf("%s has set aside in %s what it had when it was found that %s; acknowledged points may be only there, until you have looked and remove it",
			n.opt.Name, path.Join(n.opt.Dir, name), strings.TrimSpace(string(reason))))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.aside = strings.Join(told, "; ")
}
