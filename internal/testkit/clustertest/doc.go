// Package clustertest tests clusters of the real server binary: processes on 127.0.0.1
// that are killed, stopped, cut off from one another, and lose their power, while
// clients write and ask through all of them.
//
// A cluster of a test starts its nodes with package apptest. Nodes reach each other
// through package faulty, if the test asks for it. Workers are the clients: each knows
// what it may find afterwards, on every node. A fault is what happens to a cluster
// meanwhile.
//
// Each test takes seconds and has flags for longer runs; docs/bench/cluster-faults.md
// has the commands and what came out. Faults that need root skip without it.
package clustertest
