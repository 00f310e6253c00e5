package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// replicated is a log that several stores have in common. One of them leads and
// appends, the others follow when they are told to. An entry defines the series that
// none before it in the same epoch has named.
type replicated struct {
	mu      sync.Mutex
	records [][]byte // of the entries 1, 2, ...
	epoch   int
	leader  *member
	cut     bool     // the leader is deposed and does not know it
	flight  [][]byte // what it has appended since
	defined *entry.Definitions
}

// member is a store over a replicated log.
type member struct {
	ctx     context.Context // of what it follows
	log     *replicated
	t       testing.TB
	fs      *vfstest.FS
	adjust  func(*Options)
	opt     LogOptions
	applied uint64
	base    uint64 // the log before it is given up
	decoder *entry.Decoder
	store   *testStore

	following sync.Mutex // held while it follows, or stops to lead
}

// memberLog is a store's end of the log.
type memberLog struct{ *member }

func (l memberLog) Replay(func(*entry.Entry) error) error { return nil }
func (l memberLog) Advance(uint64) error                  { return nil }
func (l memberLog) Shrink(uint64) error                   { return nil }
func (l memberLog) Stats() wal.Stats                      { return wal.Stats{} }
func (l memberLog) Damage() []wal.Damage                  { return nil }
func (l memberLog) Err() error                            { return nil }
func (l memberLog) Close() error                          { return nil }

func (l memberLog) Append(e *entry.Entry) error {
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	if l.log.leader != l.member {
		return fmt.Errorf("epoch %d: %w", l.log.epoch, ErrNotLeader)
	}
	e.Sequence = 0
	var c entry.Encoder
	b, err := c.AppendRecord(nil, e, l.log.defined)
	if err != nil {
		return err
	}
	if l.log.cut {
		l.log.flight = append(l.log.flight, b)
		return fmt.Errorf("outcome unknown: %w", ErrNotLeader)
	}
	l.log.records = append(l.log.records, b)
	l.applied = uint64(len(l.log.records))
	e.Sequence = l.applied
	return l.opt.Apply(e)
}

func (l memberLog) Trim(sequence uint64) error {
	if err := l.opt.BeforeTrim(sequence); err != nil {
		return err
	}
	l.log.mu.Lock()
	defer l.log.mu.Unlock()
	l.base = max(l.base, sequence)
	return nil
}

// open opens the member's store, which then has the entries up to its base.
func (m *member) open() {
	m.t.Helper()
	opt := testOptions(m.fs)
	opt.CloseFlush = -1 // what is in memory comes again
	opt.Follower = true
	opt.LogAfter = m.base
	opt.OpenLog = func(o LogOptions) (Log, error) {
		m.opt = o
		return memberLog{m}, nil
	}
	if m.adjust != nil {
		m.adjust(&opt)
	}
	m.applied = m.base
	m.decoder = m.newDecoder()
	m.store = openTest(m.t, m.fs, opt)
}

func (m *member) newDecoder() *entry.Decoder {
	return entry.NewDecoder(func(database, id uint32) (string, bool) { return m.opt.Resolve(database, model.SeriesID(id)) })
}

// next returns the record of the entry that the member is to follow next, nil if it has
// all.
func (m *member) next() []byte {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if m.log.leader == m || m.applied == uint64(len(m.log.records)) {
		return nil
	}
	return m.log.records[m.applied]
}

// follow applies up to n entries that the member lacks.
func (m *member) follow(n int) error {
	m.following.Lock()
	defer m.following.Unlock()
	for ; n > 0; n-- {
		b := m.next()
		if b == nil {
			return nil
		}
		e, err := m.decoder.Record(b)
		if err != nil {
			return fmt.Errorf("entry %d: %w", m.applied+1, err)
		}
		e.Sequence = m.applied + 1
		if err := m.opt.Follow(m.ctx, e); err != nil {
			return err
		}
		m.log.mu.Lock()
		m.applied++
		m.log.mu.Unlock()
	}
	return nil
}

const allEntries = 1 << 30

// cluster is some members of a log.
type cluster struct {
	t       testing.TB
	log     *replicated
	members []*member
}

func newCluster(t testing.TB, n int, adjust func(*Options)) *cluster {
	c := &cluster{t: t, log: &replicated{}}
	var first *vfstest.FS
	for i := range n {
		// All have the catalog of one data directory.
		m := &member{log: c.log, t: t, ctx: context.Background(), fs: vfstest.New(), adjust: adjust}
		if i > 0 {
			m.fs = first.Clone()
		}
		m.open()
		if i == 0 {
			if err := m.store.catalog.Save(); err != nil {
				t.Fatal(err)
			}
			if err := m.store.Close(); err != nil {
				t.Fatal(err)
			}
			first = m.fs.Clone()
			m.open()
		}
		c.members = append(c.members, m)
	}
	return c
}

// elect makes a member the leader. Of what the leader before it has in flight the
// first so many come back.
func (c *cluster) elect(m *member, back int) {
	c.t.Helper()
	old := c.log.leader
	if old != nil {
		old.following.Lock()
	}
	c.log.mu.Lock()
	c.log.records = append(c.log.records, c.log.flight[:back]...)
	c.log.leader, c.log.cut, c.log.flight = nil, false, nil
	c.log.mu.Unlock()
	if old != nil {
		old.store.Retire()
		old.following.Unlock()
	}
	m.must(m.follow(allEntries))
	c.log.mu.Lock()
	c.log.leader, c.log.defined = m, &entry.Definitions{}
	c.log.epoch++
	c.log.mu.Unlock()
	m.store.Lead()
}

func (m *member) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// restart cuts the member's power, or closes it, and opens it at its base or before.
func (m *member) restart(r *rand.Rand) {
	m.t.Helper()
	m.log.mu.Lock()
	base := m.base // before the power is cut: a flush goes on, what is left may be ahead of it, never behind
	m.log.mu.Unlock()
	left := m.fs.CrashLocked(r, []float64{0, 0.5, 1}[r.IntN(3)])
	closed := m.store.Close()
	if r.IntN(2) == 0 {
		m.must(closed)
		m.log.mu.Lock()
		base = m.base
		m.log.mu.Unlock()
	} else {
		m.fs = left
	}
	m.base = base
	if base > 0 && r.IntN(2) == 0 {
		m.base = base - min(base, uint64(r.IntN(40))) // the log goes back further
	}
	older := m.base
	m.open()
	m.log.mu.Lock()
	m.base = max(older, m.base)
	m.log.mu.Unlock()
}

// catalogText is what of the catalog is the same on all nodes.
func catalogText(s *testStore) string {
	data := *s.Catalog()
	data.Dropped = meta.Dropped{}
	b, err := json.Marshal(&data)
	s.must(err)
	return string(b)
}

// check lets all members follow and compares them with the oracle and with each
// other.
func (c *cluster) check(d *driver) {
	c.t.Helper()
	for i, m := range c.members {
		if c.log.leader != m {
			m.must(m.follow(allEntries))
		}
		if err := d.check(m.store); err != nil {
			c.t.Fatalf("member %d: %v", i, err)
		}
		if m.store.Applied() != uint64(len(c.log.records)) {
			c.t.Fatalf("member %d has applied %d of %d", i, m.store.Applied(), len(c.log.records))
		}
		if have, want := catalogText(m.store), catalogText(c.members[0].store); have != want {
			c.t.Fatalf("member %d has catalog %s, member 0 %s", i, have, want)
		}
	}
	want := c.members[0].store.sums()
	if have, oracle := values(want, d.want); have != oracle {
		c.t.Fatalf("the sum has %d points, the oracle %d", have, oracle)
	}
	for i, m := range c.members {
		if diffs := differences(m.store.sums(), want); len(diffs) > 0 {
			c.t.Fatalf("member %d differs from member 0: %v", i, diffs)
		}
	}
}

// TestReplicated runs a driver over three stores with a common log: writes, deletes,
// changes of the catalog at the leader; flushes, merges, power cuts and starts from an
// older place of the log at all; leaders that are deposed with entries in flight, of
// which some come back and some are lost.
func TestReplicated(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for run := range 3 {
		r := rand.New(rand.NewPCG(testseed.Of(t), uint64(run)))
		c := newCluster(t, 3, func(o *Options) {
			o.MaxSeriesPerDatabase = []int{0, 1000}[run%2] // limits are the leader's business
			o.MergeBytes = []int64{0, 1, 1 << 10}[run]     // merges are of each node alone
		})
		leader := c.members[0]
		c.elect(leader, 0)
		d := newDriver(leader.store, r)
		d.ddl = true
		c.must(d.create())
		phantoms := 0
		for range rounds {
			for range 1 + r.IntN(8) {
				op := d.next()
				if op.name == "restart" || op.name == "backup" {
					continue
				}
				c.must(op.run())
				d.want = op.after
			}
			for _, m := range c.members {
				if m == leader {
					continue
				}
				m.must(m.follow(r.IntN(12)))
				switch r.IntN(6) {
				case 0:
					m.store.flushSome(r)
				case 1:
					m.store.compactSome(r)
				case 2:
					m.restart(r)
				}
			}
			if r.IntN(4) == 0 {
				leader = c.depose(d, r, leader, &phantoms)
			}
			if r.IntN(8) == 0 {
				c.check(d)
			}
		}
		c.check(d)
		for _, m := range c.members {
			m.must(m.store.Close())
		}
	}
}

// depose cuts the leader off, lets it take what is not committed, and elects another
// member, or the same one, or the cut one after a restart.
func (c *cluster) depose(d *driver, r *rand.Rand, leader *member, phantoms *int) *member {
	c.t.Helper()
	c.log.mu.Lock()
	c.log.cut = true
	c.log.mu.Unlock()
	*phantoms++
	n := *phantoms
	field, at := fmt.Sprintf("x%d", n), d.time()
	types := []string{"1i", `"s"`, "1.5", "true"}
	r.Shuffle(len(types), func(i, k int) { types[i], types[k] = types[k], types[i] })
	// New series and the type of a new field, which nobody else hears of.
	err := leader.store.write("db", fmt.Sprintf("m,host=p%d %s=%s %d\nm,host=P%d %sy=%s %d", n, field, types[0], at, n, field, types[1], at))
	if !errors.Is(err, ErrNotLeader) {
		c.t.Fatalf("write at a leader that is cut off: %v", err)
	}
	c.log.mu.Lock()
	c.log.flight = nil
	c.log.mu.Unlock()
	back, after := 0, d.want
	if op := d.write(); r.IntN(2) == 0 {
		err := op.run()
		c.log.mu.Lock()
		if errors.Is(err, ErrNotLeader) && r.IntN(2) == 0 {
			back = 1
			if e, err := entry.NewDecoder(nil).Record(c.log.flight[0]); err == nil && len(e.Writes) > 0 || err != nil {
				after = op.after
			}
		}
		c.log.mu.Unlock()
	}
	next := c.members[r.IntN(len(c.members))]
	c.elect(next, back)
	d.s, d.want = next.store, after
	// The same names with other types, and other series with the same ids.
	want := maps.Clone(d.want)
	lines := fmt.Sprintf("m,host=q%d %s=%s %d\nm,host=Q%d %sy=%s %d", n, field, types[2], at, n, field, types[3], at)
	want[pointKey(fmt.Sprintf("m,host=q%d", n), at, field)] = types[2]
	want[pointKey(fmt.Sprintf("m,host=Q%d", n), at, field+"y")] = types[3]
	c.must(next.store.write("db", lines))
	d.want = want
	return next
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestFollowerRefuses: a follower takes no write, delete or change, and none leaves
// a trace.
func TestFollowerRefuses(t *testing.T) {
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	c.must(a.store.write("db", "m v=1 1"))
	c.must(b.follow(allEntries))
	refused := map[string]error{
		"write":  b.store.write("db", "new,h=a v=1 1"),
		"change": b.store.Apply(context.Background(), meta.CreateDatabase{Name: "other"}),
		"delete": b.store.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.AllTime}),
	}
	for what, err := range refused {
		var temporary interface{ Temporary() bool }
		if !errors.Is(err, ErrNotLeader) || !errors.As(err, &temporary) || !temporary.Temporary() {
			t.Errorf("%s at a follower: %v", what, err)
		}
	}
	if db := b.store.mu.databases[1]; db.series.FirstClaim() != 0 || db.series.Len() != 1 {
		t.Errorf("a refused write has left series: %d, first claim %d", db.series.Len(), db.series.FirstClaim())
	}
	c.must(a.store.write("db", "m v=2 2"))
	if err := a.opt.Follow(context.Background(), &entry.Entry{Sequence: 3}); !errors.Is(err, errLeads) {
		t.Errorf("follow at a leader: %v", err)
	}
	c.elect(b, 0)
	c.must(b.store.write("db", "new,h=a v=1 1"))
	if err := a.store.write("db", "m v=3 3"); !errors.Is(err, ErrNotLeader) {
		t.Errorf("write at a leader that has retired: %v", err)
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}
