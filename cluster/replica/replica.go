package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/store"
	"tsdbd/wal/entry"
)

// Storage is where a replica keeps raft's log. raftlog.Store is one.
type Storage interface {
	raft.LogStore
	raft.StableStore
	// Base is where the log begins.
	Base() raftlog.Base
	// SetBase moves the base durably, and drops what is older than it and not among
	// the newest keep bytes.
	SetBase(index, term, sequence uint64, keep int64) error
	// Commit notes up to which index entries are committed. StoreLogs and SaveCommit make
	// that durable.
	Commit(index uint64)
	SaveCommit() error
	// Committed is what the log knew of it when it was opened, or more.
	Committed() uint64
	// Snapshots lists one snapshot: the base.
	Snapshots() raft.SnapshotStore
}

// Store is what a replica tells its store.
type Store interface {
	Lead()           // entries are taken from now on
	Retire()         // no entry is taken any more
	Applied() uint64 // the sequence of the last entry applied, files included
}

// Options configure a Replica.
type Options struct {
	ID        raft.ServerID
	Log       Storage
	Transport raft.Transport // Close and a failure close it, if it is a raft.WithClose
	// ElectionTimeout is how long a node waits for a leader before it asks for votes;
	// default 1 s. A leader that has lost the majority steps down after the same time.
	ElectionTimeout time.Duration
	LogMaxBytes     int64 // of log that is kept for others; default 1 GiB
	DecoderBytes    int64 // of series and layouts that the decoder remembers; default 256 MiB
	Logger          *slog.Logger
	// Format returns in which form the cluster writes its log; default 1. A node with a newer
	// program holds newer forms back until all can read them.
	Format func() byte
	// NewestFormat is the newest form that the program reads; default is the constant Format.
	NewestFormat byte
	// Heirs returns voters that are to lead instead of this node, the best first. It is
	// asked when this node is elected, before it takes entries.
	Heirs func() []raft.Server
	// OnLead is called when this node begins to lead, behind Store.Lead. The context ends
	// when it no longer leads, behind Store.Retire. What passes quickly may be left out.
	OnLead func(ctx context.Context)
	// OnMark is called for every mark where it is applied: everything up to sequence is
	// applied, and nothing else.
	OnMark func(id string, sequence uint64)
	// OnTransferNeeded is called once if this node lacks entries that no other node
	// sends any more.
	OnTransferNeeded func(reason string)
	// OnFatal is called once, when the node must stop.
	OnFatal func(error)
}

func (o *Options) setDefaults() {
	if o.ElectionTimeout <= 0 {
		o.ElectionTimeout = time.Second
	}
	if o.LogMaxBytes <= 0 {
		o.LogMaxBytes = 1 << 30
	}
	if o.DecoderBytes <= 0 {
		o.DecoderBytes = 256 << 20
	}
	if o.Format == nil {
		o.Format = func() byte { return 1 }
	}
	if o.NewestFormat == 0 {
		o.NewestFormat = Format
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Heirs == nil {
		o.Heirs = func() []raft.Server { return nil }
	}
	if o.OnLead == nil {
		o.OnLead = func(context.Context) {}
	}
	if o.OnMark == nil {
		o.OnMark = func(string, uint64) {}
	}
	if o.OnTransferNeeded == nil {
		o.OnTransferNeeded = func(string) {}
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
}

// Replica is the replicated log of a store. See the package comment.
type Replica struct {
	opt     Options
	logger  *slog.Logger
	entries *entries
	contact *contact
	trail   trail
	decoder *entry.Decoder // apply's

	// What OpenLog and Start set.
	store store.LogOptions
	node  Store
	raft  *raft.Raft
	begun atomic.Pointer[raft.Raft] // raft, for what may run before Start has returned
	floor uint64                    // the store has entries up to it in its files

	// role is held while the state changes and while a group is applied, which takes
	// long if the store waits for room. What is in it changes with role held.
	role struct {
		sync.Mutex
		last         atomic.Pointer[epoch] // the latest
		transferring atomic.Bool
		closing      atomic.Bool
	}
	epoch    atomic.Pointer[epoch] // nil: not leading; changes with role held
	number   atomic.Uint64         // of the last group
	requests sync.Pool             // of *request
	failure  atomic.Pointer[error]

	// progress is what was applied last.
	progress struct {
		sequence, index atomic.Uint64
		sync.Mutex
		changed chan struct{} // closed at the next change, nil if nobody waits
	}

	following    context.Context    // of what is followed: ends with the first Close or failure
	unfollow     context.CancelFunc // ends it
	failed       chan struct{}      // closed with failure
	disconnect   func()             // closes the transport, once
	down         func() raft.Future // shuts raft down, once, without waiting for nodes that hang
	probing      atomic.Bool
	wake         chan struct{} // of watch
	leads        chan struct{} // of tell
	stop         chan struct{}
	caughtUp     chan struct{} // closed when catchUp is over
	running      sync.WaitGroup
	closed       sync.Once
	closeErr     error
	transferring sync.Mutex // one TransferLeadership at a time
	trimming     sync.Mutex
	told         sync.Once // OnTransferNeeded
	counters     counters
}

// New returns a replica that does nothing before Start.
func New(opt Options) (*Replica, error) {
	opt.setDefaults()
	if opt.ID == "" || opt.Log == nil || opt.Transport == nil {
		return nil, errors.New("replica needs an id, a log and a transport")
	}
	r := &Replica{opt: opt, logger: opt.Logger, wake: make(chan struct{}, 1), leads: make(chan struct{}, 1), stop: make(chan struct{}), failed: make(chan struct{}), caughtUp: make(chan struct{})}
	r.following, r.unfollow = context.WithCancel(context.Background())
	r.disconnect = sync.OnceFunc(func() {
		if t, ok := opt.Transport.(raft.WithClose); ok {
			_ = t.Close() // the connections end whatever it says
		}
	})
	r.down = sync.OnceValue(func() raft.Future {
		r.disconnect()
		return r.Raft().Shutdown()
	})
	r.entries, r.contact = newEntries(r), newContact(r)
	base := opt.Log.Base()
	r.progress.sequence.Store(base.Sequence)
	r.progress.index.Store(base.Index)
	return r, nil
}

// Start starts raft. The store is open.
func (r *Replica) Start(node Store) (err error) {
	if r.store.Apply == nil {
		return errors.New("start replica: the store has not opened its log")
	}
	r.node = node
	r.decoder = entry.NewDecoder(r.resolve)
	config := raft.DefaultConfig()
	config.LocalID = r.opt.ID
	config.HeartbeatTimeout, config.ElectionTimeout = r.opt.ElectionTimeout, r.opt.ElectionTimeout
	// No read and no write relies on the lease: a leader must not give up before the
	// others would elect another one.
	config.LeaderLeaseTimeout = r.opt.ElectionTimeout
	// Pipelines tell followers sooner that an entry is committed. The messages at this
	// distance tell them that they are up to date.
	config.CommitTimeout = min(r.opt.ElectionTimeout/4, time.Second)
	config.MaxAppendEntries = 16 // in a message, of about 1 MiB each or less as a rule; see bound
	config.BatchApplyCh = true
	config.ShutdownOnRemove = false
	config.SnapshotThreshold, config.TrailingLogs = math.MaxUint64, math.MaxUint64
	config.SnapshotInterval = 24 * time.Hour
	config.NoSnapshotRestoreOnStart = true
	config.NoLegacyTelemetry = true
	config.Logger = newLogger(r.logger)
	committed := r.opt.Log.Committed()
	defer func() {
		// Raft panics if it cannot read its log.
		if p := recover(); p != nil {
			err = fmt.Errorf("start raft: %v", p)
		}
	}()
	if r.raft, err = raft.NewRaft(config, fsm{r}, r.entries, stable{r.opt.Log, r.entries}, snapshots{r.opt.Log.Snapshots(), r}, r.contact); err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	r.begun.Store(r.raft)
	r.running.Go(r.contact.run)
	r.running.Go(r.watch)
	r.running.Go(r.keepCommit)
	r.running.Go(func() { r.catchUp(committed) })
	r.running.Go(r.tell)
	return nil
}

// answerTime is how long Close waits at least for the answers of raft to the last proposals.
const answerTime = 5 * time.Second

// Close gives the leadership to another voter if this node leads, ends the epoch, closes
// the transport and shuts raft down. The store may still trim afterwards.
func (r *Replica) Close() error {
	r.closed.Do(func() { r.closeErr = r.close() })
	return r.closeErr
}

// closeWait is how long Close waits for entries that are being applied.
const closeWait = 10 * time.Second

func (r *Replica) close() error {
	// Who follows may wait for memory or for room on the disk, with role held.
	r.unfollow()
	if r.raft == nil {
		close(r.stop)
		r.entries.release()
		r.disconnect()
		return nil
	}
	if r.raft.State() == raft.Leader && len(r.voters()) > 1 && r.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*r.opt.ElectionTimeout)
		if err := r.TransferLeadership(ctx, ""); err != nil {
			r.logger.Warn("leadership not handed over, the others elect a leader", "err", err)
		}
		cancel()
	}
	r.role.Lock()
	r.role.closing.Store(true)
	last := r.role.last.Load()
	r.endLocked(r.epoch.Load(), errClosing)
	r.role.Unlock()
	// While raft runs it answers every proposal: within its lease at the latest, or when the
	// machine gives it time.
	for end := time.Now().Add(max(2*r.opt.ElectionTimeout, answerTime)); last.busy(); time.Sleep(time.Millisecond) {
		if r.Err() != nil || time.Now().After(end) {
			break
		}
	}
	close(r.stop)
	r.entries.release()
	down := make(chan error, 1)
	go func() {
		down <- r.down().Error()
		r.running.Wait()
		close(down)
	}()
	select {
	case err := <-down:
		if err != nil {
			return fmt.Errorf("shut down raft: %w", err)
		}
		<-down
		return nil
	case <-time.After(closeWait):
		return errors.New("shut down raft: an entry is still being applied")
	}
}

// Raft returns raft, for its configuration and its figures. Leadership is given away
// by TransferLeadership only; see the package comment. It is nil before Start.
func (r *Replica) Raft() *raft.Raft { return r.begun.Load() }

// hangs says that a write to the log lasts so long that this node must be silent as a
// leader. The others wait for an election timeout on top of it.
func (r *Replica) hangs() bool {
	return r.entries.writing.Lasts() > r.opt.ElectionTimeout/2+r.entries.slack()
}

// Term returns the term that this node knows of, 0 before Start.
func (r *Replica) Term() uint64 {
	if raft := r.Raft(); raft != nil {
		return max(raft.CurrentTerm(), r.contact.leader().term) // see Leader
	}
	return 0
}

// Leads says that this node takes entries.
func (r *Replica) Leads() bool { return r.epoch.Load() != nil }

// Leader returns the leader that this node knows, or nothing.
func (r *Replica) Leader() (raft.ServerID, raft.ServerAddress) {
	raft := r.Raft()
	if raft == nil {
		return "", ""
	}
	if l := r.contact.leader(); l.term > raft.CurrentTerm() {
		return l.id, l.address // raft cannot store the term, because the disk hangs
	}
	address, id := raft.LeaderWithID()
	return id, address
}

// Applied returns the sequence of the last applied entry.
func (r *Replica) Applied() uint64 { return r.progress.sequence.Load() }

// Full returns why this node stores no entries: there is no room on the disk. It is nil if
// the last ones were stored.
func (r *Replica) Full() error {
	if err := r.entries.full.Load(); err != nil {
		return *err
	}
	return nil
}

// fail stops the replica: nothing is applied any more. It may be called with any lock
// held.
func (r *Replica) fail(err error) {
	if !r.failure.CompareAndSwap(nil, &err) {
		return
	}
	close(r.failed)
	r.unfollow()
	r.logger.Error("the replica cannot go on, the node must stop", "err", err)
	go func() {
		r.role.Lock()
		r.endLocked(r.epoch.Load(), fmt.Errorf("%w: %w", errLost, err))
		r.role.Unlock()
		if r.Raft() != nil {
			// The others are not to take this node for one that follows or leads.
			r.down()
		}
		if r.store.OnFailure != nil {
			r.store.OnFailure(err)
		}
		r.opt.OnFatal(err)
	}()
}
