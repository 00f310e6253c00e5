package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"tsdbd/backup"
	"tsdbd/cluster/admin"
	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/self"
	"tsdbd/cluster/statetransfer"
	"tsdbd/store"
)

// damage is what is wrong with the files of a store. Its state must not be copied.
type damage struct {
	files int    // and databases that do not open
	first string // what is wrong with one of them, "" if all are sound
}

func damageOf(st *store.Store) damage {
	s := st.State()
	d := damage{files: len(s.Unopened) + len(s.Quarantined) + len(s.Damaged)}
	switch {
	case len(s.Unopened) > 0:
		d.first = s.Unopened[0].Error()
	case len(s.Quarantined) > 0:
		d.first = s.Quarantined[0].Path + " is in quarantine: " + s.Quarantined[0].Reason
	case len(s.Damaged) > 0:
		d.first = s.Damaged[0].Error()
	}
	return d
}

// transferState copies the state of another node until it has one. It tries all nodes
// that it knows, again and again: the state of this node cannot be used.
func (n *Node) transferState(ctx context.Context) error {
	lock, err := n.fs.Lock(path.Join(n.opt.Dir, "LOCK"))
	if err != nil {
		return fmt.Errorf("copy state: %w", err)
	}
	unlocked := false
	unlock := func() error {
		if unlocked {
			return nil
		}
		unlocked = true
		return lock.Close()
	}
	defer unlock()
	n.logger.Info("state transfer begins", "node", n.opt.Name, "reason", n.identity().Reason)
	known := n.knownPeers()
	told := ""
	for {
		errs := []error{errors.New("no other node is known: name the members in cluster.join")}
		for i, source := range n.sources(ctx, known) {
			if i == 0 {
				errs = nil
			}
			if source.err == nil {
				source.err = n.transferFrom(ctx, source.status)
			}
			if source.err == nil {
				return unlock()
			}
			errs = append(errs, fmt.Errorf("%s (%s): %w", source.Name, source.Address, source.err))
		}
		if ctx.Err() != nil {
			return fmt.Errorf("copy state: %w", ctx.Err())
		}
		if err := errors.Join(errs...); err.Error() != told {
			told = err.Error()
			n.setProblem("It cannot copy the state of another node yet: " + strings.ReplaceAll(told, "\n", "; ") + ".")
			n.logger.Warn("no node to copy the state from, which is tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("copy state: %w", ctx.Err())
		case <-time.After(n.opt.ElectionTimeout):
		}
	}
}

// knownPeers returns the other nodes in the list, and the members that the node's log
// knows.
func (n *Node) knownPeers() []Peer {
	peers := n.opt.others()
	add := func(p Peer) {
		if p.Name != n.opt.Name && !slices.ContainsFunc(peers, func(q Peer) bool { return q.Address == p.Address }) {
			peers = append(peers, p)
		}
	}
	if n.log != nil {
		for _, s := range n.members() {
			add(Peer{self.NameOf(s.ID), string(s.Address)})
		}
		return peers
	}
	dir := n.logDir()
	if n.aside != "" {
		dir = path.Join(n.aside, self.Dir, "log")
	}
	log, err := raftlog.Open(n.fs, dir, raftlog.Options{})
	if err != nil {
		return peers
	}
	defer log.Close()
	if last, err := log.LastIndex(); err == nil {
		c, _ := log.Configuration(max(last, log.Base().Index))
		for _, s := range c.Servers {
			add(Peer{self.NameOf(s.ID), string(s.Address)})
		}
	}
	return peers
}

// source is a node whose state may be copied, or why not.
type source struct {
	Peer
	status *peerStatus
	err    error
}

// sources returns the nodes in the order in which their state is best copied: those
// that follow first, the leader has enough to do.
func (n *Node) sources(ctx context.Context, peers []Peer) []source {
	answers := make(chan source, len(peers))
	for _, p := range peers {
		go func() {
			s, err := n.statusOf(ctx, p.Address)
			switch {
			case err != nil:
			case s.Name == n.opt.Name:
				err = errors.New("it has the name of this node")
			case s.Cluster != n.identity().Cluster:
				err = fmt.Errorf("it is in cluster %q, this node in %q", s.Cluster, n.identity().Cluster)
			case s.State != self.Member:
				err = errors.New("it needs the state of another node itself")
			case s.Damage != "":
				err = fmt.Errorf("it has damage: %s", s.Damage)
			case !s.Ready:
				err = errors.New("it has not caught up with the leader since its start")
			}
			answers <- source{p, s, err}
		}()
	}
	var out []source
	for range peers {
		out = append(out, <-answers)
	}
	rank := func(s source) int {
		switch {
		case s.err != nil:
			return 2
		case s.status.Leads:
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b source) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Name, b.Name)) })
	return out
}

// transferFrom copies the state of one node. The node takes it as its own only when all
// of it is in place.
func (n *Node) transferFrom(ctx context.Context, from *peerStatus) error {
	watch, err := n.watchBase(ctx, from.Address)
	if err != nil {
		return err
	}
	defer watch.stop()
	opt := n.transferOptions()
	opt.Progress = n.progress(from.Name)
	defer n.setTransfer(nil)
	n.logger.Info("state transfer", "from", from.Name)
	result, err := statetransfer.Fetch(ctx, n.clientOf(from.Address), opt)
	if err != nil {
		return err
	}
	if err := statetransfer.Switch(opt); err != nil {
		return err
	}
	if err := n.dropLog(); err != nil {
		return fmt.Errorf("give up old log: %w", err)
	}
	base := watch.below(result.Sequence)
	if err := raftlog.Create(n.fs, n.logDir(), base); err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	if err := n.setIdentity(func(i *self.Identity) { i.State, i.Reason, i.Address = self.Member, "", n.opt.address() }); err != nil {
		return err
	}
	n.setProblem("")
	n.logger.Info("state transfer ends", "from", from.Name, "sequence", result.Sequence, "base", base.Sequence, "bytes", result.Bytes, "fetched", result.Copied, "took", result.Took)
	n.clean()
	return nil
}

func (n *Node) transferOptions() statetransfer.Options {
	return statetransfer.Options{FS: n.fs, Dir: n.opt.Dir, Have: n.aside, Logger: n.logger}
}

// dropLog removes the log that the new state does not need. A damaged one it sets aside:
// the damage may have been found while the node ran, or before a crash.
func (n *Node) dropLog() error {
	if _, err := n.fs.Stat(n.logDir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if r, err := raftlog.Inspect(n.fs, n.logDir(), nil); err != nil || len(r.Damage) > 0 {
		return raftlog.SetAside(n.fs, n.logDir())
	}
	return n.fs.RemoveAll(n.logDir())
}

// clean removes what a transfer has left.
func (n *Node) clean() {
	if err := statetransfer.Clean(n.transferOptions()); err != nil {
		n.logger.Warn("what a state transfer has left is not removed, the next start tries again", "err", err)
	}
}

// baseWatch knows where the log of a node began while its state was fetched. The log
// behind any of these places that is not above the state has all that the state lacks.
// The latest is the best: the other nodes drop their log from the beginning.
type baseWatch struct {
	end     context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	bases   []raftlog.Base // ascending
}

// watchBase begins before the state is fetched.
func (n *Node) watchBase(ctx context.Context, address string) (*baseWatch, error) {
	w := &baseWatch{bases: make([]raftlog.Base, 1)}
	if err := n.get(ctx, address, "base", nil, &w.bases[0]); err != nil {
		return nil, plain(err)
	}
	ctx, w.end = context.WithCancel(ctx)
	w.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			var base raftlog.Base
			if err := n.get(ctx, address, "base", nil, &base); err == nil {
				w.add(base)
			}
		}
	})
	return w, nil
}

func (w *baseWatch) add(base raftlog.Base) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if base.Sequence >= w.bases[len(w.bases)-1].Sequence && base.Index > w.bases[len(w.bases)-1].Index {
		w.bases = append(w.bases, base)
	}
}

func (w *baseWatch) stop() {
	w.end()
	w.running.Wait()
}

// below returns the latest base that is not above a sequence.
func (w *baseWatch) below(sequence uint64) raftlog.Base {
	w.mu.Lock()
	defer w.mu.Unlock()
	best := w.bases[0]
	for _, b := range w.bases {
		if b.Sequence <= sequence {
			best = b
		}
	}
	return best
}

// progress returns what notes and logs how far a transfer is.
func (n *Node) progress(from string) func(backup.Progress) {
	logged, fetched := time.Now(), int64(0)
	return func(p backup.Progress) {
		n.setTransfer(&admin.Transfer{From: from, Bytes: p.BytesDone, TotalBytes: p.Bytes})
		if now := p.BytesDone - p.Reused; now > fetched {
			n.transferred.Add(now - fetched)
			fetched = now
		}
		if time.Since(logged) > 10*time.Second {
			logged = time.Now()
			n.logger.Info("state transfer under way", "from", from, "bytes", p.BytesDone, "of", p.Bytes)
		}
	}
}

func (n *Node) setTransfer(t *admin.Transfer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.transfer = t
}

// setProblem notes a sentence about the node for its status, "" for none.
func (n *Node) setProblem(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.problem = text
}
