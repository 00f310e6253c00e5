// Package remote reads and writes the messages of Prometheus' remote write 1.0 and 2.0
// and of remote read.
//
// Negotiate finds the version of a write request by its headers. Write and Write2 read
// the request into rows of a batch. ParseReadRequest reads a ReadRequest. Samples and
// Frames make the answers to it from series.
//
// The package does no input and output. Its functions are safe for concurrent use; a
// Samples and a Frames belong to one answer.
package remote
