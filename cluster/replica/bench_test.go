package replica_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/replica"
	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/store"
)

// benchmarked is a server, or the nodes of a cluster, on the disk.
type benchmarked struct {
	b        testing.TB
	leader   *store.Store
	replicas []*replica.Replica // the leader first; none on a single server
}

func (m *benchmarked) must(err error) {
	m.b.Helper()
	if err != nil {
		m.b.Fatal(err)
	}
}

// openBenchmarked opens a single server for 0 nodes. The nodes of a cluster talk over TCP.
func openBenchmarked(b testing.TB, nodes int) *benchmarked {
	m := &benchmarked{b: b}
	if nodes == 0 {
		var err error
		m.leader, err = store.Open(b.TempDir(), store.Options{RetentionInterval: -1, CloseFlush: -1})
		m.must(err)
		b.Cleanup(func() { _ = m.leader.Close() })
		m.must(m.leader.Apply(context.Background(), meta.CreateDatabase{Name: "db"}))
		return m
	}
	var stores []*store.Store
	var conf raft.Configuration
	var logs []*raftlog.Store
	var networks []*raft.NetworkTransport
	for i := range nodes {
		network, err := raft.NewTCPTransportWithLogger("127.0.0.1:0", nil, 4, 10*time.Second, hclog.NewNullLogger())
		m.must(err)
		networks = append(networks, network)
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(fmt.Sprint(i)), Address: network.LocalAddr()})
	}
	for i := range nodes {
		dir := b.TempDir()
		m.must(raftlog.Create(vfs.OS, dir+"/cluster/log", raftlog.Base{}))
		log, err := raftlog.Open(vfs.OS, dir+"/cluster/log", raftlog.Options{})
		m.must(err)
		logs = append(logs, log)
		config := raft.DefaultConfig()
		config.LocalID = conf.Servers[i].ID
		m.must(raft.BootstrapCluster(config, log, log, log.Snapshots(), networks[i], conf))
		r, err := replica.New(replica.Options{ID: config.LocalID, Log: log, Transport: networks[i], OnFatal: func(err error) { b.Error(err) }})
		m.must(err)
		s, err := store.Open(dir, store.Options{RetentionInterval: -1, CloseFlush: -1, Follower: true, OpenLog: r.OpenLog})
		m.must(err)
		m.must(r.Start(s))
		stores, m.replicas = append(stores, s), append(m.replicas, r)
	}
	b.Cleanup(func() {
		for i := range nodes {
			_ = m.replicas[i].Close()
		}
		for i := range nodes {
			_, _, _ = networks[i].Close(), stores[i].Close(), logs[i].Close()
		}
	})
	leader := -1
	eventually(b, "a leader", func() bool {
		leader = slices.IndexFunc(m.replicas, func(r *replica.Replica) bool { return r.Leads() })
		return leader >= 0
	})
	m.leader = stores[leader]
	m.replicas[0], m.replicas[leader] = m.replicas[leader], m.replicas[0]
	stores[0], stores[leader] = stores[leader], stores[0]
	logs[0], logs[leader] = logs[leader], logs[0]
	networks[0], networks[leader] = networks[leader], networks[0]
	m.must(m.leader.Apply(context.Background(), meta.CreateDatabase{Name: "db"}))
	return m
}

// settle waits until all nodes have applied what the leader has.
func (m *benchmarked) settle() {
	for _, r := range m.replicas {
		m.must(r.Wait(context.Background(), m.replicas[0].Applied()))
	}
}

const (
	requestRows = 5000
	connections = 4
)

// BenchmarkDevops writes requests of the devops workload over some connections. It
// reports the CPU time of the process for a row without that of making the text: that of
// a single server, and of clusters of 1, 2 and 3 nodes. A follower costs the difference
// of the last two, the sending at the leader included.
func BenchmarkDevops(b *testing.B) {
	for _, nodes := range []int{0, 1, 2, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			m := openBenchmarked(b, nodes)
			table, err := m.leader.Table("db")
			m.must(err)
			g := load.NewDevops(load.DevopsHosts, b.N*requestRows/load.DevopsHosts)
			making := proc.CPUTime()
			for body, n := g.Next(nil, requestRows); n > 0; body, n = g.Next(body[:0], requestRows) {
			}
			making = proc.CPUTime() - making
			g = load.NewDevops(load.DevopsHosts, b.N*requestRows/load.DevopsHosts)
			var text sync.Mutex
			var work sync.WaitGroup
			before := proc.CPUTime()
			b.ResetTimer()
			for range connections {
				work.Go(func() {
					var p lineproto.Parser
					var batch point.Batch
					var body []byte
					for {
						text.Lock()
						var n int
						body, n = g.Next(body[:0], requestRows)
						text.Unlock()
						if n == 0 {
							return
						}
						batch.Reset()
						if _, err := p.Parse(&batch, table, body, lineproto.Options{}); err != nil {
							b.Error(err)
							return
						}
						if err := m.leader.Write(context.Background(), "db", "", &batch); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			m.settle()
			b.ReportMetric(float64((proc.CPUTime()-before-making).Nanoseconds())/float64(b.N)/requestRows, "CPU-ns/row")
		})
	}
}

// BenchmarkWriteOne writes one row after the other.
func BenchmarkWriteOne(b *testing.B) {
	for _, nodes := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			m := openBenchmarked(b, nodes)
			var took []time.Duration
			i := 0
			for b.Loop() {
				i++
				start := time.Now()
				m.must(write(m.leader, "db", fmt.Sprintf("m,h=a v=%di %d", i, i)))
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
		})
	}
}

// BenchmarkReadOther writes rows at an idle leader, and measures after each how long it
// takes until a follower has it.
func BenchmarkReadOther(b *testing.B) {
	m := openBenchmarked(b, 3)
	var took []time.Duration
	i := 0
	for b.Loop() {
		i++
		m.must(write(m.leader, "db", fmt.Sprintf("m,h=a v=%di %d", i, i)))
		start := time.Now()
		m.must(m.replicas[1+i%2].Wait(context.Background(), m.replicas[0].Applied()))
		took = append(took, time.Since(start))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
}
