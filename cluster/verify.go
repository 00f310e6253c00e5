package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/self"
	"tsdbd/exchange"
	"tsdbd/store"
	"tsdbd/store/content"
)

// markSums is what a node answers about a mark in the log.
type markSums struct {
	// Running says that the sums are not ready yet.
	Running bool          `json:"running,omitempty"`
	Sums    *content.Sums `json:"sums,omitempty"`
	// Where the log of the node begins: what is before is in files.
	Flushed uint64 `json:"flushed"`
	Term    uint64 `json:"term"`
}

// total is one sum over all.
func total(s *content.Sums) string {
	all := sha256.New()
	fmt.Fprintln(all, s.Catalog)
	for _, shard := range s.Shards {
		fmt.Fprintln(all, shard.ID, shard.Sum)
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}

const (
	maxSums = 2                // marks whose sums are kept
	sumIdle = 2 * time.Minute  // a mark that nobody asks for goes after it
	sumPoll = 10 * time.Second // in which a request for sums is answered
)

// sums are those of the latest marks.
type sums struct {
	running   sync.WaitGroup
	computing sync.Mutex // one at a time: they read all data

	mu struct {
		sync.Mutex
		closed bool
		marks  map[string]*sum
	}
}

// sum is the work for one mark.
type sum struct {
	at     time.Time
	cancel context.CancelFunc
	idle   *time.Timer
	done   chan struct{}
	sums   *content.Sums // after done
	err    error
}

// close gives up all work, and waits for its end.
func (s *sums) close() {
	s.mu.Lock()
	s.mu.closed = true
	for id := range s.mu.marks {
		s.dropLocked(id)
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *sums) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(id)
}

func (s *sums) dropLocked(id string) {
	if m := s.mu.marks[id]; m != nil {
		m.idle.Stop()
		m.cancel()
		delete(s.mu.marks, id)
	}
}

// begin takes the state of the store as it is now, and has it summed up.
func (s *sums) begin(id string, sequence uint64, st *store.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || s.mu.marks[id] != nil {
		return
	}
	for len(s.mu.marks) >= maxSums {
		oldest := ""
		for id, m := range s.mu.marks {
			if oldest == "" || m.at.Before(s.mu.marks[oldest].at) {
				oldest = id
			}
		}
		s.dropLocked(oldest)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &sum{at: time.Now(), cancel: cancel, done: make(chan struct{})}
	m.idle = time.AfterFunc(sumIdle, func() { s.drop(id) })
	s.mu.marks[id] = m
	cut, err := st.Cut()
	if err != nil {
		m.err = err
		close(m.done)
		return
	}
	s.running.Go(func() {
		defer close(m.done)
		defer cut.Release()
		s.computing.Lock()
		defer s.computing.Unlock()
		if m.sums, m.err = cut.Sum(ctx); m.err == nil {
			m.sums.Sequence = sequence
		}
	})
}

// find returns the work for a mark, and has it live on.
func (s *sums) find(id string) *sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mu.marks[id]
	if m != nil {
		m.idle.Reset(sumIdle)
	}
	return m
}

// onMark is called where the mark is in the log: all nodes are at the same place then.
func (n *Node) onMark(id string, sequence uint64) {
	// A node that catches up passes old marks.
	if st := n.current(); st != nil && n.replica.Ready() {
		n.sums.begin(id, sequence, st)
	}
}

// markSums returns the sums of a mark at this node. It waits a little for them.
func (n *Node) markSums(ctx context.Context, id string) (*markSums, error) {
	m := n.sums.find(id)
	if m == nil {
		return nil, refuse(http.StatusNotFound, "%s has no sums for this mark: it was not there yet, or it is too long ago", n.opt.Name)
	}
	base := n.log.Base()
	out := &markSums{Flushed: base.Sequence, Term: base.Term}
	wait := time.NewTimer(sumPoll)
	defer wait.Stop()
	select {
	case <-m.done:
		out.Sums = m.sums
		return out, m.err
	case <-wait.C:
		out.Running = true
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// verifyTimeout is how long verify waits for the slowest node unless the request says.
const verifyTimeout = time.Hour

// verify compares the content of all members at one place of the log, at the leader.
func (n *Node) verify(r *http.Request) (*admin.Verification, error) {
	timeout := verifyTimeout
	if text := r.FormValue("timeout"); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil || timeout <= 0 {
			return nil, refuse(http.StatusBadRequest, "timeout=%s: a duration such as 10m is expected", text)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	servers := n.members()
	id := rand.Text()
	sequence, err := n.replica.Mark(ctx, id)
	if err != nil {
		return nil, err
	}
	type collected struct {
		name string
		*markSums
		err error
	}
	answers := make(chan collected, len(servers))
	for _, s := range servers {
		go func() {
			found, err := n.collect(ctx, s, id)
			answers <- collected{self.NameOf(s.ID), found, err}
		}()
	}
	v := &admin.Verification{Sequence: sequence, Differences: []admin.Difference{}}
	all := map[string]*content.Sums{}
	for range servers {
		a := <-answers
		node := admin.NodeSum{Name: a.name}
		if a.err == nil && a.Sums.Sequence != sequence {
			a.err = fmt.Errorf("its sums are of sequence %d", a.Sums.Sequence)
		}
		if a.err != nil {
			node.Error = strings.TrimSpace(a.err.Error())
		} else {
			node.Sum, node.Flushed, node.Term = total(a.Sums), a.Flushed, a.Term
			for _, s := range a.Sums.Shards {
				node.Values += s.Values
			}
			all[a.name] = a.Sums
		}
		v.Nodes = append(v.Nodes, node)
	}
	slices.SortFunc(v.Nodes, func(a, b admin.NodeSum) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range content.Differences(all) {
		v.Differences = append(v.Differences, admin.Difference(d))
	}
	v.Equal = len(v.Differences) == 0 && len(all) == len(servers)
	return v, nil
}

// collect asks a member for its sums until it has them.
func (n *Node) collect(ctx context.Context, s raft.Server, id string) (*markSums, error) {
	own := string(s.ID) == n.identity().ID
	for begin := time.Now(); ; {
		found := new(markSums)
		var err error
		if own {
			found, err = n.markSums(ctx, id)
		} else {
			ask, cancel := context.WithTimeout(ctx, sumPoll+n.timeout())
			err = plain(n.get(ask, string(s.Address), "sums", url.Values{"id": {id}}, found))
			cancel()
		}
		var failed *exchange.WriteError
		switch {
		case err == nil && found.Sums != nil:
			return found, nil
		case err == nil:
			begin = time.Now() // it works on them
		case ctx.Err() != nil:
			return nil, errors.Join(ctx.Err(), err)
		case errors.As(err, &failed) && failed.Status != http.StatusNotFound, time.Since(begin) > n.timeout():
			return nil, err
		}
		if !n.pause(ctx, n.opt.ElectionTimeout/10) {
			return nil, cmp.Or(ctx.Err(), context.Canceled)
		}
	}
}
