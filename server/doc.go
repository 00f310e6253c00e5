// Package server runs a node: the store, the executor of queries, the services
// that run on their own, the inputs and the HTTP listeners.
//
// Serve opens them in order, serves until its context ends, and closes them in
// reverse order. SIGHUP reloads the configuration: limits, the level of the log
// and certificates change without a restart.
//
// The parts do not know each other. This package connects them: engine gives
// the store to the API and the executor and sends copies of writes to
// subscribers, guarded refuses writes while memory is full, and writeInto stores
// the rows of SELECT INTO.
package server
