package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// retryAfter is how soon watch tries again to begin an epoch.
const retryAfter = 10 * time.Millisecond

// watch begins an epoch when raft leads, and ends it when raft does not any more.
func (r *Replica) watch() {
	var retry <-chan time.Time
	look := time.NewTicker(r.opt.ElectionTimeout / 2)
	defer look.Stop()
	var stall stall
	for {
		select {
		case <-r.stop:
			return
		case <-r.raft.LeaderCh():
		case <-r.wake:
		case <-retry:
		case now := <-look.C:
			e := r.epoch.Load()
			switch stalled := stall.lasts(e, r.progress.index.Load(), now); {
			case r.entries.writing.Lasts() > r.opt.ElectionTimeout+r.entries.slack():
				r.end(e, errHangs)
			case stalled > stalledAfter*r.opt.ElectionTimeout:
				r.end(e, errStalled)
			}
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

// stalledAfter is how many election timeouts an epoch may last in which groups are
// under way and none is applied. Raft does not notice if the others answer and cannot
// store anything, because their disks are full.
const stalledAfter = 10

// stall measures how long nothing is applied although groups are under way.
type stall struct {
	epoch *epoch
	index uint64
	since time.Time
}

// lasts returns for how long that has been seen.
func (s *stall) lasts(e *epoch, index uint64, now time.Time) time.Duration {
	flights := 0
	if e != nil {
		_, flights = e.waiting()
	}
	if flights == 0 || e != s.epoch || index != s.index {
		*s = stall{e, index, now}
	}
	return now.Sub(s.since)
}

// begin begins an epoch. It returns true if that should be tried again.
func (r *Replica) begin() (again bool) {
	term := r.raft.CurrentTerm()
	if r.mayNotLead() {
		return false
	}
	if last := r.role.last.Load(); last != nil {
		// The barrier is behind all that it proposed.
		select {
		case <-last.done:
		case <-r.stop:
			return false
		}
	}
	if r.giveTo(r.opt.Heirs()) {
		return r.raft.State() == raft.Leader
	}
	if err := r.barrier(); err != nil {
		if errors.Is(err, errNoApply) {
			r.giveUp(term)
		}
		return r.raft.State() == raft.Leader
	}
	r.role.Lock()
	defer r.role.Unlock()
	if r.mayNotLead() {
		return false
	}
	if r.raft.State() != raft.Leader || r.raft.CurrentTerm() != term {
		return true
	}
	if r.checkFloor(); r.Err() != nil {
		return false
	}
	r.decoder.Reset() // it is of no use to a leader
	e := newEpoch(term)
	r.role.last.Store(e)
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

// mayNotLead says that no epoch may begin.
func (r *Replica) mayNotLead() bool {
	return r.role.transferring.Load() || r.role.closing.Load() || r.Err() != nil
}

// barrier returns when everything is applied that was proposed before. errNoApply says
// that nothing was applied for long although there is something to apply.
func (r *Replica) barrier() error {
	done := make(chan error, 1)
	go func() { done <- r.ask(context.Background(), func() raft.Future { return r.raft.Barrier(0) }) }()
	look := time.NewTicker(stalledAfter * r.opt.ElectionTimeout)
	defer look.Stop()
	for index := r.progress.index.Load(); ; {
		select {
		case err := <-done:
			return err
		case <-look.C:
		}
		before := index
		if index = r.progress.index.Load(); index == before && !r.appliedUpTo(r.raft.CommitIndex()) {
			return errNoApply
		}
	}
}

// giveUp gives the leadership away that this node cannot use. Raft does not notice: it
// stores entries and answers the others, while the store waits for memory or for room
// on the disk. There is no epoch, so no proposal is under way.
func (r *Replica) giveUp(term uint64) {
	r.logger.Warn("elected, but applying entries is stalled; transferring leadership", "term", term, "index", r.progress.index.Load())
	if targets, _ := r.targets(""); !r.giveTo(targets) {
		r.logger.Warn("no other node takes over, which is tried again")
	}
}

// giveTo gives the leadership to the first of some voters that takes it. There is no
// epoch. It returns false if this node still leads.
func (r *Replica) giveTo(voters []raft.Server) bool {
	for _, v := range voters {
		ctx, cancel := context.WithTimeout(context.Background(), 2*r.opt.ElectionTimeout)
		err := r.handOver(ctx, v)
		cancel()
		if err == nil || r.raft.State() != raft.Leader {
			return true
		}
		r.logger.Warn("a node does not take the lead", "id", v.ID, "err", err)
	}
	return false
}

// Probe is called when a write has waited at this node for long. It may wait outside the
// log, behind a request that changes files. Then raft stores an entry of its own, which
// tells whether the disk hangs.
func (r *Replica) Probe() {
	if !r.Leads() || r.entries.writing.Lasts() > 0 || !r.probing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer r.probing.Store(false)
		_ = r.ask(context.Background(), func() raft.Future { return r.raft.Barrier(0) }) // nothing depends on it
	}()
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
	r.contact.retired(r.voters(), e.term)
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
		e.format = r.opt.Format()
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
		if err := r.ask(context.Background(), func() raft.Future { return f }); err != nil {
			r.end(e, fmt.Errorf("%w: %w", errLost, err))
		}
	}
}

// tell calls OnLead.
func (r *Replica) tell() {
	for r.awaitLead(true) {
		ctx, end := context.WithCancel(context.Background())
		r.opt.OnLead(ctx)
		r.awaitLead(false)
		end()
	}
}

// awaitLead waits until this node leads, or does not. It returns false if the replica ends.
func (r *Replica) awaitLead(leads bool) bool {
	for r.Leads() != leads {
		select {
		case <-r.stop:
			return false
		case <-r.leads:
		}
	}
	return true
}

// TransferLeadership gives the leadership to a voter, to any that can be reached if id is
// empty. New requests are refused meanwhile, those under way are answered first. It
// returns when raft does not lead any more, or with the reason why it still does.
func (r *Replica) TransferLeadership(ctx context.Context, id raft.ServerID) error {
	r.transferring.Lock()
	defer r.transferring.Unlock()
	if r.raft.State() != raft.Leader {
		return errFollowing
	}
	if e := r.epoch.Load(); e != nil && id == "" {
		// Who answers now does not hang: targets names it first.
		look, cancel := context.WithTimeout(ctx, r.opt.ElectionTimeout/2)
		_ = r.confirm(look, e) // without a majority all are tried
		cancel()
	}
	targets, err := r.targets(id)
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	r.role.Lock()
	r.role.transferring.Store(true)
	last := r.role.last.Load()
	r.role.Unlock()
	defer func() {
		r.role.Lock()
		r.role.transferring.Store(false)
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
	for _, target := range targets {
		if err = r.handOver(ctx, target); err == nil || ctx.Err() != nil || r.raft.State() != raft.Leader {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return nil
}

// handOver makes raft give the leadership to a voter.
func (r *Replica) handOver(ctx context.Context, to raft.Server) error {
	// Raft waits for ever for a node that does not answer, and takes no entry meanwhile.
	for end := time.Now().Add(r.opt.ElectionTimeout); !r.contact.spokeSince(to.ID, time.Now().Add(-r.opt.ElectionTimeout)); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.stop:
			return errClosing
		case <-time.After(lookEvery):
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not answer", to.ID)
		}
	}
	for {
		err := r.ask(ctx, func() raft.Future { return r.raft.LeadershipTransferToServer(to.ID, to.Address) })
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return err
		}
		// Raft answers before it has put away the attempt before.
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Millisecond):
		}
	}
}

// targets returns the voters that may lead after this node: the one with an id, or
// all others, those first that answered last.
func (r *Replica) targets(id raft.ServerID) (targets []raft.Server, err error) {
	if id == r.opt.ID {
		return nil, errors.New("this node leads already")
	}
	for _, s := range r.voters() {
		if s.ID == id || id == "" && s.ID != r.opt.ID {
			targets = append(targets, s)
		}
	}
	switch {
	case len(targets) == 0 && id == "":
		return nil, errors.New("there is no other voter")
	case len(targets) == 0:
		return nil, fmt.Errorf("%s is not a voter", id)
	}
	slices.SortFunc(targets, func(a, b raft.Server) int {
		return r.contact.answered(b.ID).Compare(r.contact.answered(a.ID))
	})
	return targets, nil
}

// voters returns the voters of the latest configuration, this node included.
func (r *Replica) voters() (voters []raft.Server) {
	if r.raft == nil {
		return nil // not started
	}
	f := r.raft.GetConfiguration()
	if f.Error() != nil {
		return nil // it never is
	}
	for _, s := range f.Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, s)
		}
	}
	return voters
}

// ask asks raft and waits for the answer. Raft never answers what it was asked just before its
// end, so what asks it may outlive the replica.
func (r *Replica) ask(ctx context.Context, f func() raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f().Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.stop:
		return errClosing
	case <-r.failed:
		return r.Err()
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
