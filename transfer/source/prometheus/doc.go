// Package prometheus has mover.Sources of the past of a Prometheus.
//
// Blocks are those on the disk, a part of a block after the other. Server is a running
// Prometheus, which answers remote read.
package prometheus
