package replica_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/store"
)

// TestAlone cuts the power of all nodes and starts one. It has what the log knew to be
// committed, the configurations among it included, before it has met any other.
func TestAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 21))
	c := newNodes(t, 3, nil, nil)
	acknowledged := func(lines string) {
		t.Helper()
		must(t, c.atLeader(nil, func(s *store.Store) error { return write(s, "db", lines) }))
	}
	for i := range 300 {
		acknowledged("m,h=" + strings.Repeat("x", i%7+1) + " v=" + string(rune('0'+i%10)) + "i " + string(rune('1'+i%9)))
	}
	want := c.settle()
	m := c.all[r.IntN(3)]
	_, before := m.log.Configuration(1 << 40)
	eventually(t, "the commit index in the log", func() bool { return m.log.Committed() >= m.replica.Stats().Index })
	index := m.replica.Stats().Index
	var left []*vfstest.FS
	for _, m := range c.all {
		left = append(left, m.cut(r))
	}
	for i, m := range c.all {
		c.stop(m)
		m.fs = left[i]
	}
	c.start(m)
	eventually(t, "what was committed", func() bool { return m.replica.Stats().Index >= index })
	got, err := content(m.store, "db")
	must(t, err)
	if len(got) == 0 || len(got) != len(want) {
		t.Errorf("%d values, want %d", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %s", k, got[k], v)
		}
	}
	if _, at := m.log.Configuration(1 << 40); at != before || m.replica.Leads() {
		t.Errorf("configuration of entry %d, leads %v", at, m.replica.Leads())
	}
	// Together they go on.
	for _, o := range c.all {
		if o != m {
			c.start(o)
		}
	}
	acknowledged("m,h=last v=1i 1")
	if got := c.settle(); len(got) != len(want)+1 {
		t.Errorf("%d values, want %d", len(got), len(want)+1)
	}
}
