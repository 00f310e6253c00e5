package replica

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/internal/vfs"
)

const (
	// The bounds of the cache of the newest entries: what a leader sends to followers,
	// and what they apply soon.
	maxCached      = 1024
	maxCachedBytes = 16 << 20
	// maxBacklogBytes bounds the entries that raft has read for apply and that apply
	// has not seen.
	maxBacklogBytes = 32 << 20
)

// entries is the log store that raft gets. It keeps the newest entries in memory. It
// makes raft wait when it reads committed entries much faster than they are applied:
// raft would read as far as its log goes. And it ends the replica when the log fails.
type entries struct {
	Storage
	r         *Replica
	stored    atomic.Uint64         // calls that stored entries
	full      atomic.Pointer[error] // why the last call stored none: the disk is full
	size      atomic.Int64          // bytes of the entries that are stored now
	truncated bool                  // the end was removed and nothing stored since; the appender's
	writing   vfs.UnderWay          // a change of the log

	mu struct {
		sync.Mutex
		cached []*raft.Log // consecutive, the newest last
		bytes  int
		newest span // the end of the log, as far as it was stored since the start

		// backlog has the sizes of entries that apply will see.
		moved        sync.Cond
		released     bool // nobody waits any more
		backlog      []feed
		backlogBytes int
		consumed     uint64 // index of the last entry that apply has seen
	}
}

// span is the entries from first to last, which have one term. There are none if last is 0.
type span struct{ first, last, term uint64 }

// feed is an entry that raft has read for apply.
type feed struct {
	index uint64
	bytes int
}

func newEntries(r *Replica) *entries {
	e := &entries{Storage: r.opt.Log, r: r}
	e.mu.moved.L = &e.mu
	return e
}

// slowByte is how long a byte takes on a disk that is slow and not worth a new leader: it
// stores 16 MiB in a second.
const slowByte = time.Second / (16 << 20)

// slack returns how long the storing of entries that is under way may take for their size.
func (e *entries) slack() time.Duration { return time.Duration(e.size.Load()) * slowByte }

// StoreLog stores an entry.
func (e *entries) StoreLog(l *raft.Log) error { return e.StoreLogs([]*raft.Log{l}) }

// fullRetry is the time between two attempts to store entries on a full disk.
const fullRetry = 100 * time.Millisecond

// StoreLogs stores entries. A full disk is an error that passes, any other ends the
// replica (W7). Behind a DeleteRange it waits for room: raft goes on with the removed
// end of the log if the entries in its place are not stored.
func (e *entries) StoreLogs(logs []*raft.Log) error {
	size := 0
	for _, l := range logs {
		size += len(l.Data)
	}
	e.size.Store(int64(size))
	defer e.size.Store(0)
	defer e.writing.Begin()()
	if r := e.r.Raft(); r != nil {
		e.Commit(r.CommitIndex())
	}
	err := e.store(logs)
	for told := false; e.truncated && vfs.IsFull(err); told = true {
		if !told {
			e.r.logger.Error("entries of the replicated log not stored, the disk is full, will be tried again", "index", logs[0].Index, "err", err)
		}
		select {
		case <-e.r.stop:
			return err
		case <-time.After(fullRetry):
			err = e.store(logs)
		}
	}
	if err != nil {
		if !vfs.IsFull(err) {
			e.r.fail(fmt.Errorf("store entries of the replicated log: %w", err))
		}
		return err
	}
	e.truncated = false
	e.stored.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range logs {
		if n := len(e.mu.cached); n > 0 && e.mu.cached[n-1].Index+1 != l.Index {
			e.forgetLocked(math.MaxUint64)
		}
		e.mu.cached = append(e.mu.cached, l)
		e.mu.bytes += len(l.Data)
		if s := &e.mu.newest; s.last+1 != l.Index || s.term != l.Term {
			*s = span{first: l.Index, term: l.Term}
		}
		e.mu.newest.last = l.Index
	}
	drop := 0
	for bytes := e.mu.bytes; len(e.mu.cached)-drop > maxCached || bytes > maxCachedBytes; drop++ {
		bytes -= len(e.mu.cached[drop].Data)
	}
	e.dropLocked(drop)
	return nil
}

// store stores entries on the disk, and notes whether it is full.
func (e *entries) store(logs []*raft.Log) error {
	err := e.Storage.StoreLogs(logs)
	if vfs.IsFull(err) {
		e.full.Store(&err)
	} else {
		e.full.Store(nil)
	}
	return err
}

// forgetLocked drops the entries up to index from memory.
func (e *entries) forgetLocked(index uint64) {
	n := 0
	for n < len(e.mu.cached) && e.mu.cached[n].Index <= index {
		n++
	}
	e.dropLocked(n)
}

// dropLocked drops the first n entries from memory.
func (e *entries) dropLocked(n int) {
	for _, l := range e.mu.cached[:n] {
		e.mu.bytes -= len(l.Data)
	}
	e.mu.cached = slices.Delete(e.mu.cached, 0, n)
}

// DeleteRange removes entries. A full disk is an error that passes: raft refuses the message
// that needed it, and the leader sends it again.
func (e *entries) DeleteRange(first, last uint64) error {
	defer e.writing.Begin()()
	e.mu.Lock()
	e.forgetLocked(math.MaxUint64)
	e.mu.newest = span{}
	e.mu.Unlock()
	if r := e.r.Raft(); r != nil {
		e.Commit(r.CommitIndex())
	}
	err := e.r.checkFlushed(first)
	if err == nil {
		err = e.Storage.DeleteRange(first, last)
	}
	if vfs.IsFull(err) {
		e.full.Store(&err)
		return err
	}
	if err != nil {
		e.r.fail(fmt.Errorf("remove entries %d to %d of the replicated log: %w", first, last, err))
		return err
	}
	e.truncated = true
	return nil
}

// GetLog reads an entry for raft. A log that cannot be read ends the replica: raft
// would panic.
func (e *entries) GetLog(index uint64, l *raft.Log) error {
	err := e.get(index, l)
	if err == nil {
		e.pace(l)
		return nil
	}
	if r := e.r.Raft(); r != nil && (!errors.Is(err, raft.ErrLogNotFound) || index <= r.CommitIndex() && index > e.Base().Index) {
		e.dead(fmt.Errorf("read entry %d of the replicated log: %w", index, err))
	}
	return err
}

// get reads an entry.
func (e *entries) get(index uint64, l *raft.Log) error {
	e.mu.Lock()
	if n := len(e.mu.cached); n > 0 {
		if first := e.mu.cached[0].Index; index >= first && index < first+uint64(n) {
			*l = *e.mu.cached[index-first]
			e.mu.Unlock()
			return nil
		}
	}
	e.mu.Unlock()
	err := e.Storage.GetLog(index, l)
	if base := e.Base(); errors.Is(err, raft.ErrLogNotFound) && index == base.Index && index > 0 {
		*l = entryOf(base)
		return nil
	}
	return err
}

// term returns the term of an entry, false if it is not there. Every message of a leader
// asks for that of an entry that was applied a moment ago, which is not in memory any more.
func (e *entries) term(index uint64) (term uint64, ok bool) {
	e.mu.Lock()
	s := e.mu.newest
	e.mu.Unlock()
	if index >= s.first && index <= s.last {
		return s.term, true
	}
	if b := e.Base(); b.Index == index {
		return b.Term, true
	}
	var l raft.Log
	if e.get(index, &l) != nil {
		return 0, false
	}
	return l.Term, true
}

// entryOf returns the entry at the base, for a log that begins behind the base. Raft needs its
// term: the leader asks a follower for it, and without an answer would go back to the first
// entry and never succeed. The content of this entry is never sent to others, because the log
// lacks the entry before it. The first entry of all has none before it; the base has its
// content, a configuration.
func entryOf(base raftlog.Base) raft.Log {
	l := raft.Log{Index: base.Index, Term: base.Term, Type: raft.LogNoop}
	if base.ConfigurationIndex == base.Index {
		l.Type, l.Data = raft.LogConfiguration, raft.EncodeConfiguration(base.Configuration)
	}
	return l
}

// dead ends the replica and the goroutine of raft that calls it. Raft itself would panic. The
// goroutine waits for Close, so that it neither votes nor answers.
func (e *entries) dead(err error) {
	e.r.fail(err)
	<-e.r.stop
	runtime.Goexit()
}

// pace waits while apply is far behind a committed entry. It cannot wait for itself: raft's main
// goroutine has given all earlier entries to apply before it reads this one, and other
// goroutines wait here for committed entries only.
func (e *entries) pace(l *raft.Log) {
	r := e.r.Raft()
	if r == nil || l.Type != raft.LogCommand || l.Index > r.CommitIndex() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.mu.released && e.mu.backlogBytes > maxBacklogBytes && l.Index > e.mu.backlog[len(e.mu.backlog)-1].index {
		e.mu.moved.Wait()
	}
	if n := len(e.mu.backlog); l.Index > e.mu.consumed && (n == 0 || l.Index > e.mu.backlog[n-1].index) {
		e.mu.backlog = append(e.mu.backlog, feed{l.Index, len(l.Data)})
		e.mu.backlogBytes += len(l.Data)
	}
}

// consumed notes that apply has seen an entry.
func (e *entries) consumed(index uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.consumed = index
	if r := e.r.Raft(); r == nil || r.State() != raft.Leader {
		e.forgetLocked(index) // nobody gets them from here
	}
	n := 0
	for n < len(e.mu.backlog) && e.mu.backlog[n].index <= index {
		e.mu.backlogBytes -= e.mu.backlog[n].bytes
		n++
	}
	if n > 0 {
		e.mu.backlog = append(e.mu.backlog[:0], e.mu.backlog[n:]...)
		e.mu.moved.Broadcast()
	}
}

// release ends all waiting.
func (e *entries) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.released = true
	e.mu.moved.Broadcast()
}

// stable is the stable store that raft gets. A term or vote that cannot be stored ends
// the replica, where raft would panic.
type stable struct {
	raft.StableStore
	entries *entries
}

// Set stores a value.
func (s stable) Set(key, value []byte) error { return s.check(s.StableStore.Set(key, value)) }

// SetUint64 stores a number.
func (s stable) SetUint64(key []byte, value uint64) error {
	return s.check(s.StableStore.SetUint64(key, value))
}

func (s stable) check(err error) error {
	if err != nil && s.entries.r.Raft() != nil {
		s.entries.dead(fmt.Errorf("store raft's term and vote: %w", err))
	}
	return err
}

// snapshots is the snapshot store that raft gets. If the leader sends one, this node
// lacks entries that the leader has no more.
type snapshots struct {
	raft.SnapshotStore
	r *Replica
}

// Create refuses the snapshot of a leader.
func (s snapshots) Create(_ raft.SnapshotVersion, index, _ uint64, _ raft.Configuration, _ uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	last, _ := s.r.entries.LastIndex()
	reason := fmt.Sprintf("the log of this node ends at entry %d, the leader has dropped entries up to %d at least", max(last, s.r.opt.Log.Base().Index), index)
	s.r.told.Do(func() {
		s.r.logger.Warn("this node needs the files of another one", "reason", reason)
		go s.r.opt.OnTransferNeeded(reason)
	})
	return nil, errors.New("this node needs a state transfer: " + reason)
}
