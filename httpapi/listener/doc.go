// Package listener accepts the connections of HTTP clients: on an address or a unix
// socket, with or without TLS, up to a number of connections.
//
// Listen starts a Server with a Handler.
//
// The package does not read requests. A Server may be used by several goroutines.
package listener
