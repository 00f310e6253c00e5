package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/backup"
	"tsdbd/cluster/admin"
	"tsdbd/cluster/heal"
	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/self"
	"tsdbd/cluster/statetransfer"
	"tsdbd/exchange"
	"tsdbd/store"
)

// transferState copies the state of another node until it has one. It tries all nodes
// that it knows, again and again: the state of this node cannot be used.
func (n *Node) transferState(ctx context.Context) (err error) {
	lock, err := n.fs.Lock(path.Join(n.opt.Dir, "LOCK"))
	if err != nil {
		return fmt.Errorf("copy state: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
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
				return nil
			}
			errs = append(errs, fmt.Errorf("%s (%s): %w", source.Name, source.Address, source.err))
		}
		if err := errors.Join(errs...); ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			n.setProblem("It cannot copy the state of another node yet: " + strings.ReplaceAll(told, "\n", "; ") + ".")
			n.logger.Warn("no node to copy the state from, which is tried again", "err", err)
		}
		if !n.pause(ctx, n.opt.ElectionTimeout) {
			return fmt.Errorf("copy state: %w", ctx.Err())
		}
	}
}

// knownPeers returns the other nodes in the list, and the members that the node's log
// knows.
func (n *Node) knownPeers() []Peer {
	peers := n.opt.others()
	log := n.log
	if log == nil {
		dir := n.logDir()
		if n.aside != "" {
			dir = path.Join(n.aside, self.Dir, "log")
		}
		var err error
		if log, err = raftlog.Open(n.fs, dir, raftlog.Options{}); err != nil {
			return peers
		}
		defer log.Close()
	}
	for _, s := range membersIn(log) {
		if p := peerOf(s); p.Name != n.opt.Name && !slices.ContainsFunc(peers, func(q Peer) bool { return q.Address == p.Address }) {
			peers = append(peers, p)
		}
	}
	return peers
}

func peerOf(s raft.Server) Peer { return Peer{self.NameOf(s.ID), string(s.Address)} }

// heard is what a node says of itself, or why it cannot serve.
type heard struct {
	Peer
	status *peerStatus
	err    error
}

// askAll asks nodes how they are, all at once.
func (n *Node) askAll(ctx context.Context, peers []Peer) []heard {
	out := make([]heard, len(peers))
	var asked sync.WaitGroup
	for i, p := range peers {
		asked.Go(func() {
			s, err := n.statusOf(ctx, p.Address)
			out[i] = heard{p, s, err}
		})
	}
	asked.Wait()
	return out
}

// sources returns the nodes from which the whole state can be copied, and why the others
// cannot serve.
func (n *Node) sources(ctx context.Context, peers []Peer) []heard {
	return n.sound(ctx, peers, func(s *peerStatus) error {
		if s.Damage != "" {
			return fmt.Errorf("it has damage: %s", s.Damage)
		}
		return nil
	})
}

// sound returns the nodes in the order in which files are best copied from them: those
// that follow first, the leader has enough to do. check says what is against one.
func (n *Node) sound(ctx context.Context, peers []Peer, check func(s *peerStatus) error) []heard {
	out := n.askAll(ctx, peers)
	for i := range out {
		h := &out[i]
		switch s := h.status; {
		case h.err != nil:
		case s.Name == n.opt.Name:
			h.err = errors.New("it has the name of this node")
		case s.Cluster != n.identity().Cluster:
			h.err = fmt.Errorf("it is in cluster %q, this node in %q", s.Cluster, n.identity().Cluster)
		case s.State != self.Member:
			h.err = errors.New("it needs the state of another node itself")
		case !s.Ready:
			h.err = errors.New("it has not caught up with the leader since its start")
		default:
			h.err = check(s)
		}
	}
	rank := func(h heard) int {
		switch {
		case h.err != nil:
			return 2
		case h.status.Leads:
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b heard) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Name, b.Name)) })
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
	opt.Progress, opt.Cold = n.progress(from.Name), n.coldStore(ctx)
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
	n.logger.Info("state transfer ends", "from", from.Name, "sequence", result.Sequence, "base", base.Sequence, "bytes", result.Bytes, "fetched", result.Copied, "cold", result.Cold, "took", result.Took)
	n.clean()
	return nil
}

func (n *Node) transferOptions() statetransfer.Options {
	return statetransfer.Options{FS: n.fs, Dir: n.opt.Dir, Have: n.aside, Logger: n.logger}
}

// coldStore returns the cold store of the cluster, which has the bodies of cold files. It is nil if
// there is none, or the one of this node is not that of the cluster: then bodies are copied.
func (n *Node) coldStore(ctx context.Context) *backup.Cold {
	if n.opt.Cold == nil {
		return nil
	}
	cluster := n.identity().Cluster
	owner, err := n.opt.Cold.OwnerID(ctx)
	if err == nil && owner == "" {
		return nil // nothing has been cold yet
	}
	if err != nil || owner != cluster {
		n.logger.Warn("cold files are copied from the other node, the cold store of this one is not used", "owner", owner, "err", err)
		return nil
	}
	c := *n.opt.Cold
	c.Node, c.Owner, c.Holder = n.opt.Name, fmt.Sprintf("node %s of %s", n.opt.Name, cluster), cluster+"/"+n.opt.Name
	c.Busy = func(err error) {
		n.logger.Warn("cold files are copied from the other node, the cold store is in use", "err", err)
	}
	if err := n.keepAside(ctx, &c); err != nil {
		n.logger.Warn("cold files are copied from the other node, what is set aside is not kept in the cold store yet", "err", err)
		return nil
	}
	return &c
}

// keepAside has the cold store keep what directories need that the node has set aside: the list
// of the node has that no more after a transfer.
func (n *Node) keepAside(ctx context.Context, c *backup.Cold) error {
	found, err := n.fs.List(n.opt.Dir)
	for _, name := range found {
		if strings.HasPrefix(name, asidePrefix) && err == nil {
			err = c.Keep(ctx, n.opt.Name+"-"+name)
		}
	}
	return err
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
		for n.pause(ctx, time.Second) {
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

// newHealer returns what fetches from other nodes what damage takes from this one.
func (n *Node) newHealer(st *store.Store) *heal.Healer {
	slow := *n.transport.Client()
	slow.Transport = heal.Slow(slow.Transport)
	return heal.New(heal.Options{
		FS: n.fs, Dir: path.Join(n.opt.Dir, self.Dir, "heal"), Data: n.opt.Dir, Store: st, Logger: n.logger, Every: n.opt.ElectionTimeout / 2,
		May:       func() bool { return n.replica.Ready() && !n.replica.Leads() && n.identity().State == self.Member },
		Sources:   func(ctx context.Context, p heal.Part) ([]heal.Source, error) { return n.healers(ctx, p, &slow) },
		CopyState: n.onTransferNeeded,
	})
}

// healers returns the nodes that have a part without damage, those that follow first.
func (n *Node) healers(ctx context.Context, p heal.Part, client *http.Client) (out []heal.Source, err error) {
	var errs []error
	for _, s := range n.sound(ctx, n.knownPeers(), func(s *peerStatus) error {
		switch {
		case p.Unopened && s.Damage != "":
			return fmt.Errorf("it has damage: %s", s.Damage)
		case slices.Contains(s.Parts, p):
			return fmt.Errorf("it has damage of %s too", p)
		}
		return nil
	}) {
		if s.err != nil {
			errs = append(errs, fmt.Errorf("%s (%s): %w", s.Name, s.Address, s.err))
			continue
		}
		c := n.clientOf(s.status.Address)
		out = append(out, heal.Source{Name: s.status.Name, Client: &exchange.Client{URL: c.URL, HTTP: client}})
	}
	if len(out) == 0 {
		err = errors.Join(append([]error{errors.New("no other node has it")}, errs...)...)
	}
	return out, err
}
