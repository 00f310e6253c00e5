// Package cluster makes a server a node of a cluster: a group of nodes that keep the
// same data by a log that they agree on.
//
// Open comes before the store: it reads who the node is (package self), finds or
// founds its cluster at the first start (first.go, alone.go), and copies the state of
// another node where that is needed (transfer.go). The store then opens with OpenLog, and
// Start begins to take part. Close ends it, before the store is closed. Leave makes the
// directory of a node that does not run one of a single server (leave.go).
//
// The node answers other nodes on its port: status, changes of the membership,
// transfers, and the requests of clients that followers pass on (peer.go). Handler
// answers administrators, with operations that are rows of a table (member.go). Forward,
// Read, Leads, and Position are what package httpapi needs (forward.go).
//
// A node that cannot follow the log, because the log of the others no longer begins
// early enough, its own is damaged, or an entry contradicts its state, notes that it
// needs a transfer and asks for a restart (Restart). It then takes part under a new id:
// what it has forgotten, it has never acknowledged under that id. Nodes notice one that
// was started with an old copy of its directory (oldcopy.go, cluster/age); what it had is
// set aside.
//
// Package cluster/replica replicates the entries, cluster/raftlog keeps the log,
// cluster/transport connects nodes, and cluster/statetransfer copies states. A Node is
// safe for concurrent use.
package cluster
