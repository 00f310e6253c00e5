package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// retryAfter is how soon watch tries again to begin an epoch.
const retryAfter = 10 * time.Millisecond

// watch begins an epoch when raft leads, and ends it when raft does not any more.
func (r *Replica) watch() {
	var retry <-chan time.Time
	for {
		select {
		case <-r.stop:
			return
		case <-r.raft.LeaderCh():
		case <-r.wake:
		case <-retry:
		}
		retry = nil
		leads := r.raft.State() == raft.Leader
		if e := r.epoch.Load(); e != nil && (!leads || e.term != r.raft.CurrentTerm()) {
			r.end(e, errLost)
		}
		if leads && r.epoch.Load() == nil && r.begin() {
			retry = time.After(retryAfter)
		}
	}
}

// begin begins an epoch. It returns true if that should be tried again.
func (r *Replica) begin() (again bool) {
	term := r.raft.CurrentTerm()
	r.role.Lock()
	last, not := r.role.last, r.role.transferring || r.role.closing || r.Err() != nil
	r.role.Unlock()
	if not {
		return false
	}
	if last != nil {
		// The barrier is behind all that it proposed.
		select {
		case <-last.done:
		case <-r.stop:
			return false
		}
	}
	if err := r.await(context.Background(), r.raft.Barrier(0)); err != nil {
		return r.raft.State() == raft.Leader
	}
	r.role.Lock()
	defer r.role.Unlock()
	if r.role.transferring || r.role.closing || r.Err() != nil {
		return false
	}
	if r.raft.State() != raft.Leader || r.raft.CurrentTerm() != term {
		return true
	}
	if applied := r.progress.sequence.Load(); applied < r.floor {
		r.fail(fmt.Errorf("the files of this node have entries up to %d, the cluster has none behind %d: this node is of another cluster, or the cluster has lost its log", r.floor, applied))
		return false
	}
	r.decoder.Reset() // it is of no use to a leader
	e := newEpoch(term)
	r.role.last = e
	futures := make(chan raft.ApplyFuture, 2*maxFlights)
	r.running.Go(func() { r.propose(e, futures) })
	r.running.Go(func() { r.collect(e, futures) })
	r.epoch.Store(e)
	r.node.Lead()
	r.contact.led()
	r.counters.epochs.Add(1)
	signal(r.leads)
	r.logger.Info("leading", "term", term, "sequence", r.progress.sequence.Load(), "index", r.progress.index.Load())
	return false
}

// end ends an epoch.
func (r *Replica) end(e *epoch, cause error) {
	r.role.Lock()
	defer r.role.Unlock()
	r.endLocked(e, cause)
}

// endLocked ends an epoch unless another one has begun. role is held.
func (r *Replica) endLocked(e *epoch, cause error) {
	if e == nil || r.epoch.Load() != e {
		return
	}
	r.epoch.Store(nil)
	e.close(cause, unknown(cause))
	r.node.Retire()
	r.contact.led()
	signal(r.leads)
	signal(r.wake)
	r.logger.Info("not leading any more", "term", e.term, "cause", cause)
}

// propose forms groups of an epoch and proposes them, until the epoch is over.
func (r *Replica) propose(e *epoch, futures chan<- raft.ApplyFuture) {
	defer close(futures)
	for {
		taken := e.take()
		if taken == nil {
			return
		}
		g := e.form(taken, r.number.Add(1))
		if g == nil {
			return
		}
		futures <- r.raft.ApplyLog(raft.Log{Data: g.data}, 0)
	}
}

// collect ends an epoch when raft refuses one of its proposals. The others are
// answered by apply.
func (r *Replica) collect(e *epoch, futures <-chan raft.ApplyFuture) {
	defer close(e.done)
	for f := range futures {
		if err := f.Error(); err != nil {
			r.end(e, fmt.Errorf("%w: %w", errLost, err))
		}
	}
}

// tell calls OnLead.
func (r *Replica) tell() {
	told := false
	for {
		select {
		case <-r.stop:
			if told {
				r.opt.OnLead(false)
			}
			return
		case <-r.leads:
		}
		if leads := r.Leads(); leads != told {
			told = leads
			r.opt.OnLead(leads)
		}
	}
}

// TransferLeadership gives the leadership to a voter, the most advanced one if id is
// empty. New requests are refused meanwhile, those under way are answered first. It
// returns when raft does not lead any more, or with the reason why it still does.
func (r *Replica) TransferLeadership(ctx context.Context, id raft.ServerID) error {
	r.transferring.Lock()
	defer r.transferring.Unlock()
	if r.raft.State() != raft.Leader {
		return errFollowing
	}
	target, err := r.voter(id)
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	r.role.Lock()
	r.role.transferring = true
	last := r.role.last
	r.role.Unlock()
	defer func() {
		r.role.Lock()
		r.role.transferring = false
		r.role.Unlock()
		signal(r.wake)
	}()
	if e := r.epoch.Load(); e != nil {
		give, cancel := context.WithTimeout(ctx, r.opt.ElectionTimeout)
		e.drain(errHandover, give.Done())
		cancel()
		r.end(e, errHandover)
	}
	if last != nil {
		select {
		case <-last.done:
		case <-r.stop:
			return errClosing
		case <-ctx.Done():
			return fmt.Errorf("transfer leadership: raft has not answered all proposals: %w", ctx.Err())
		}
	}
	f := r.raft.LeadershipTransfer()
	if id != "" {
		f = r.raft.LeadershipTransferToServer(target.ID, target.Address)
	}
	if err := r.await(ctx, f); err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return nil
}

// voter returns the voter with an id.
func (r *Replica) voter(id raft.ServerID) (s raft.Server, err error) {
	f := r.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return s, err
	}
	if id == r.opt.ID {
		return s, errors.New("this node leads already")
	}
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter && (s.ID == id || id == "" && s.ID != r.opt.ID) {
			return s, nil
		}
	}
	if id == "" {
		return s, errors.New("there is no other voter")
	}
	return s, fmt.Errorf("%s is not a voter", id)
}

// await waits for an answer of raft.
func (r *Replica) await(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.stop:
		return errClosing
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
