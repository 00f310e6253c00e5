package cluster

import (
	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/cluster/heal"
	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/replica"
)

// The metrics of a node.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(f *figures) float64
}

// figures are what the metrics take their values from.
type figures struct {
	*Node
	replica replica.Stats
	log     raftlog.Stats
	heal    heal.Status
	servers []raft.Server
}

func newMetric(name, help string, kind prometheus.ValueType, of func(f *figures) float64) metric {
	return metric{prometheus.NewDesc("tsdbd_cluster_"+name, help, nil, nil), kind, of}
}

func metrics() []metric {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []metric{
		newMetric("leader", "1 if this node leads the cluster.", gauge, func(f *figures) float64 { return float64(flag(f.Leads())) }),
		newMetric("term", "Term of the cluster's log.", gauge, func(f *figures) float64 { return float64(f.replica.Term) }),
		newMetric("applied_sequence", "Sequence of the last entry that this node has applied.", gauge, func(f *figures) float64 { return float64(f.replica.Sequence) }),
		newMetric("applied_index", "Index in the cluster's log of the last group that this node has applied.", gauge, func(f *figures) float64 { return float64(f.replica.Index) }),
		newMetric("commit_index", "Index in the cluster's log up to which a majority has it, as far as this node knows.", gauge, func(f *figures) float64 { return float64(f.replica.Commit) }),
		newMetric("lag_seconds", "Age of the state that this node has applied, or the time since its start until that is known.", gauge, func(f *figures) float64 { return f.lag().Seconds() }),
		newMetric("members", "Members of the cluster.", gauge, func(f *figures) float64 { return float64(len(f.servers)) }),
		newMetric("voters", "Members of the cluster that vote.", gauge, func(f *figures) float64 { return float64(len(votersOf(f.servers))) }),
		newMetric("elections_total", "Times that this node began to lead.", counter, func(f *figures) float64 { return float64(f.replica.Epochs) }),
		newMetric("forwarded_requests_total", "Requests that this node has passed on to the leader.", counter, func(f *figures) float64 { return float64(f.forwarded.Load()) }),
		newMetric("transfer_bytes_total", "Bytes that this node has fetched to copy the state of another one.", counter, func(f *figures) float64 { return float64(f.transferred.Load()) }),
		newMetric("log_bytes", "Size of the cluster's log on this node.", gauge, func(f *figures) float64 { return float64(f.log.Bytes) }),
		newMetric("log_max_bytes", "Size of the log that is kept for nodes that are behind.", gauge, func(f *figures) float64 { return float64(f.opt.LogMaxBytes) }),
		newMetric("log_syncs_total", "Syncs of the cluster's log on this node.", counter, func(f *figures) float64 { return float64(f.log.Syncs) }),
		newMetric("log_sync_seconds_total", "Time spent in them.", counter, func(f *figures) float64 { return f.log.SyncTime.Seconds() }),
		newMetric("damaged_parts", "Shards, series files and databases of this node that have damage.", gauge, func(f *figures) float64 { return float64(len(f.heal.Waiting)) }),
		newMetric("healed_parts_total", "Those that were fetched from another node.", counter, func(f *figures) float64 { return float64(f.heal.Healed) }),
		newMetric("heal_failures_total", "Tries that failed.", counter, func(f *figures) float64 { return float64(f.heal.Failures) }),
		newMetric("heal_bytes_total", "Bytes fetched for them.", counter, func(f *figures) float64 { return float64(f.heal.Fetched) }),
		newMetric("refused_peers", "Nodes with which a connection was refused.", gauge, func(f *figures) float64 { return float64(len(f.transport.Refusals())) }),
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
	f := &figures{n, n.replica.Stats(), n.log.Stats(), n.open.Load().healer.Status(), n.members()}
	for _, m := range metrics() {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(f))
	}
}
