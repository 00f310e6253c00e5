package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/age"
	"tsdbd/cluster/clock"
	"tsdbd/cluster/heal"
	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/replica"
	"tsdbd/cluster/self"
	"tsdbd/cluster/transport"
	"tsdbd/internal/vfs"
	"tsdbd/store"
)

// ErrReopen is what Restart sends when the server must close everything and open it
// again: Open then copies the state of another node.
var ErrReopen = errors.New("the node must copy the state of another node")

// Node is this server as a node of its cluster.
type Node struct {
	opt    Options
	fs     vfs.FS
	logger *slog.Logger
	lock   vfs.Lock

	changing sync.Mutex // one change of the membership at a time
	saving   sync.Mutex // held while the identity is written

	transport *transport.Transport
	http      *http.Server // of other nodes
	log       *raftlog.Store
	replica   *replica.Replica // nil until prepare

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	open    atomic.Pointer[opened]    // nil until Start
	onLead  func(ctx context.Context) // of Start
	running sync.WaitGroup
	restart chan error
	sums    sums
	ages    *age.Table
	aside   string      // where Open has moved what the node had, or ""
	doubt   atomic.Bool // the cluster has continued with an old copy: what this node has may be nowhere else

	giveAgain time.Time // giveWay's: not before

	forwarded, transferred atomic.Int64

	mu struct {
		sync.Mutex
		identity *self.Identity // nil before the first start of a node with data is over
		hasData  bool           // at the first start
		transfer *admin.Transfer
		problem  string   // why the node is not where it should be
		aside    string   // what was set aside and is still there
		restart  error    // what was sent to restart
		hindered []string // what keeps other members from their part, as texts
		clock    clock.Verdict
		peers    map[raft.ServerID]*peerStatus // that have answered
		lead     *lead                         // that requests are passed on to, or nil
		ofStore  bool                          // the store closes the log
		closed   bool
	}
}

// opened is what a node has from Start on.
type opened struct {
	since        time.Time
	store        *store.Store
	healer       *heal.Healer
	api, backups http.Handler // answer what clients ask of other nodes, and transfers
}

// Open makes the server in a data directory a node. It comes before the store is
// opened, and returns when the data directory and the log are ready for that: at the
// first start it waits for the other nodes, and it copies the state of another node if
// that is needed.
func Open(ctx context.Context, opt Options) (_ *Node, err error) {
	opt.setDefaults()
	if err := opt.check(); err != nil {
		return nil, err
	}
	n := &Node{opt: opt, fs: opt.FS, logger: opt.Logger, restart: make(chan error, 1), ages: age.New()}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.sums.mu.marks = map[string]*sum{}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	dir := path.Join(opt.Dir, self.Dir)
	if err := n.fs.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open node: %w", err)
	}
	if n.lock, err = n.fs.Lock(path.Join(dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("open node: %w", err)
	}
	if n.mu.identity, err = self.Open(n.fs, opt.Dir, n.logger); err != nil {
		return nil, err
	}
	if err := n.checkIdentity(); err != nil {
		return nil, err
	}
	if n.outside() {
		if err := n.await(ctx); err != nil {
			return nil, err
		}
	}
	if err := n.listen(); err != nil {
		return nil, err
	}
	if n.outside() {
		if err := n.firstStart(ctx); err != nil {
			return nil, fmt.Errorf("first start of node %s: %w", opt.Name, err)
		}
	}
	if n.identity().State == self.Member {
		n.clean() // what an interrupted clean has left
		if err := n.setWALAside(); err != nil {
			return nil, fmt.Errorf("set the log of the data directory aside: %w", err)
		}
	}
	if err := n.openLog(ctx); err != nil {
		return nil, err
	}
	if err := n.checkMoved(ctx); err != nil {
		return nil, err
	}
	if err := n.openReplica(); err != nil {
		return nil, err
	}
	return n, nil
}

// identity returns who the node is now; the caller does not change it.
func (n *Node) identity() *self.Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.identity
}

// outside reports whether the node has not been in a cluster yet.
func (n *Node) outside() bool {
	i := n.identity()
	return i == nil || i.State == self.Waiting
}

// setIdentity changes who the node is, durably. Others read who it was while it writes: a
// disk may hang.
func (n *Node) setIdentity(change func(i *self.Identity)) error {
	n.saving.Lock()
	defer n.saving.Unlock()
	next := self.Identity{}
	if i := n.identity(); i != nil {
		next = *i
	}
	change(&next)
	if err := self.Write(n.fs, n.opt.Dir, &next); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.identity = &next
	return nil
}

// checkIdentity refuses options that are not those of the node in the directory.
func (n *Node) checkIdentity() error {
	i := n.mu.identity
	switch {
	case i == nil, i.State == self.Waiting:
		return nil
	case i.State == self.Left:
		return fmt.Errorf("%s is the directory of node %s, which %s: to make it a server of its own, run tsdbd cluster leave -data %s and start without -cluster flags; to join again, start with an empty directory", n.opt.Dir, i.Name, i.Reason, n.opt.Dir)
	case i.Name != n.opt.Name:
		return fmt.Errorf("%s is the directory of node %s, but cluster.node is %s: start it as %s, or start %s with an empty directory", n.opt.Dir, i.Name, n.opt.Name, i.Name, n.opt.Name)
	}
	return nil
}

// openLog opens the log of a node that has a state. It first copies the state of
// another node if it has none that can be used.
func (n *Node) openLog(ctx context.Context) error {
	for {
		if n.identity().State == self.Transfer {
			if name := n.identity().Aside; name != "" {
				if err := n.setAside(name); err != nil {
					return fmt.Errorf("set the directory of the node aside: %w", err)
				}
			}
			if err := n.transferState(ctx); err != nil {
				return err
			}
		}
		var err error
		if n.log, err = raftlog.Open(n.fs, n.logDir(), raftlog.Options{Logger: n.logger, SegmentBytes: n.segmentBytes()}); err != nil {
			return fmt.Errorf("open log of the node: %w", err)
		}
		damage, copied := n.log.Damage(), ""
		if len(damage) == 0 {
			if err := n.ages.Open(n.log, n.identity().ID); err != nil {
				return err
			}
			if copied, err = n.checkCopy(ctx); copied == "" || err != nil {
				return err
			}
			if err := n.checkMoved(ctx); err != nil {
				return err
			}
		}
		// What the log has forgotten must not count as if the node had never
		// promised it: it joins again as another one.
		log := n.log
		n.log = nil
		if err := log.Close(); err != nil {
			n.logger.Warn("log that is given up not closed", "err", err)
		}
		if copied != "" {
			if err := n.giveUp(copied); err != nil {
				return err
			}
			n.ages.Acquit()
			continue
		}
		n.logger.Error("the log is damaged and set aside, the node copies the state of another one", "err", damage[0])
		if err := n.needTransfer(fmt.Sprintf("its log is damaged: %v", damage[0])); err != nil {
			return err
		}
		if err := raftlog.SetAside(n.fs, n.logDir()); err != nil {
			return fmt.Errorf("set damaged log aside: %w", err)
		}
	}
}

// segmentBytes is the size of a segment of the log. The log keeps whole segments, so they
// are small if little is to be kept.
func (n *Node) segmentBytes() int64 { return min(max(n.opt.LogMaxBytes/8, 4<<20), 16<<20) }

// needTransfer notes that the state and the log of the node must not be used any more.
func (n *Node) needTransfer(reason string) error {
	return n.setIdentity(func(i *self.Identity) {
		if i.State == self.Transfer {
			return
		}
		i.Renew(reason)
	})
}

// giveUp is needTransfer where state and log are kept: the cluster has continued with
// something else, and what this node has may be nowhere else.
func (n *Node) giveUp(reason string) error {
	name := ""
	if n.identity().State == self.Member {
		var err error
		if name, err = n.newAside(reason); err != nil {
			return fmt.Errorf("set the directory of the node aside: %w", err)
		}
	}
	return n.setIdentity(func(i *self.Identity) {
		i.Renew(reason)
		i.Aside = cmp.Or(name, i.Aside)
	})
}

func (n *Node) logDir() string { return path.Join(n.opt.Dir, self.Dir, "log") }

// openReplica makes what applies the log to the store.
func (n *Node) openReplica() error {
	var err error
	n.replica, err = replica.New(replica.Options{
		ID: raft.ServerID(n.identity().ID), Log: n.log, Transport: transport.NewNetwork(n.transport, n.meet),
		ElectionTimeout: n.opt.ElectionTimeout, LogMaxBytes: n.opt.LogMaxBytes,
		Format: n.logFormat, NewestFormat: n.opt.LogFormat,
		Logger: n.logger, Heirs: n.onElected,
		OnLead: func(ctx context.Context) { n.onLead(ctx) }, OnMark: n.onMark,
		OnTransferNeeded: n.onTransferNeeded, OnFatal: n.onFatal,
	})
	if err != nil {
		return fmt.Errorf("open node: %w", err)
	}
	return nil
}

// OpenLog opens the log for the store; see store.Options.
func (n *Node) OpenLog(o store.LogOptions) (store.Log, error) {
	l, err := n.replica.OpenLog(o)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.ofStore = true
	return nodeLog{l, n}, nil
}

// LogAfter is for the option of the store: the log has the entries behind it.
func (n *Node) LogAfter() uint64 { return n.log.Base().Sequence }

// nodeLog closes the log of a node after the store has trimmed it for the last time.
type nodeLog struct {
	store.Log
	node *Node
}

// Close closes the log.
func (l nodeLog) Close() error { return errors.Join(l.Log.Close(), l.node.closeLog()) }

// closeLog closes the log and gives up the lock of the node.
func (n *Node) closeLog() (err error) {
	if n.log != nil {
		err = n.log.Close()
	}
	if n.lock != nil {
		err = errors.Join(err, n.lock.Close())
	}
	return err
}

// Start begins to take part in the cluster with the open store. api answers requests
// of clients that other nodes pass on, backups the transfers of other nodes. onLead is called
// when the node begins to lead, and must return soon. Its context ends when the node no
// longer leads.
func (n *Node) Start(st *store.Store, api, backups http.Handler, onLead func(ctx context.Context)) error {
	n.onLead = onLead
	if err := n.replica.Start(st); err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	healer := n.newHealer(st)
	n.open.Store(&opened{time.Now(), st, healer, api, backups})
	n.running.Go(n.attend)
	n.running.Go(n.watchLead)
	n.running.Go(n.watchMembers)
	n.running.Go(n.keepAge)
	n.running.Go(func() { healer.Run(n.ctx) })
	return nil
}

// Restart sends one value if the node cannot go on: an ErrReopen if the server must
// close everything and open it again, or the error with which it must end.
func (n *Node) Restart() <-chan error { return n.restart }

// ask sends the first value of Restart.
func (n *Node) ask(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.restart == nil {
		n.mu.restart = err
		n.restart <- err
	}
}

// onTransferNeeded is called when the node cannot follow the log.
func (n *Node) onTransferNeeded(reason string) { n.copyState(reason, n.doubt.Load()) }

// copyState has the server open the node again, which then copies the state of another
// one. With keep, what the node has is set aside.
func (n *Node) copyState(reason string, keep bool) {
	n.logger.Warn("the node must copy the state of another one", "reason", reason)
	note := n.needTransfer
	if keep {
		note = n.giveUp
	}
	if err := note(reason); err != nil {
		n.ask(err)
		return
	}
	n.ask(fmt.Errorf("%w: %s", ErrReopen, reason))
}

// onFatal is called when the node must stop. If its log is damaged, it goes on with the
// state of another node. If it is the only one that cannot apply an entry, too.
func (n *Node) onFatal(err error) {
	damage := n.log.Damage()
	switch {
	case len(damage) > 0:
		n.onTransferNeeded(fmt.Sprintf("its log is damaged: %v", damage[0]))
	case errors.Is(err, store.ErrDiverged):
		n.running.Go(func() { n.diverged(err) })
	case errors.Is(err, raftlog.ErrCommitted) && len(n.knownPeers()) > 0:
		n.contradicted(err)
	default:
		n.ask(err)
	}
}

// current returns the open store, nil before Start. A request must not touch the
// replica or the log before there is a store.
func (n *Node) current() *store.Store {
	if o := n.open.Load(); o != nil {
		return o.store
	}
	return nil
}

// Close ends the part of the server in the cluster. It hands the lead over if the node
// has it. The store is closed afterwards, and closes the log.
func (n *Node) Close() error {
	n.mu.Lock()
	closed, ofStore := n.mu.closed, n.mu.ofStore
	n.mu.closed = true
	n.mu.Unlock()
	if closed {
		return nil
	}
	var errs []error
	if n.replica != nil {
		errs = append(errs, n.replica.Close())
	}
	n.cancel()
	n.sums.close()
	if n.http != nil {
		errs = append(errs, n.closeHTTP())
	}
	n.running.Wait()
	if n.transport != nil {
		errs = append(errs, n.transport.Close())
	}
	if !ofStore {
		errs = append(errs, n.closeLog())
	}
	return errors.Join(errs...)
}

// answerTime is how long Close waits until the answers to other nodes are sent.
const answerTime = 3 * time.Second

// closeHTTP ends the connections of other nodes. Their requests have been canceled; the
// answers that are under way still arrive, as that to the removal of this node.
func (n *Node) closeHTTP() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if n.http.Shutdown(ctx) == nil {
		return nil
	}
	return n.http.Close()
}

// pause waits for a while. It returns false if ctx or the node ends before.
func (n *Node) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-n.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// timeout is how long a node waits for the answer of another one to a question that
// costs it nothing.
func (n *Node) timeout() time.Duration { return max(2*n.opt.ElectionTimeout, 2*time.Second) }
