// Package certificate has the files of TLS, which may be replaced while the server
// runs.
//
// Load reads a Pair. Reload reads its files again, for new connections.
//
// A Pair may be used by several goroutines.
package certificate
