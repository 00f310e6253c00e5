// Package exchange is what servers and commands exchange: exports of points, definitions of
// catalogs, and the HTTP client that asks for them.
//
// Export writes the points that a Filter chooses from any Source (an open data directory, a
// running server, or a backup) as line protocol. Headers in the output name the databases
// and retention policies. ExportRows passes the points of a Source to a rows.Writer. A server
// passes them to a rows.Encoder, and Client.ExportRows passes what it reads to a writer of a
// format. So the program that asks makes the files, and the server needs no memory for them.
// Definitions are the users, continuous queries, subscriptions, and write limits of a
// catalog.
//
// Client is the HTTP client of the commands that talk to a server, of package backup, and of
// the nodes of a cluster. It is safe for concurrent use.
//
// Invariant: an export that breaks off is an error for its reader.
package exchange
