// Package transfer is the room of what brings rows in from foreign formats and takes them out
// to some. It has no code of its own.
//
// mover moves the rows of a source into a sink; journal, compare and the file of refused rows
// belong to it. Below source are the readers: files of InfluxDB (with package tsm1), a running
// InfluxDB, Prometheus, and text. Below sink are a store, a running server, and the writers of
// exports. Sources and sinks do not know each other. Only the command tsdbd uses any of them:
// what a server needs is in package exchange.
package transfer
