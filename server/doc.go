// Package server runs a node: the store, the executor of queries, the services
// that run on their own, the inputs and the HTTP listeners.
//
// Open opens a node in steps: the store, queries, the API, services, listeners. Close
// closes them in reverse order. Run does both as a process does: it bounds the heap,
// serves until its context ends, notifies a supervisor of the state, and reloads the
// configuration at SIGHUP. A reload changes limits, the level of the log and
// certificates.
//
// If the configuration names a node of a cluster, package cluster opens before the store
// and takes part as soon as the API can answer what other nodes forward. Server.lead
// runs what only one node may do, for as long as the node leads; a single node always
// leads. Inputs of other nodes write through passer. A node that closes first hands the
// lead over. Run opens a node again in the process if the node has to copy the state of
// another one.
//
// The parts do not know each other. This package connects them: engine gives
// the store to the API and the executor and sends copies of writes to
// subscribers, writer refuses writes while memory is full, and writeInto stores
// the rows of SELECT INTO.
package server
