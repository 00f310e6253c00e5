// Package listener accepts the connections of HTTP clients: on an address or a unix
// socket, with or without TLS, up to a number of connections.
//
// Listen starts a Server with a Handler. Certificate is a certificate that can be
// replaced while the server runs.
//
// The package does not read requests. A Server and a Certificate may be used by several
// goroutines.
package listener
