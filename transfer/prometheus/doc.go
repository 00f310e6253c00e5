// Package prometheus moves the past of a Prometheus into a running server.
//
// Blocks sends the samples of blocks on the disk, a part of a block after the other. Server
// sends what a running Prometheus answers to remote read. Both note finished parts in a
// journal, and count what they read, so that the caller can compare the server with it.
package prometheus
