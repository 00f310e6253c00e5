// Package transfer exports the points of a store as line protocol, or as rows in other
// formats, and imports line protocol, CSV, and documents of MongoDB into a
// running server.
//
// Export writes the points that a Filter chooses from any Source: an open data
// directory, a running server, or a backup. Headers in the output name the
// databases and retention policies. Import reads such a file, or one that
// influx_inspect wrote, and writes its points through a Client. Import reads CSV through
// package csv, documents through package mongo, and VictoriaMetrics' lines of JSON as they
// are. Definitions are the users, continuous queries, subscriptions, and write limits of a
// catalog.
//
// ExportRows passes the points of a Source to a rows.Writer: csv.Writer,
// parquet.Directory, samples.Writer. A server passes them to a rows.Encoder, and
// Client.ExportRows passes what it reads to one of the others. So the program that asks
// makes the files, and the server needs no memory for them.
//
// Client is the HTTP client of the commands that talk to a server. Package
// backup uses it as well.
//
// Invariants: Import reports each line as written or as failed, and passes the
// failed lines on. Refused keeps such lines for imports that read a part again: its file has
// each of them once. An export that breaks off is an error for its reader.
//
// A Client is safe for concurrent use.
package transfer
