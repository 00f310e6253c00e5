package replica

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipeline passes answers on to raft without making the transport wait for it. After an
// answer that ends the pipeline raft reads no more answers, but it may send once more
// before it notices: the transport then has no room for an answer, so it takes no
// message, and raft waits for that for ever. It would send nothing to this node again,
// and its Shutdown would not end.
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
	end     func() // of pass
	hangs   func() bool
}

func newPipeline(p raft.AppendPipeline, hangs func() bool) *pipeline {
	stop := make(chan struct{})
	out := &pipeline{p, make(chan raft.AppendFuture), sync.OnceFunc(func() { close(stop) }), hangs}
	go out.pass(stop)
	return out
}

// AppendEntries sends a message, unless the disk hangs; see contact.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.hangs() {
		return nil, errSilent
	}
	bound(args)
	return p.AppendPipeline.AppendEntries(args, resp)
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
