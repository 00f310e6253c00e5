package server

import (
	"context"
	"crypto/tls"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/backup"
	"tsdbd/cluster"
	"tsdbd/cluster/admin"
	"tsdbd/cluster/self"
	"tsdbd/httpapi"
	"tsdbd/internal/certificate"
	"tsdbd/internal/vfs"
	"tsdbd/model/column"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/services/input"
)

// openNode makes the server a node of its cluster, if it is one. It may wait for other
// nodes, and copy the state of one, before the store is opened.
func (s *Server) openNode() error {
	c := s.config
	k := &c.Cluster
	if k.Node == "" {
		return self.CheckSingle(vfs.OS, c.Data.Dir)
	}
	secret, err := k.SharedSecret()
	if err != nil {
		return err
	}
	encrypted, err := s.encryptNodes()
	if err != nil {
		return err
	}
	var join []cluster.Peer
	for _, n := range k.Join {
		join = append(join, cluster.Peer{Name: n.Name, Address: n.Address})
	}
	var cold *backup.Cold
	if c.Cold.URL != "" {
		o, err := s.coldStore()
		if err != nil {
			return err
		}
		cold = &backup.Cold{Objects: o.Objects, Dir: o.Place.Dir}
	}
	s.node, err = cluster.Open(s.opening, cluster.Options{
		Dir: c.Data.Dir, Name: k.Node, Bind: k.Bind, Join: join, Voter: k.Voter, Secret: secret, TLS: encrypted,
		ElectionTimeout: time.Duration(k.ElectionTimeout), MaxLag: time.Duration(k.MaxLag),
		LogMaxBytes: int64(k.LogMaxSize), MaxClockSkew: time.Duration(k.MaxClockSkew),
		Store: s.storeOptions(), Cold: cold, Version: s.Version, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.onClose(s.node.Close)
	s.registry.MustRegister(s.node)
	return nil
}

// encryptNodes returns what encrypts connections between nodes, nil without a certificate.
func (s *Server) encryptNodes() (func() *tls.Config, error) {
	k := &s.config.Cluster
	if k.Certificate == "" {
		return nil, nil
	}
	pair, err := certificate.Load(certificate.Files{Certificate: k.Certificate, Key: k.PrivateKey, Authorities: k.CA})
	if err != nil {
		return nil, err
	}
	s.certificates.add("nodes", pair)
	return func() *tls.Config { return pair.Peer(s.tls) }, nil
}

// startNode has the node take part in its cluster.
func (s *Server) startNode() error {
	if s.node == nil {
		return nil
	}
	passed := &passedHandler{writer: s.clients, node: s.node, bodies: &s.passing}
	api := s.handler.Forwarded()
	ofNodes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, passedPrefix) {
			passed.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
	s.onClose(quiet(s.leading.close))
	err := s.node.Start(s.store, ofNodes, s.backups, func(ctx context.Context) { s.leading.begin(ctx, s.lead) })
	s.onClose(s.node.Close) // before the store
	return err
}

// handOver has another node lead, so that clients can write while this one closes.
func (s *Server) handOver() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Duration(s.config.Cluster.ElectionTimeout))
	defer cancel()
	if err := s.node.HandOver(ctx); err != nil {
		s.log.Warn("lead not handed over, the others will notice that it is free", "err", err)
	}
	return nil
}

// inputWriter returns where inputs write.
func (s *Server) inputWriter() input.Writer {
	if s.node == nil {
		return s.own
	}
	return s.passer(s.own)
}

// passer returns a writer at the leader, which is w if this node leads.
func (s *Server) passer(w writer) *passer {
	return &passer{localWriter: w, node: s.node, catalog: s.store.Catalog, bodies: &s.passing, limit: w.limit}
}

// apiNode is the node for the API.
type apiNode struct {
	*cluster.Node
	passer *passer
}

// Writer implements httpapi.Cluster.
func (n apiNode) Writer(stamp http.Header, here bool) httpapi.Writer {
	p := *n.passer
	p.stamp, p.only = stamp, here
	return &p
}

// apiCluster returns the node for the API, nil for a single server.
func (s *Server) apiCluster() httpapi.Cluster {
	if s.node == nil {
		return nil
	}
	return apiNode{s.node, s.passer(s.clients)}
}

// nodeHealth is the health of the store and of the node.
type nodeHealth struct {
	store storeHealth
	node  *cluster.Node
}

// Health implements httpapi.Health.
func (h nodeHealth) Health() (ok bool, message string) {
	ok, message = h.store.Health()
	inCluster, role := h.node.Health()
	if message == "" {
		return ok && inCluster, role
	}
	return ok && inCluster, message + "; " + role
}

// Degraded implements httpapi.Health.
func (h nodeHealth) Degraded() bool { return h.store.Degraded() }

// health returns what /health asks.
func (s *Server) health() httpapi.Health {
	st := storeHealth{s.store, time.Duration(s.config.HTTP.WriteTimeout), &s.overdue, s.lags}
	if s.node == nil {
		return st
	}
	return nodeHealth{st, s.node}
}

// servers returns the table of SHOW SERVERS.
func (s *Server) servers() []*result.Series {
	if s.node == nil {
		return nil
	}
	return []*result.Series{serverTable(s.node.Status())}
}

// allDiagnostics returns what SHOW DIAGNOSTICS shows in addition to the executor's.
func (s *Server) allDiagnostics() []show.Diagnostic {
	all := append(damageDiagnostic(s.store), *s.diagnostics.Load()...)
	if s.node != nil {
		all = append(all, clusterDiagnostic(s.node.Status()))
	}
	return all
}

// serverTable has the nodes of a cluster, with the name and the first columns that
// InfluxDB's clusters have. What is not known of a node that does not answer is null.
func serverTable(status admin.Status) *result.Series {
	t := result.NewTable("data_nodes", "id", "name", "tcp_addr", "role", "voter", "reachable", "applied", "lag", "version", "problem")
	known := column.NewBitmap(len(status.Members))
	for i, m := range status.Members {
		role := "follower"
		if m.Leader {
			role = "leader"
		}
		if m.Reachable {
			known.Set(i)
		}
		t.AddRow(m.ID, m.Name, m.Address, role, m.Voter, m.Reachable, int64(m.Applied), math.Round(1000*m.LagSeconds)/1000, m.Version, m.Problem)
	}
	for i, name := range t.Columns {
		if name == "applied" || name == "lag" || name == "version" {
			t.Values[i].Valid = known
		}
	}
	return t
}

// clusterDiagnostic is the table "cluster" of SHOW DIAGNOSTICS.
func clusterDiagnostic(status admin.Status) show.Diagnostic {
	return show.Diagnostic{
		Name: "cluster", Columns: []string{"id", "node", "role", "leader", "term", "applied", "lag", "members", "problems"},
		Values: []any{
			status.Cluster, status.Node, status.Role, status.Leader, int64(status.Term), int64(status.Applied), status.LagSeconds,
			int64(len(status.Members)), strings.Join(status.Problems, "; "),
		},
	}
}

// clusterStatistic has the node's metrics for SHOW STATS.
func clusterStatistic(node prometheus.Collector) show.Statistic {
	s := show.Statistic{Name: "cluster", Values: map[string]any{}}
	r := prometheus.NewRegistry()
	r.MustRegister(node)
	families, _ := r.Gather() // what is there without those that failed
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "tsdbd_cluster_")
		for _, m := range f.GetMetric() {
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue() // a metric is one of both
			if strings.Contains(name, "_seconds") {
				s.Values[name] = v
			} else {
				s.Values[name] = int64(v)
			}
		}
	}
	return s
}
