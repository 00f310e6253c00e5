package replica

import (
	"encoding/binary"
	"slices"
	"sync"

	"tsdbd/wal/entry"
)

const (
	// maxGroupBytes ends the gathering of a group.
	maxGroupBytes = 1 << 20
	// The queue's bounds. A single entry may exceed the second.
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
	// The bounds of the groups that are proposed and not applied. Few of them make
	// many writers share a group, one more than raft syncs at a time keeps it busy.
	maxFlights     = 8
	maxFlightBytes = 16 << 20
	// keepRequestBytes is the largest buffer of a request that is kept for reuse.
	keepRequestBytes = 1 << 20
)

// request is an entry, or a mark, on its way through the log.
type request struct {
	entry    *entry.Entry
	mark     string // if there is no entry
	encoder  entry.Encoder
	sequence uint64 // where a mark was applied
	done     chan error
}

// request returns a request that the caller releases.
func (r *Replica) request() *request {
	if q, ok := r.requests.Get().(*request); ok {
		return q
	}
	return &request{done: make(chan error, 1)}
}

func (r *Replica) release(q *request) {
	q.entry, q.mark = nil, ""
	q.encoder.Trim(keepRequestBytes)
	r.requests.Put(q)
}

func (q *request) size() int { return len(q.encoder.Payload) + len(q.mark) }

// group is a group of requests of one epoch.
type group struct {
	number   uint64
	requests []*request
	data     []byte
}

// epoch is the time during which this node takes entries; see the package comment. It
// has the queue of requests and the groups under way.
type epoch struct {
	term uint64
	done chan struct{} // closed when raft has answered all proposals

	// Only the goroutine that forms groups uses it.
	known  entry.Definitions
	format byte // of the next group

	mu struct {
		sync.Mutex
		notEmpty, notFull, empty sync.Cond
		queue                    []*request
		bytes                    int
		forming                  bool              // requests are neither queued nor in flights
		flights                  map[uint64]*group // proposed and not applied, by number
		flightBytes              int
		refusal                  error // why nothing is accepted any more
		over                     error // the answer to what was under way at the end
	}
}

func newEpoch(term uint64) *epoch {
	e := &epoch{term: term, format: 1, done: make(chan struct{})}
	e.mu.flights = make(map[uint64]*group)
	e.mu.notEmpty.L, e.mu.notFull.L, e.mu.empty.L = &e.mu, &e.mu, &e.mu
	return e
}

// busy says that raft has not answered all proposals.
func (e *epoch) busy() bool {
	if e == nil {
		return false
	}
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

// submit queues q and waits for its answer.
func (e *epoch) submit(q *request) error {
	n := q.size()
	e.mu.Lock()
	for e.mu.refusal == nil && len(e.mu.queue) > 0 && (len(e.mu.queue) >= maxQueued || e.mu.bytes+n > maxQueuedBytes) {
		e.mu.notFull.Wait()
	}
	if err := e.mu.refusal; err != nil {
		e.mu.Unlock()
		return err
	}
	e.mu.queue = append(e.mu.queue, q)
	e.mu.bytes += n
	e.mu.notEmpty.Signal()
	e.mu.Unlock()
	return <-q.done
}

// take returns the requests of the next group. It waits for one, and for room among
// the flights. It returns nothing once the epoch is over.
func (e *epoch) take() []*request {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.mu.over == nil && (len(e.mu.queue) == 0 || len(e.mu.flights) >= maxFlights || e.mu.flightBytes > maxFlightBytes) {
		e.mu.notEmpty.Wait()
	}
	if e.mu.over != nil {
		return nil
	}
	n, size := 0, 0
	for _, q := range e.mu.queue {
		if n > 0 && (size+q.size() > maxGroupBytes || q.entry == nil) {
			break
		}
		n++
		size += q.size()
		if q.entry == nil {
			break
		}
	}
	taken := slices.Clone(e.mu.queue[:n])
	e.mu.queue = slices.Delete(e.mu.queue, 0, n)
	e.mu.bytes -= size
	e.mu.forming = true
	e.mu.notFull.Broadcast()
	return taken
}

// form makes the requests a group under way. It returns nil if the epoch is over; the
// requests are answered then.
func (e *epoch) form(taken []*request, number uint64) *group {
	h := header{format: e.format, kind: groupEntries, term: e.term, number: number}
	g := &group{number: number, requests: taken}
	if q := taken[0]; q.entry == nil {
		h.kind = groupMark
		g.data = append(appendHeader(nil, h), q.mark...)
	} else {
		size := 64
		for _, q := range taken {
			size += q.size() + 32
		}
		b := binary.AppendUvarint(appendHeader(make([]byte, 0, size), h), uint64(len(taken)))
		for _, q := range taken {
			at := len(b)
			b = q.encoder.AppendEncoded(append(b, 0, 0, 0, 0), q.entry, &e.known)
			binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
		}
		g.data = b
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.forming = false
	if e.mu.over != nil {
		answer(taken, e.mu.refusal) // never proposed
		e.mu.empty.Broadcast()
		return nil
	}
	e.mu.flights[number] = g
	e.mu.flightBytes += len(g.data)
	return g
}

// land removes a group from those under way when it is applied. It returns nil if the epoch
// does not have the group.
func (e *epoch) land(number uint64) *group {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.mu.flights[number]
	if g == nil {
		return nil
	}
	delete(e.mu.flights, number)
	e.mu.flightBytes -= len(g.data)
	e.mu.notEmpty.Signal()
	if len(e.mu.flights) == 0 {
		e.mu.empty.Broadcast()
	}
	return g
}

// close ends the epoch. It refuses all later requests, and answers those under way with cause.
// land finds no group afterwards.
func (e *epoch) close(refusal, cause error) {
	e.mu.Lock()
	e.mu.refusal, e.mu.over = refusal, cause
	queue, flights := e.mu.queue, e.mu.flights
	e.mu.queue, e.mu.bytes, e.mu.flights, e.mu.flightBytes = nil, 0, nil, 0
	e.mu.notEmpty.Broadcast()
	e.mu.notFull.Broadcast()
	e.mu.empty.Broadcast()
	e.mu.Unlock()
	for _, g := range flights {
		answer(g.requests, cause)
	}
	answer(queue, refusal) // never proposed
}

// drain refuses new requests, and waits until all others are answered or give is
// closed.
func (e *epoch) drain(refusal error, give <-chan struct{}) {
	wake := make(chan struct{})
	defer close(wake)
	go func() {
		select {
		case <-give:
			e.mu.Lock()
			defer e.mu.Unlock()
			e.mu.empty.Broadcast()
		case <-wake:
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.refusal == nil {
		e.mu.refusal = refusal
	}
	e.mu.notFull.Broadcast()
	for len(e.mu.queue) > 0 || e.mu.forming || len(e.mu.flights) > 0 {
		select {
		case <-give:
			return
		default:
		}
		e.mu.empty.Wait()
	}
}

// waiting returns how many requests are in the queue, and how many groups are under way.
func (e *epoch) waiting() (queued, flights int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.mu.queue), len(e.mu.flights)
}

func answer(requests []*request, err error) {
	for _, q := range requests {
		if q.entry != nil {
			q.entry.Sequence = 0
		}
		q.done <- err
	}
}
