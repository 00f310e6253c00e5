package admin

import (
	"fmt"
	"slices"

	"tsdbd/exchange"
)

// Prefix is where a node answers.
const Prefix = exchange.PathPrefix + "cluster/"

// Roles of a node.
const (
	RoleLeader    = "leader"
	RoleFollower  = "follower"
	RoleCandidate = "candidate" // no leader is known
	RoleJoining   = "joining"   // the cluster has not taken it in yet
	RoleTransfer  = "transfer"  // it copies the data of another node
)

// Status is what a node knows of its cluster.
type Status struct {
	Cluster     string    `json:"cluster"` // id
	Node        string    `json:"node"`    // name of the node that answers
	Role        string    `json:"role"`
	Leader      string    `json:"leader"` // name, "" while there is none
	Term        uint64    `json:"term"`
	Applied     uint64    `json:"applied"` // sequence of the latest entry that the node applied
	Commit      uint64    `json:"commit"`  // index up to which a majority holds the log
	LagSeconds  float64   `json:"lag_seconds"`
	Disks       int       `json:"disks"` // a write is on so many at least when it is acknowledged
	LogBytes    int64     `json:"log_bytes"`
	LogMaxBytes int64     `json:"log_max_bytes"`
	Transfer    *Transfer `json:"transfer,omitempty"`
	Healing     *Healing  `json:"healing,omitempty"`
	Members     []Member  `json:"members"`
	Problems    []string  `json:"problems"` // as Degraded returns them
	Notes       []string  `json:"notes"`    // sentences about what works and could be better
}

// Transfer is a copy of the data of another node under way.
type Transfer struct {
	From       string `json:"from"` // name
	Bytes      int64  `json:"bytes"`
	TotalBytes int64  `json:"total_bytes"` // 0: not known yet
}

// Healing is what a node fetches from others because its own has damage, and what it has fetched.
type Healing struct {
	Part       string   `json:"part,omitempty"` // such as "shard 7", "" if nothing is fetched now
	From       string   `json:"from,omitempty"` // name
	Bytes      int64    `json:"bytes"`
	TotalBytes int64    `json:"total_bytes"`
	Waiting    []string `json:"waiting"` // parts that have damage
	Healed     int64    `json:"healed"`  // parts, since the start
	Problem    string   `json:"problem,omitempty"`
}

// Member is a node that belongs to the cluster, as the answering node sees it.
type Member struct {
	Name       string  `json:"name"`
	ID         string  `json:"id"`
	Address    string  `json:"address"`
	Voter      bool    `json:"voter"`
	Leader     bool    `json:"leader"`
	Reachable  bool    `json:"reachable"`
	Applied    uint64  `json:"applied"`
	LagSeconds float64 `json:"lag_seconds"`
	Version    string  `json:"version"`
	Problem    string  `json:"problem,omitempty"`
}

// Degraded returns what keeps the cluster from being as it should be, nothing if
// it is healthy. A node has it in Problems; one of an earlier version has less there.
func (s *Status) Degraded() []string {
	reasons := []string{}
	add := func(reason string) {
		if !slices.Contains(s.Problems, reason) {
			reasons = append(reasons, reason)
		}
	}
	if s.Leader == "" {
		add("no leader is known: writes get 503 until there is one")
	}
	reasons = append(reasons, s.Problems...)
	for _, m := range s.Members {
		if m.Problem != "" {
			add(fmt.Sprintf("%s: %s", m.Name, m.Problem))
		}
	}
	return reasons
}

// Verification compares the content of all nodes at one sequence.
type Verification struct {
	Sequence    uint64       `json:"sequence"`
	Equal       bool         `json:"equal"`
	Nodes       []NodeSum    `json:"nodes"`
	Differences []Difference `json:"differences"`
}

// NodeSum is the sum of all content of a node, or why there is none.
type NodeSum struct {
	Name  string `json:"name"`
	Sum   string `json:"sum"`
	Error string `json:"error,omitempty"`
	// What the node has in files ends at this sequence, with an entry of this term. Nodes
	// differ in it by their flushes; a term that the others do not have is of entries
	// that they never had.
	Flushed uint64 `json:"flushed"`
	Term    uint64 `json:"term"`
	Values  int64  `json:"values"` // of all shards
}

// Difference is a shard whose content is not the same on all nodes. The catalog
// has no database.
type Difference struct {
	Database        string            `json:"database"`
	RetentionPolicy string            `json:"retention_policy"`
	Shard           uint64            `json:"shard"`
	Sums            map[string]string `json:"sums"`             // by node; "" where the shard is missing
	Values          map[string]int64  `json:"values,omitempty"` // by node
}
