package replica

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline is a pipeline of raft, with three changes.
//
// It passes answers on to raft without making the transport wait for it. After an
// answer that ends the pipeline raft reads no more answers, but it may send once more
// before it notices: the transport then has no room for an answer, so it takes no
// message, and raft waits for that for ever. It would send nothing to this node again,
// and its Shutdown would not end.
//
// It tells the other node soon that what it has is committed. Raft says it in its next
// message, which without entries comes after its CommitTimeout. And it has raft send the rest
// soon to a node that has fallen behind: raft sends MaxAppendEntries when it has stored
// entries, and again after its CommitTimeout.
//
// And it sends nothing while the disk hangs; see contact.
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
	end     func() // of pass
	r       *Replica
	commit  func(term uint64) uint64
	quiet   *time.Timer // calls tell

	mu struct {
		sync.Mutex                           // held while a message is sent
		next       raft.AppendEntriesRequest // one that would follow the latest message, without entries
		since      time.Time                 // tell has put off what it does; zero: it has not
	}
}

func newPipeline(p raft.AppendPipeline, c *contact) *pipeline {
	stop := make(chan struct{})
	out := &pipeline{AppendPipeline: p, answers: make(chan raft.AppendFuture), r: c.r, commit: c.commit}
	out.quiet = time.AfterFunc(time.Hour, out.tell)
	out.quiet.Stop() // until there are news
	c.pipelines.Store(out, nil)
	out.end = sync.OnceFunc(func() {
		c.pipelines.Delete(out)
		out.quiet.Stop()
		close(stop)
	})
	go out.pass(stop)
	return out
}

// AppendEntries sends a message.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.r.hangs() {
		return nil, errSilent
	}
	bound(args)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.next = *args
	p.mu.next.Entries = nil
	p.mu.since = time.Time{}
	if n := len(args.Entries); n > 0 {
		p.mu.next.PrevLogEntry, p.mu.next.PrevLogTerm = args.Entries[n-1].Index, args.Entries[n-1].Term
	}
	f, err := p.AppendPipeline.AppendEntries(args, resp)
	if commit := p.commit(args.Term); args.LeaderCommitIndex < commit || p.mu.next.PrevLogEntry < commit {
		p.news() // tell may have met the message before
	}
	return f, err
}

const (
	// tellAfter is how long nothing more may be committed before a message says what is.
	// The entries of a writer that waits for its answers come sooner, and say it too.
	tellAfter = time.Millisecond
	// tellLater is how long that is put off while entries are under way. They are
	// committed soon, and other ones follow under load: each message costs all nodes time.
	tellLater = 4 * time.Millisecond
	// tellAgain is the time between two tries to have raft send entries.
	tellAgain = 100 * time.Millisecond
)

// news has tell called soon: more is committed.
func (p *pipeline) news() { p.quiet.Reset(tellAfter) }

// tell sends a message that says what is committed, unless the latest one says it. If entries
// up to there are still to come, and raft does not send them, another entry has raft do it.
func (p *pipeline) tell() {
	if p.r.hangs() {
		return
	}
	if !p.mu.TryLock() {
		p.quiet.Reset(tellLater)
		return
	}
	defer p.mu.Unlock()
	next := &p.mu.next
	commit := p.commit(next.Term) // of a later term, the log may have other entries
	behind := next.PrevLogEntry < commit
	if !behind && next.LeaderCommitIndex >= commit {
		return
	}
	if behind || next.PrevLogEntry > commit { // entries are under way
		if p.mu.since.IsZero() {
			p.mu.since = time.Now()
		}
		if rest := tellLater - time.Since(p.mu.since); rest > 0 {
			p.quiet.Reset(rest)
			return
		}
	}
	p.mu.since = time.Time{}
	if behind {
		p.r.Probe()
		p.quiet.Reset(tellAgain) // unless raft sends something before
		return
	}
	next.LeaderCommitIndex = commit
	args := *next
	_, _ = p.AppendPipeline.AppendEntries(&args, new(raft.AppendEntriesResponse)) // raft notices a failure, as its own
}

// Consumer returns the answers.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close ends the pipeline.
func (p *pipeline) Close() error {
	p.end()
	return p.AppendPipeline.Close()
}

// pass takes every answer at once. Raft reads them soon or never: those that wait are
// as few as the messages that raft sends before it notices the end.
func (p *pipeline) pass(stop <-chan struct{}) {
	var waiting []raft.AppendFuture
	for {
		var next raft.AppendFuture
		var to chan<- raft.AppendFuture
		if len(waiting) > 0 {
			next, to = waiting[0], p.answers
		} else {
			waiting = nil
		}
		select {
		case a := <-p.AppendPipeline.Consumer():
			waiting = append(waiting, a)
		case to <- next:
			waiting = waiting[1:]
		case <-stop:
			return
		}
	}
}
