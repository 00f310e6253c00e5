package cluster

import (
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/cluster/heal"
	"tsdbd/cluster/raftlog"
)

// The metrics of a node.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(f *figures) float64
}

// figures are what the metrics are made of.
type figures struct {
	leads                           bool
	term, applied, commit, index    uint64
	lag                             float64
	voters, others                  int
	elections, forwarded, transfers float64
	log                             raftlog.Stats
	logMax                          int64
	refusals                        int
	heal                            heal.Status
}

func newMetric(name, help string, kind prometheus.ValueType, of func(f *figures) float64) metric {
	return metric{prometheus.NewDesc("tsdbd_cluster_"+name, help, nil, nil), kind, of}
}

func metrics() []metric {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []metric{
		newMetric("leader", "1 if this node leads the cluster.", gauge, func(f *figures) float64 {
			if f.leads {
				return 1
			}
			return 0
		}),
		newMetric("term", "Term of the cluster's log.", gauge, func(f *figures) float64 { return float64(f.term) }),
		newMetric("applied_sequence", "Sequence of the last entry that this node has applied.", gauge, func(f *figures) float64 { return float64(f.applied) }),
		newMetric("applied_index", "Index in the cluster's log of the last group that this node has applied.", gauge, func(f *figures) float64 { return float64(f.index) }),
		newMetric("commit_index", "Index in the cluster's log up to which a majority has it, as far as this node knows.", gauge, func(f *figures) float64 { return float64(f.commit) }),
		newMetric("lag_seconds", "Age of the state that this node has applied, or the time since its start until that is known.", gauge, func(f *figures) float64 { return f.lag }),
		newMetric("members", "Members of the cluster.", gauge, func(f *figures) float64 { return float64(f.voters + f.others) }),
		newMetric("voters", "Members of the cluster that vote.", gauge, func(f *figures) float64 { return float64(f.voters) }),
		newMetric("elections_total", "Times that this node began to lead.", counter, func(f *figures) float64 { return f.elections }),
		newMetric("forwarded_requests_total", "Requests that this node has passed on to the leader.", counter, func(f *figures) float64 { return f.forwarded }),
		newMetric("transfer_bytes_total", "Bytes that this node has fetched to copy the state of another one.", counter, func(f *figures) float64 { return f.transfers }),
		newMetric("log_bytes", "Size of the cluster's log on this node.", gauge, func(f *figures) float64 { return float64(f.log.Bytes) }),
		newMetric("log_max_bytes", "Size of the log that is kept for nodes that are behind.", gauge, func(f *figures) float64 { return float64(f.logMax) }),
		newMetric("log_syncs_total", "Syncs of the cluster's log on this node.", counter, func(f *figures) float64 { return float64(f.log.Syncs) }),
		newMetric("log_sync_seconds_total", "Time spent in them.", counter, func(f *figures) float64 { return f.log.SyncTime.Seconds() }),
		newMetric("damaged_parts", "Shards, series files and databases of this node that have damage.", gauge, func(f *figures) float64 { return float64(len(f.heal.Waiting)) }),
		newMetric("healed_parts_total", "Those that were fetched from another node.", counter, func(f *figures) float64 { return float64(f.heal.Healed) }),
		newMetric("heal_failures_total", "Tries that failed.", counter, func(f *figures) float64 { return float64(f.heal.Failures) }),
		newMetric("heal_bytes_total", "Bytes fetched for them.", counter, func(f *figures) float64 { return float64(f.heal.Fetched) }),
		newMetric("refused_peers", "Nodes with which a connection was refused.", gauge, func(f *figures) float64 { return float64(f.refusals) }),
	}
}

// Describe implements prometheus.Collector.
func (n *Node) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics() {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (n *Node) Collect(ch chan<- prometheus.Metric) {
	if n.current() == nil {
		return
	}
	r := n.replica.Stats()
	f := &figures{
		leads: n.replica.Leads(), term: r.Term, applied: r.Sequence, commit: r.Commit, index: r.Index, lag: n.lag().Seconds(),
		elections: float64(r.Epochs), forwarded: float64(n.forwarded.Load()), transfers: float64(n.transferred.Load()),
		log: n.log.Stats(), logMax: n.opt.LogMaxBytes, refusals: len(n.transport.Refusals()), heal: n.healing().Status(),
	}
	for _, s := range n.members() {
		if s.Suffrage == raft.Voter {
			f.voters++
		} else {
			f.others++
		}
	}
	for _, m := range metrics() {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(f))
	}
}
