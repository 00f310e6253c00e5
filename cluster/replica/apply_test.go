package replica

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/store"
	"tsdbd/wal/entry"
)

// bare returns a replica without raft, to which tests hand the log.
func bare(t *testing.T, opt Options) (*Replica, *ledger, chan error) {
	l := newLedger(t)
	fatal := make(chan error, 1)
	_, transport := raft.NewInmemTransport("n1")
	opt.ID, opt.Log, opt.Transport = "n1", &memory{InmemStore: raft.NewInmemStore()}, transport
	opt.OnFatal = func(err error) { fatal <- err }
	r, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	if l.log, err = r.OpenLog(l.options()); err != nil {
		t.Fatal(err)
	}
	r.node = l
	r.decoder = entry.NewDecoder(r.resolve)
	return r, l, fatal
}

// proposer makes groups as an epoch does.
type proposer struct {
	*epoch
	number uint64
}

// group returns the data of a group with entries.
func (p *proposer) group(t *testing.T, entries ...*entry.Entry) []byte {
	t.Helper()
	var taken []*request
	for _, e := range entries {
		q := &request{entry: e, done: make(chan error, 1)}
		if err := q.encoder.Encode(e); err != nil {
			t.Fatal(err)
		}
		taken = append(taken, q)
	}
	p.number++
	return p.form(taken, p.number).data
}

// TestFence hands a follower groups of an epoch that raft took in a later term.
func TestFence(t *testing.T) {
	r, l, _ := bare(t, Options{})
	old, next := proposer{epoch: newEpoch(5)}, proposer{epoch: newEpoch(7)}
	r.apply(&raft.Log{Index: 1, Term: 5, Data: old.group(t, row(1, 1))})
	r.apply(&raft.Log{Index: 2, Term: 5, Data: old.group(t, row(2, 1), row(3, 1))})
	// Entries 3 and 4 were proposed in term 5 and taken in term 6 and 7.
	lost := old.group(t, row(4, 1))
	r.apply(&raft.Log{Index: 3, Term: 6, Data: lost})
	r.apply(&raft.Log{Index: 4, Term: 7, Data: old.group(t, row(4, 2))})
	r.apply(&raft.Log{Index: 5, Term: 7, Data: next.group(t, row(5, 1))})
	got := strings.Join(l.content(), "")
	if want := "m,host=1=1@1 m,host=2=1@1 m,host=3=1@1 m,host=5=1@1 "; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if s := r.Stats(); r.counters.skipped.Load() != 2 || s.Sequence != 4 || s.Index != 5 {
		t.Errorf("%+v", s)
	}
}

// TestEpochEndsInApply hands a leader what another one proposed: its own groups are
// answered, the store retires, and the group is followed.
func TestEpochEndsInApply(t *testing.T) {
	for _, test := range []struct {
		name   string
		data   func(own, other *proposer) []byte
		term   uint64
		follow int
	}{
		{"another leader", func(_, other *proposer) []byte { return other.group(t, row(1, 1)) }, 7, 1},
		{"own group in a later term", func(own, _ *proposer) []byte { return own.group(t, row(1, 1)) }, 6, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, l, _ := bare(t, Options{})
			own, other := proposer{epoch: newEpoch(5)}, proposer{epoch: newEpoch(7)}
			r.epoch.Store(own.epoch)
			l.Lead()
			first := &request{entry: row(9, 9), done: make(chan error, 1)}
			if err := first.encoder.Encode(first.entry); err != nil {
				t.Fatal(err)
			}
			g := own.form([]*request{first}, 100)
			data := test.data(&own, &other)
			r.apply(&raft.Log{Index: 1, Term: test.term, Data: data})
			if err := <-first.done; !errors.Is(err, store.ErrNotLeader) || !strings.Contains(err.Error(), "unknown") {
				t.Errorf("answer %v", err)
			}
			if r.Leads() || len(l.content()) != test.follow {
				t.Fatalf("leads %v, applied %v", r.Leads(), l.content())
			}
			if err := r.Append(row(1, 1)); !errors.Is(err, store.ErrNotLeader) {
				t.Error(err)
			}
			// The group may have been committed after all. Its caller's rows are gone.
			first.entry.Writes[0].Rows = nil
			r.apply(&raft.Log{Index: 2, Term: 5, Data: g.data})
			if got := l.content(); len(got) != test.follow+1 || got[test.follow] != "m,host=9=9@1 " {
				t.Errorf("applied %q", got)
			}
		})
	}
}

// TestCannotApply has a leader that cannot apply an entry in the middle of a group: the
// callers of what is before it have their answers, the others learn that the outcome is
// unknown, and the node follows the rest of the group and leads no more.
func TestCannotApply(t *testing.T) {
	r, l, fatal := bare(t, Options{})
	own := proposer{epoch: newEpoch(5)}
	r.epoch.Store(own.epoch)
	l.Lead()
	l.mu.unapplied = map[string]error{text(row(2, 1)): syscall.EIO}
	var requests []*request
	for i := range 4 {
		q := &request{entry: row(uint32(i+1), 1), done: make(chan error, 1)}
		if err := q.encoder.Encode(q.entry); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, q)
	}
	g := own.form(requests, 100)
	r.apply(&raft.Log{Index: 1, Term: 5, Data: g.data})
	for i, q := range requests {
		err := <-q.done
		if i == 0 && err != nil {
			t.Errorf("answer 0: %v", err)
		}
		if i > 0 && (!errors.Is(err, store.ErrNotLeader) || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "unknown")) {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	want := "m,host=1=1@1 m,host=2=1@1 m,host=3=1@1 m,host=4=1@1 "
	if got := strings.Join(l.content(), ""); got != want || r.Leads() {
		t.Errorf("leads %v, applied %s, want %s", r.Leads(), got, want)
	}
	if s := r.Stats(); s.Sequence != 4 || s.Index != 1 || len(fatal) != 0 {
		t.Errorf("%+v, fatal %d", s, len(fatal))
	}
}

// TestCannotFollow stops a replica whenever an entry cannot be applied: with a precise
// text, and before anything behind it.
func TestCannotFollow(t *testing.T) {
	p := proposer{epoch: newEpoch(5)}
	good := p.group(t, row(1, 1))
	undefined := p.group(t, row(1, 2)) // its series is defined in good
	version := append([]byte(nil), good...)
	version[0] = 9
	kind := append([]byte(nil), good...)
	kind[1] = 9
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-3] ^= 4
	for _, test := range []struct {
		name, want string
		data       []byte
		err        error
	}{
		{"version", "apply entry 1 of the replicated log: entry of the log of a cluster of version 9 was written by a newer tsdbd; use that version or newer (this one reads versions 1 to 2)", version, nil},
		{"kind", "entry of the log of a cluster: kind 9: written by a newer tsdbd; use that version or newer", kind, nil},
		{"damage", "decode entry of sequence 1: corrupt", flipped, nil},
		{"cut", "corrupt", good[:len(good)-1], nil},
		{"long", "bytes after the records", append(append([]byte(nil), good...), 0), nil},
		{"no header", "corrupt", good[:2], nil},
		{"undefined series", "decode entry of sequence 1: corrupt", undefined, nil},
		{"store", "follow entry of sequence 1: it does not fit", good, errors.New("it does not fit")},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, l, fatal := bare(t, Options{})
			l.mu.err = test.err
			r.apply(&raft.Log{Index: 1, Term: 5, Data: test.data})
			err := <-fatal
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if differs := test.name == "damage" || test.name == "undefined series"; errors.Is(err, store.ErrDiverged) != differs {
				t.Errorf("%v: says that the node differs: %t", err, !differs)
			}
			n := len(l.content())
			l.mu.err = nil
			r.apply(&raft.Log{Index: 2, Term: 5, Data: good})
			if got := l.content(); len(got) != n || r.Err() == nil {
				t.Errorf("applied %q behind it", got)
			}
			if err := r.Append(row(1, 1)); err == nil || errors.Is(err, store.ErrNotLeader) {
				t.Errorf("append: %v", err)
			}
		})
	}
}

// TestStoreCloses is no failure, but nothing is applied behind it.
func TestStoreCloses(t *testing.T) {
	p := proposer{epoch: newEpoch(5)}
	r, l, fatal := bare(t, Options{})
	l.mu.err = store.ErrClosed
	r.apply(&raft.Log{Index: 1, Term: 5, Data: p.group(t, row(1, 1))})
	l.mu.err = nil
	r.apply(&raft.Log{Index: 2, Term: 5, Data: p.group(t, row(1, 1))})
	if len(l.content()) != 0 || !errors.Is(r.Err(), store.ErrClosed) {
		t.Fatal(l.content(), r.Err())
	}
	select {
	case err := <-fatal:
		t.Fatal(err)
	default:
	}
}

// TestDecoderForgets bounds the decoder: it asks the store for what it forgot.
func TestDecoderForgets(t *testing.T) {
	r, l, fatal := bare(t, Options{DecoderBytes: 1000})
	p := proposer{epoch: newEpoch(5)}
	for i := range uint64(200) {
		r.apply(&raft.Log{Index: i + 1, Term: 5, Data: p.group(t, row(uint32(i%20+1), i), row(uint32(i%7+1), i))})
		if n := r.decoder.Bytes(); n > 1000+400 {
			t.Fatalf("%d bytes", n)
		}
	}
	select {
	case err := <-fatal:
		t.Fatal(err)
	default:
	}
	if len(l.content()) != 400 || r.counters.resets.Load() == 0 {
		t.Fatal(len(l.content()), r.Stats())
	}
}

// TestGroups takes requests from the queue.
func TestGroups(t *testing.T) {
	e := newEpoch(1)
	add := func(mark string, size int) {
		q := &request{mark: mark, done: make(chan error, 1)}
		if mark == "" {
			q.entry = &entry.Entry{}
			q.encoder.Payload = make([]byte, size)
		}
		e.mu.queue = append(e.mu.queue, q)
		e.mu.bytes += q.size()
	}
	for _, n := range []int{10, 20, maxGroupBytes, 5, 2 * maxGroupBytes} {
		add("", n)
	}
	add("a", 0)
	add("b", 0)
	add("", 7)
	for i, want := range []int{2, 1, 1, 1, 1, 1, 1} {
		if got := e.take(); len(got) != want {
			t.Fatalf("group %d: %d requests, want %d", i, len(got), want)
		}
	}
	if e.mu.bytes != 0 || len(e.mu.queue) != 0 {
		t.Fatal(e.mu.bytes, len(e.mu.queue))
	}
}
