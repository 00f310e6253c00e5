package replica

import (
	"errors"
	"math"
	"strings"
	"testing"

	"tsdbd/wal/entry"
)

// TestTrail finds places in the log.
func TestTrail(t *testing.T) {
	var tr trail
	if _, ok := tr.upTo(1 << 60); ok {
		t.Fatal("a place in an empty trail")
	}
	const groups = 3 * maxPoints
	for i := uint64(1); i <= groups; i++ {
		// Index i+10 has entries up to 2i.
		tr.add(place{index: i + 10, term: 1, sequence: 2 * i}, stepBytes)
	}
	if n := len(tr.mu.points); n >= maxPoints || n < maxPoints/4 {
		t.Fatalf("%d points", n)
	}
	if p, ok := tr.upTo(2 * groups); !ok || p.index != groups+10 {
		t.Fatal(p, ok)
	}
	base := uint64(0)
	for s := uint64(1); s < 2*groups; s += 1001 {
		p, ok := tr.upTo(s)
		if !ok {
			if s > 64 {
				t.Fatalf("no place up to %d", s)
			}
			continue
		}
		if p.sequence > s || p.sequence+64 < s || p.index != p.sequence/2+10 || p.index <= base {
			t.Fatalf("up to %d: %+v, base %d", s, p, base)
		}
		tr.cut(p)
		base = p.index
		if _, ok := tr.upTo(s); ok {
			t.Fatal("the base does not move twice")
		}
		if want := int64(groups+10-p.index) * stepBytes; tr.size() != want {
			t.Fatalf("size %d, want %d", tr.size(), want)
		}
	}
}

// TestTrim moves the base of leader and follower, and restarts from there.
func TestTrim(t *testing.T) {
	c := newCluster(t, 3, Options{})
	next := uint64(0)
	write := func(n int) {
		for range n {
			c.must(func() *entry.Entry { next++; return row(uint32(next%10+1), next) })
		}
	}
	write(50)
	c.equal()
	m := c.leader()
	sequence := m.Replica.Applied()
	for _, m := range c.members {
		if err := m.Trim(sequence - 1); err != nil || m.log.Base().Index != 0 {
			t.Fatal(err, m.log.Base()) // the trail is coarse
		}
		if err := m.Trim(sequence + 5); err != nil || m.log.Base().Sequence != sequence {
			t.Fatal(err, m.log.Base(), sequence)
		}
		if n := m.trail.size(); n != 0 {
			t.Error(n)
		}
	}
	write(20)
	c.equal()
	for _, m := range c.members {
		c.stop(m)
	}
	for _, m := range c.members {
		c.start(m)
		if m.Replica.Applied() != sequence {
			t.Fatal(m.Replica.Applied())
		}
	}
	write(10)
	if n := len(c.equal()); n < 80 {
		t.Fatal(n)
	}
}

// TestTrimFails keeps the base where the store cannot give up entries.
func TestTrimFails(t *testing.T) {
	c := newCluster(t, 1, Options{})
	c.must(func() *entry.Entry { return row(1, 1) })
	m := c.leader()
	m.Replica.store.BeforeTrim = func(uint64) error { return errors.New("no") }
	if err := m.Trim(m.Replica.Applied()); err == nil || m.log.Base().Index != 0 {
		t.Fatal(err, m.log.Base())
	}
}

// TestTransferNeeded starts a node whose log is older than those of all others.
func TestTransferNeeded(t *testing.T) {
	c := newCluster(t, 3, Options{LogMaxBytes: 1})
	c.must(func() *entry.Entry { return row(1, 1) })
	c.equal()
	m := c.leader()
	var behind *member
	for _, o := range c.members {
		if o != m {
			behind = o
		}
	}
	c.stop(behind)
	c.must(func() *entry.Entry { return row(2, 1) })
	c.equal()
	for _, o := range c.members {
		if o != behind {
			if err := o.Trim(o.Replica.Applied()); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.must(func() *entry.Entry { return row(3, 1) })
	for _, o := range c.members {
		if o != behind {
			o.entries.mu.Lock()
			o.entries.forgetLocked(math.MaxUint64) // they have the newest entries in memory
			o.entries.mu.Unlock()
		}
	}
	c.start(behind)
	if reason := <-behind.transfer; !strings.Contains(reason, "the log of this node ends at entry") {
		t.Error(reason)
	}
	if behind.Ready() {
		t.Error("ready")
	}
	if n := behind.Replica.Applied(); n > 1 {
		t.Errorf("applied %d", n)
	}
}

// TestForeignFiles stops a node whose files are ahead of its cluster.
func TestForeignFiles(t *testing.T) {
	c := newCluster(t, 1, Options{})
	m := c.leader()
	c.stop(m)
	c.before = func(m *member) {
		if err := m.ledger.log.Advance(7); err != nil {
			t.Fatal(err)
		}
	}
	c.start(m)
	if err := <-m.fatal; !strings.Contains(err.Error(), "the files of this node have entries up to 7, the log of its cluster ends at 0") {
		t.Fatal(err)
	}
}
