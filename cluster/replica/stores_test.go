package replica_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/replica"
	"tsdbd/internal/testkit/points"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/store"
)

const (
	electionTimeout = 300 * time.Millisecond // often too short
	dataDir         = "/data"
	logDir          = "/data/cluster/log"
	week            = int64(7 * 24 * time.Hour)
)

// node is a store over a replica, with its disk.
type node struct {
	t         testing.TB
	id        raft.ServerID
	fs        vfs.FS
	log       *raftlog.Store
	transport *raft.InmemTransport
	replica   *replica.Replica
	store     *store.Store // nil: stopped
	fatal     chan error
	dead      chan struct{} // closed when the power of its disk is cut
}

// nodes is a cluster in one process.
type nodes struct {
	t       testing.TB
	all     []*node
	running sync.RWMutex // held exclusively to stop and start nodes
	adjust  func(*store.Options, *replica.Options)
}

// newNodes makes nodes from the directory of a single server with a database.
func newNodes(t testing.TB, n int, disk func(i int) vfs.FS, adjust func(*store.Options, *replica.Options)) *nodes {
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	c := &nodes{t: t, adjust: adjust}
	first := vfstest.New()
	s, err := store.Open(dataDir, store.Options{FS: first, RetentionInterval: -1})
	must(t, err)
	must(t, s.Apply(context.Background(), meta.CreateDatabase{Name: "db"}))
	base := raftlog.Base{Sequence: s.Applied()}
	must(t, s.Close())
	var conf raft.Configuration
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	for i, server := range conf.Servers {
		m := &node{t: t, id: server.ID, fs: first.Clone()}
		if disk != nil {
			m.fs = disk(i)
			copyDir(t, first, m.fs, dataDir)
		}
		must(t, raftlog.Create(m.fs, logDir, base))
		log, err := raftlog.Open(m.fs, logDir, raftlog.Options{})
		must(t, err)
		config := raft.DefaultConfig()
		config.LocalID = server.ID
		must(t, raft.BootstrapCluster(config, log, log, log.Snapshots(), nil, conf))
		must(t, log.Close())
		c.all = append(c.all, m)
	}
	for _, m := range c.all {
		c.start(m)
	}
	t.Cleanup(func() {
		for _, m := range c.all {
			c.stop(m)
		}
	})
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copyDir copies files from a file system in memory.
func copyDir(t testing.TB, from *vfstest.FS, to vfs.FS, dir string) {
	for _, name := range from.Files() {
		if strings.HasPrefix(name, dir+"/") && !strings.HasSuffix(name, "/LOCK") {
			must(t, to.MkdirAll(name[:strings.LastIndexByte(name, '/')]))
			f, err := to.Create(name)
			must(t, err)
			_, err = f.WriteAt(from.Content(name), 0)
			must(t, errors.Join(err, f.Sync(), f.Close()))
		}
	}
}

func (c *nodes) start(m *node) {
	c.t.Helper()
	var err error
	m.log, err = raftlog.Open(m.fs, logDir, raftlog.Options{SegmentBytes: 256 << 10})
	must(c.t, err)
	if d := m.log.Damage(); len(d) > 0 {
		c.t.Fatalf("%s: %v", m.id, d)
	}
	_, m.transport = raft.NewInmemTransportWithTimeout(raft.ServerAddress(m.id), 2*electionTimeout)
	fatal := make(chan error, 1)
	m.fatal = fatal
	opt := replica.Options{
		ID: m.id, Log: m.log, Transport: m.transport, ElectionTimeout: electionTimeout, DecoderBytes: 20_000,
		OnFatal: func(err error) { fatal <- err },
	}
	base := m.log.Base()
	options := store.Options{
		FS: m.fs, RetentionInterval: -1, FlushBytes: 64 << 10, CacheBytes: 4 << 20, CloseFlush: -1, CompactAfter: time.Hour,
		Follower: true, LogAfter: base.Sequence,
	}
	if os.Getenv("REPLICA_LOG") != "" {
		opt.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", m.id)
		options.Logger = opt.Logger
	}
	if c.adjust != nil {
		c.adjust(&options, &opt)
	}
	m.replica, err = replica.New(opt)
	must(c.t, err)
	options.OpenLog = m.replica.OpenLog
	m.store, err = store.Open(dataDir, options)
	must(c.t, err)
	c.connect()
	must(c.t, m.replica.Start(m.store))
}

// stop closes a node. After a power cut everything may fail.
func (c *nodes) stop(m *node) {
	if m.store == nil {
		return
	}
	err := errors.Join(m.replica.Close(), m.store.Close(), m.log.Close())
	for _, o := range c.all {
		o.transport.Disconnect(raft.ServerAddress(m.id))
	}
	_ = m.transport.Close()
	m.store = nil
	select {
	case <-m.dead:
	default:
		if m.dead == nil && err != nil {
			c.t.Errorf("close %s: %v", m.id, err)
		}
		select {
		case err := <-m.fatal:
			c.t.Errorf("%s: %v", m.id, err)
		default:
		}
	}
	m.dead = nil
}

// cut cuts the power of a node's disk at its next operation, and returns what is left.
func (m *node) cut(r *rand.Rand) *vfstest.FS {
	fs := m.fs.(*vfstest.FS)
	left := make(chan *vfstest.FS, 1)
	m.dead = make(chan struct{})
	keep := []float64{0, 0.5, 1}[r.IntN(3)]
	var once sync.Once
	fs.SetHook(func(vfstest.Op) error {
		once.Do(func() { left <- fs.Crash(r, keep); close(m.dead) })
		return errors.New("no power")
	})
	_ = fs.MkdirAll("/power") // at the latest
	return <-left
}

func (c *nodes) connect(cut ...func(from, to *node) bool) {
	for _, from := range c.all {
		for _, to := range c.all {
			if from == to || from.transport == nil || to.transport == nil {
				continue
			}
			if slices.ContainsFunc(cut, func(f func(from, to *node) bool) bool { return f(from, to) }) {
				from.transport.Disconnect(raft.ServerAddress(to.id))
			} else {
				from.transport.Connect(raft.ServerAddress(to.id), to.transport)
			}
		}
	}
}

func alone(m *node) func(from, to *node) bool {
	return func(from, to *node) bool { return from == m || to == m }
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// leader waits for a leader.
func (c *nodes) leader() (leader *node) {
	c.t.Helper()
	eventually(c.t, "a leader", func() bool {
		i := slices.IndexFunc(c.all, func(m *node) bool { return m.store != nil && m.replica.Leads() })
		if i >= 0 {
			leader = c.all[i]
		}
		return i >= 0
	})
	return leader
}

// atLeader does something where it is accepted; whoever retries gets nil in the end.
func (c *nodes) atLeader(stop <-chan struct{}, f func(s *store.Store) error) error {
	for {
		select {
		case <-stop:
			return errors.New("the test ends")
		default:
		}
		c.running.RLock()
		for _, m := range c.all {
			if m.store == nil || !m.replica.Leads() {
				continue
			}
			err := f(m.store)
			if err == nil {
				c.running.RUnlock()
				return nil
			}
			var temporary interface{ Temporary() bool }
			if !errors.As(err, &temporary) && !strings.Contains(err.Error(), "no power") {
				c.running.RUnlock()
				return err
			}
		}
		c.running.RUnlock()
		time.Sleep(time.Millisecond)
	}
}

// write parses and writes lines.
func write(s *store.Store, db, lines string) error {
	table, err := s.Table(db)
	if err != nil {
		return err
	}
	var p lineproto.Parser
	var b point.Batch
	if _, err := p.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		return err
	}
	return s.Write(context.Background(), db, "", &b)
}

// content returns all values of a database, by series, time and field.
func content(s *store.Store, db string) (map[string]string, error) {
	v, err := s.View(db, "", model.AllTime)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	return points.Read(v, false)
}

// settle waits until all nodes have applied the same, compares everything they have,
// and returns it.
func (c *nodes) settle() map[string]string {
	c.t.Helper()
	eventually(c.t, "nodes at one sequence", func() bool {
		at := c.leader().replica.Applied()
		return !slices.ContainsFunc(c.all, func(m *node) bool { return m.replica.Applied() != at })
	})
	var first map[string]string
	var catalog string
	for i, m := range c.all {
		got, err := content(m.store, "db")
		must(c.t, err)
		data := *m.store.Catalog()
		data.Dropped = meta.Dropped{}
		b, err := json.Marshal(&data)
		must(c.t, err)
		if i == 0 {
			first, catalog = got, string(b)
			continue
		}
		if string(b) != catalog {
			c.t.Errorf("%s has catalog %s, %s has %s", m.id, b, c.all[0].id, catalog)
		}
		if !maps.Equal(got, first) {
			for k, v := range first {
				if got[k] != v {
					c.t.Fatalf("%s has %d values, %s has %d, for example %s: %s and %q", c.all[0].id, len(first), m.id, len(got), k, v, got[k])
				}
			}
			c.t.Fatalf("%s has %d values, %s has %d", c.all[0].id, len(first), m.id, len(got))
		}
	}
	return first
}

// writers write until stop, and remember what was acknowledged.
type writers struct {
	sync.WaitGroup
	sync.Mutex
	whole   map[string]string // acknowledged: these values
	absent  map[string]bool   // acknowledged: deleted
	batches [][]string        // all values of one, or none
	last    map[string]int    // overwritten in order: at least this value
	drops   map[string]bool   // databases: dropped, or made
}

func (c *nodes) write(stop <-chan struct{}) *writers {
	w := &writers{whole: map[string]string{}, absent: map[string]bool{}, last: map[string]int{}, drops: map[string]bool{}}
	// note remembers the effect of what was acknowledged, which may be the last thing
	// that happens.
	do := func(f func(s *store.Store) error, note func()) bool {
		if err := c.atLeader(stop, f); err != nil {
			if !strings.Contains(err.Error(), "the test ends") {
				c.t.Error(err)
			}
			return false
		}
		w.Lock()
		defer w.Unlock()
		note()
		return true
	}
	for n := range 2 {
		// Batches over several shards, with new series and fields now and then.
		w.Go(func() {
			for i := int64(1); ; i++ {
				var lines strings.Builder
				values := map[string]string{}
				for k := range int64(3) {
					series, field, t := fmt.Sprintf("m,h=%d,w=%d", i%40+i/200*40, n), fmt.Sprintf("v%d", i/300), k*week+i
					fmt.Fprintf(&lines, "%s %s=%di %d\n", series, field, i, t)
					values[fmt.Sprintf("%s %d %s", series, t, field)] = fmt.Sprintf("%di", i)
				}
				w.Lock()
				w.batches = append(w.batches, slices.Collect(maps.Keys(values)))
				w.Unlock()
				if !do(func(s *store.Store) error { return write(s, "db", lines.String()) }, func() { maps.Copy(w.whole, values) }) {
					return
				}
			}
		})
	}
	w.Go(func() { // overwrites
		for i := 1; ; i++ {
			key := fmt.Sprintf("o,h=%d 5 v", i%5)
			if !do(func(s *store.Store) error { return write(s, "db", fmt.Sprintf("o,h=%d v=%di 5", i%5, i)) }, func() { w.last[key] = i }) {
				return
			}
		}
	})
	w.Go(func() { // deletes
		for i := 1; ; i++ {
			host := fmt.Sprint(i % 7)
			key := fmt.Sprintf("d,h=%s %d v", host, i)
			if !do(func(s *store.Store) error { return write(s, "db", fmt.Sprintf("d,h=%s v=1i %d", host, i)) }, func() {}) {
				return
			}
			if !do(func(s *store.Store) error {
				return s.Delete(context.Background(), scan.DeleteRequest{
					Database: "db", Range: model.AllTime,
					Measurement: func(m string) bool { return m == "d" },
					Where: func(string, []column.Field) (*model.TagExpr, error) {
						return &model.TagExpr{Op: model.TagEqual, Key: "h", Value: host}, nil
					},
				})
			}, func() { w.absent[key] = true }) {
				return
			}
		}
	})
	w.Go(func() { // databases
		for i := 0; ; i++ {
			name := fmt.Sprintf("x%d", i%3)
			w.Lock()
			delete(w.drops, name)
			w.Unlock()
			if i%2 == 0 {
				if !do(func(s *store.Store) error {
					if err := s.Apply(context.Background(), meta.CreateDatabase{Name: name}); err != nil {
						return err
					}
					return write(s, name, "m v=1i 1")
				}, func() { w.drops[name] = false }) {
					return
				}
			} else if !do(func(s *store.Store) error {
				err := s.Apply(context.Background(), meta.DropDatabase{Name: name})
				if errors.Is(err, meta.ErrDatabaseNotFound) {
					return nil // an attempt of unknown outcome
				}
				return err
			}, func() { w.drops[name] = true }) {
				return
			}
		}
	})
	return w
}

// check compares what the nodes have with what was acknowledged.
func (w *writers) check(t *testing.T, got map[string]string) {
	t.Helper()
	for k, v := range w.whole {
		if got[k] != v {
			t.Errorf("%s = %s was acknowledged, there is %q", k, v, got[k])
		}
	}
	for _, keys := range w.batches {
		n := 0
		for _, k := range keys {
			if got[k] != "" {
				n++
			}
		}
		if n != 0 && n != len(keys) {
			t.Errorf("%d of %d values of a batch: %v", n, len(keys), keys)
		}
	}
	for k, v := range w.last {
		var n int
		if _, err := fmt.Sscanf(got[k], "%di", &n); err != nil || n < v {
			t.Errorf("%s = %d was acknowledged, there is %q", k, v, got[k])
		}
	}
	for k := range w.absent {
		if v, ok := got[k]; ok {
			t.Errorf("%s = %s was deleted", k, v)
		}
	}
}

// TestStores runs three stores under writes, deletes and changes of the catalog, while
// nodes are cut off, restarted, lose their power or hand over. In the end everything
// that was acknowledged is there, and all nodes are equal.
func TestStores(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 7))
	rounds := 14
	if testing.Short() {
		rounds = 7
	}
	c := newNodes(t, 3, nil, nil)
	start := time.Now()
	stop := make(chan struct{})
	w := c.write(stop)
	for range rounds {
		m := c.all[r.IntN(3)]
		what := r.IntN(7)
		t.Log("fault", what, m.id, time.Since(start).Round(time.Millisecond), c.leader().replica.Applied())
		switch what {
		case 0: // cut off
			c.connect(alone(m))
			time.Sleep(2 * electionTimeout)
		case 1: // cut one way
			c.connect(func(from, _ *node) bool { return from == m })
			time.Sleep(2 * electionTimeout)
		case 2: // a restart
			c.running.Lock()
			c.stop(m)
			c.running.Unlock()
			time.Sleep(electionTimeout)
			c.running.Lock()
			c.start(m)
			c.running.Unlock()
		case 3: // a power cut
			left := m.cut(r)
			c.running.Lock()
			c.stop(m)
			m.fs = left
			c.start(m)
			c.running.Unlock()
		case 4: // a power cut of all
			var left []*vfstest.FS
			for _, m := range c.all {
				left = append(left, m.cut(r))
			}
			c.running.Lock()
			for i, m := range c.all {
				c.stop(m)
				m.fs = left[i]
			}
			for _, m := range c.all {
				c.start(m)
			}
			c.running.Unlock()
		case 5:
			_ = c.leader().replica.TransferLeadership(context.Background(), "")
		case 6:
			m.store.FlushSoon()
		}
		c.connect()
		before := c.leader().replica.Applied()
		eventually(t, "progress", func() bool { return c.leader().replica.Applied() > before+20 })
	}
	flushed := time.Now()
	eventually(t, "a base that moves", func() bool { // the writers go on
		if time.Since(flushed) > time.Second { // on a busy machine they fill no cache
			flushed = time.Now()
			for _, m := range c.all {
				m.store.FlushSoon()
			}
		}
		return slices.ContainsFunc(c.all, func(m *node) bool { return m.log.Base().Index > 0 })
	})
	close(stop)
	w.Wait()
	w.check(t, c.settle())
	for name, dropped := range w.drops {
		if got := c.leader().store.Catalog().Database(name); dropped == (got != nil) {
			t.Errorf("database %s: dropped %v, there %v", name, dropped, got != nil)
		}
	}
}
