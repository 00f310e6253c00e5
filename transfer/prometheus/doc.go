// Package prometheus moves the past of a Prometheus into a running server.
//
// Blocks sends the samples of blocks on the disk, a part of a block after the other, and
// notes finished parts in a journal. It counts what it reads, so that the caller can
// compare the server with it.
package prometheus
