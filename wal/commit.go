package wal

import (
	"fmt"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/wal/entry"
)

const (
	// maxGroupBytes ends the gathering of a group: larger writes gain nothing
	// and make everybody wait (1 MiB takes 0.3-1 ms, 8 MiB 27 ms).
	maxGroupBytes = 4 << 20
	// The queue's bounds. A single entry may exceed the second.
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
	// The largest buffers kept for reuse: the committer's, and a request's, of
	// which there are as many as writers.
	keepBytes        = 8 << 20
	keepRequestBytes = 1 << 20
)

// request is an entry on its way through the log, or a control request.
type request struct {
	entry   *entry.Entry
	rotate  bool
	encoder entry.Encoder
	done    chan error
}

// request returns a request that the caller releases. A log has requests of its own: the
// channel of one that was made in a bubble of testing/synctest is good in no other.
func (l *Log) request() *request {
	if q, ok := l.requests.Get().(*request); ok {
		return q
	}
	return &request{done: make(chan error, 1)}
}

func (l *Log) release(q *request) {
	q.entry, q.rotate = nil, false
	q.encoder.Trim(keepRequestBytes)
	l.requests.Put(q)
}

// Append writes e to the log and returns when it is durable (written, under a
// SyncInterval) and applied. It sets e.Sequence. The entry must not change
// meanwhile. Any number of goroutines may call it; what they append at the same
// time shares a write and a sync.
//
// An error means that e was not applied and never will be by this Log. It is
// one of: a refusal of the entry itself; ErrClosed; a lack of space or another
// failure to make a new segment, after which the log goes on working and Append
// may be tried again (vfs.IsFull tells a full disk); or
// the sticky failure of Err, where after a reopening e may be found in the log
// or not.
func (l *Log) Append(e *entry.Entry) error {
	if err := l.Err(); err != nil {
		return err
	}
	if !l.replayed.Load() {
		return errNotReplayed
	}
	q := l.request()
	if err := q.encode(e); err != nil {
		l.release(q)
		return err
	}
	err := l.submit(q)
	l.release(q)
	return err
}

// encode prepares e for the log.
func (q *request) encode(e *entry.Entry) error {
	if err := q.encoder.Encode(e); err != nil {
		return fmt.Errorf("append entry: %w", err)
	}
	if n := len(q.encoder.Payload); int64(n) > maxPayload*maxParts {
		return fmt.Errorf("append entry: %d bytes exceed the log's limit", n)
	}
	q.entry = e
	return nil
}

// Rotate closes the active segment, unless it is empty, so that Trim may take
// it, and starts a new one.
func (l *Log) Rotate() error {
	if err := l.Err(); err != nil {
		return err
	}
	if !l.replayed.Load() {
		return errNotReplayed
	}
	q := l.request()
	q.rotate = true
	q.encoder.Payload = q.encoder.Payload[:0]
	err := l.submit(q)
	l.release(q)
	return err
}

// submit queues q and waits for its answer.
func (l *Log) submit(q *request) error {
	n := len(q.encoder.Payload)
	l.queue.Lock()
	for !l.queue.closed && len(l.queue.requests) > 0 && (len(l.queue.requests) >= maxQueued || l.queue.bytes+n > maxQueuedBytes) {
		l.queue.notFull.Wait()
	}
	if l.queue.closed {
		l.queue.Unlock()
		return ErrClosed
	}
	l.queue.requests = append(l.queue.requests, q)
	l.queue.bytes += n
	if len(l.queue.requests) == 1 {
		l.queue.notEmpty.Signal()
	}
	l.queue.Unlock()
	return <-q.done
}

// take moves a group from the queue to dst; it waits for one. It returns
// nothing once the log is closed and the queue empty.
func (l *Log) take(dst []*request) []*request {
	l.queue.Lock()
	defer l.queue.Unlock()
	for len(l.queue.requests) == 0 {
		if l.queue.closed {
			return dst
		}
		l.queue.notEmpty.Wait()
	}
	n, size := 0, 0
	for _, q := range l.queue.requests {
		if n > 0 && (size+len(q.encoder.Payload) > maxGroupBytes || q.rotate) {
			break
		}
		n++
		size += len(q.encoder.Payload)
		if q.rotate {
			break
		}
	}
	dst = append(dst, l.queue.requests[:n]...)
	rest := copy(l.queue.requests, l.queue.requests[n:])
	clear(l.queue.requests[rest:])
	l.queue.requests = l.queue.requests[:rest]
	l.queue.bytes -= size
	l.queue.notFull.Broadcast()
	return dst
}

// commitLoop is the committer: it alone assigns sequences and writes.
func (l *Log) commitLoop() {
	defer close(l.applies)
	for {
		group := l.take(nil)
		if len(group) == 0 {
			return
		}
		end := l.committing.Begin()
		if group[0].rotate {
			group[0].done <- l.rotateNow()
			group = nil
		}
		for len(group) > 0 {
			group = group[l.commit(group):]
		}
		end()
	}
}

func (l *Log) rotateNow() error {
	if err := l.Err(); err != nil {
		return err
	}
	if a := l.files.active; a != nil && a.end == segmentHeaderSize {
		return nil
	}
	return l.rotate(false)
}

// commit writes as many requests from the front of group as one write takes,
// or refuses some, and returns how many it dealt with.
func (l *Log) commit(group []*request) int {
	if err := l.Err(); err != nil {
		return refuse(group, err)
	}
	if err := l.scrubTail(); err != nil {
		return l.refuse(group, err)
	}
	if l.files.active == nil {
		if err := l.rotate(false); err != nil && (!vfs.IsFull(err) || !l.resume()) {
			return l.refuse(group, err)
		}
	}
	n := l.build(group, false)
	if n == 0 {
		err := l.rotate(true)
		if sticky := l.Err(); sticky != nil {
			return refuse(group, sticky)
		}
		if err == nil {
			n = l.build(group, false)
		} else if n = l.build(group[:1], true); n == 0 {
			// No space for another segment: refuse this one, but a delete
			// behind it may still fit into the reserve.
			return l.refuse(group[:1], err)
		}
	}
	if err := l.write(group[:n]); err != nil {
		if sticky := l.Err(); sticky != nil {
			return refuse(group, sticky)
		}
		return l.refuse(group[:n], err)
	}
	l.applies <- append([]*request(nil), group[:n]...)
	if a := l.files.active; a.end > a.size/4 {
		l.prepareAhead()
	}
	return n
}

// refuse answers requests that were not written; their entries stay out.
func refuse(group []*request, err error) int {
	for _, q := range group {
		q.entry.Sequence = 0
		q.done <- err
	}
	return len(group)
}

func (l *Log) refuse(group []*request, err error) int {
	l.counters.refused.Add(uint64(len(group)))
	return refuse(group, err)
}

// build assigns sequences to requests from the front of group and puts their
// records into the buffer, as many as fit into the active segment. An entry
// larger than a segment goes into an empty one. With reserve set, only an
// entry that frees space is taken, and may use what is kept for it.
func (l *Log) build(group []*request, reserve bool) int {
	a := l.files.active
	quarters := int64(4)
	if e := group[0].entry; reserve && len(e.Deletes) > 0 {
		quarters = 0
	} else if reserve {
		quarters -= int64(e.Reserve)
	}
	limit := a.limit(quarters)
	if cap(l.buffer) > keepBytes {
		l.buffer = nil
	}
	l.buffer = l.buffer[:0]
	sequence := l.sequence.Load()
	mark := byte(flagSynced)
	if l.dirty() {
		mark = 0
	}
	for i, q := range group {
		if e := q.entry; reserve && e.Reserve == 0 && len(e.Deletes) == 0 {
			return i
		}
		sequence++
		q.entry.Sequence = sequence
		was := len(l.buffer)
		l.defined.Append(q.entry, q.encoder.IDs, func(block []byte, packed bool) {
			l.buffer = appendDefinitions(l.buffer, a.number, sequence, mark, block, packed)
		})
		l.buffer = appendEntryRecords(l.buffer, a.number, sequence, byte(q.entry.Kind()), mark, q.encoder.Payload)
		if a.end+int64(len(l.buffer)) > limit && (reserve || i > 0 || a.end > segmentHeaderSize) {
			l.buffer = l.buffer[:was]
			l.defined.Reset() // some of it was just taken back
			q.entry.Sequence = 0
			return i
		}
	}
	return len(group)
}

// write writes and syncs the buffer, which holds group's records. On a lack of
// space the log stays usable; every other failure is sticky.
func (l *Log) write(group []*request) error {
	a := l.files.active
	n := len(l.buffer)
	// The next record's place reads as zeros: a clean end (see reader.tail).
	l.buffer = append(l.buffer, make([]byte, recordHeaderSize)...)
	start := time.Now()
	if _, err := a.file.WriteAt(l.buffer, a.end); err != nil {
		err = fmt.Errorf("write wal segment %s: %w", a.path, err)
		if !vfs.IsFull(err) {
			return l.fail(err)
		}
		l.scrub = max(l.scrub, int64(len(l.buffer)))
		l.defined.Reset()
		l.log.Warn("wal entries refused", "path", a.path, "err", err)
		if serr := l.scrubTail(); serr != nil && l.Err() != nil {
			return l.Err()
		}
		return err
	}
	wrote := time.Now()
	l.counters.writeTime.Add(int64(wrote.Sub(start)))
	if l.opt.SyncInterval > 0 {
		l.writes.Add(1)
	} else if err := l.sync(a); err != nil {
		return err
	}
	a.end += int64(n)
	if a.end > a.size {
		l.files.Lock()
		a.size, l.files.activeSize = a.end, a.end
		l.files.Unlock()
	}
	l.sequence.Store(group[len(group)-1].entry.Sequence)
	l.counters.group(len(group), n)
	return nil
}

// sync makes the active segment durable. A failure is sticky: what the kernel
// did with the pages is unknown, and a second sync would lie (W7).
func (l *Log) sync(a *openFile) error {
	start, writes := time.Now(), l.writes.Load()
	if err := a.file.SyncData(); err != nil {
		return l.fail(fmt.Errorf("sync wal segment %s: %w", a.path, err))
	}
	l.synced.Store(writes)
	l.counters.syncTime.Add(int64(time.Since(start)))
	l.counters.syncs.Add(1)
	return nil
}

// dirty says that a SyncInterval has something to sync.
func (l *Log) dirty() bool { return l.writes.Load() != l.synced.Load() }

// scrubTail overwrites what a refused write may have left behind the last good
// record, so that no part of it comes back at replay. As long as there is no
// space even for that, the log refuses entries.
func (l *Log) scrubTail() error {
	if l.scrub == 0 {
		return nil
	}
	a := l.files.active
	size, err := a.file.Size()
	if err != nil {
		return fmt.Errorf("scrub wal segment %s: %w", a.path, err)
	}
	if err := zero(a.file, a.end, min(a.end+l.scrub, size)); err != nil {
		err = fmt.Errorf("scrub wal segment %s: %w", a.path, err)
		if !vfs.IsFull(err) {
			return l.fail(err)
		}
		return err
	}
	if err := l.sync(a); err != nil {
		return err
	}
	l.scrub = 0
	return nil
}

// applyLoop is the applier: it hands each group to Apply in order and wakes
// its writers, while the committer writes the next group. It applies what is durable,
// also after a failure of the committer, up to an entry that Apply fails on.
func (l *Log) applyLoop() {
	var failed error
	for group := range l.applies {
		for _, q := range group {
			if failed == nil {
				if err := l.opt.Apply(q.entry); err != nil {
					failed = l.fail(fmt.Errorf("apply entry %d: %w", q.entry.Sequence, err))
				}
			}
			q.done <- failed
		}
	}
}

// syncLoop syncs on behalf of a SyncInterval.
func (l *Log) syncLoop() {
	tick := time.NewTicker(l.opt.SyncInterval)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if !l.dirty() || l.Err() != nil {
			continue
		}
		// The lock keeps the file from being sealed and closed meanwhile.
		l.syncing.Lock()
		l.files.Lock()
		a := l.files.active
		l.files.Unlock()
		if a != nil {
			end := l.intervalSync.Begin()
			_ = l.sync(a) // sticky, and reported, by itself
			end()
		}
		l.syncing.Unlock()
	}
}
