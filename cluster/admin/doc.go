// Package admin has the documents by which a cluster is watched and changed over
// HTTP, and their client.
//
// A node answers the requests below Prefix with these documents. Any node takes
// every request; a node that does not lead passes it on to the leader. Client asks
// the first node of a list that answers, so that a command works while one node is
// down.
//
// A Client is safe for concurrent use.
package admin
