// Package transfer reads line protocol, CSV, documents of MongoDB, and VictoriaMetrics' lines
// of JSON, and writes their points to a running server.
//
// Import reads line protocol as exchange.Export or influx_inspect wrote it, whose headers name
// databases and retention policies. It reads CSV through package csv, documents through
// package mongo, and VictoriaMetrics' lines of JSON as they are.
//
// The packages below it read and write foreign formats. mover moves the rows of a source into
// a sink. Only the command tsdbd uses any of them, and package backup Import: what else a
// server needs is in package exchange.
//
// Invariants: Import reports each line as written or as failed, and passes the
// failed lines on. Refused keeps such lines for imports that read a part again: its file has
// each of them once.
package transfer
