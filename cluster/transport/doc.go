// Package transport carries everything that nodes of a cluster say to each other over
// one port.
//
// A connection begins with a handshake. The nodes encrypt it, prove to each other
// that they belong together, and exchange a Hello. Each node checks the Hello of the
// other one: protocol versions, cluster, and name. A node that refuses the
// connection sends the reason as text; both nodes keep it for Refusals. After the
// handshake the dialer names the kind of the connection, and the bytes that follow
// belong to raft (Streams, NewNetwork) or to HTTP (HTTP, Client). docs/formats/cluster-wire.md has
// the bytes of the handshake.
//
// Nodes authenticate each other in one of three ways:
//
//   - Certificates (Options.TLS): mutual TLS. Both nodes verify the certificate of the
//     other one. They may be replaced: connections have those of their beginning.
//   - A secret (Options.Secret): TLS with a certificate that a process makes for
//     itself and nobody verifies. Each node then proves that it knows the secret by a
//     MAC over the keying material of this TLS connection. A man in the middle has two
//     TLS connections with different material, so it cannot pass a proof on. With
//     certificates too, the nodes check both.
//   - Neither: plain TCP, which Check allows on loopback addresses only.
//
// The package bounds what strangers can cost: the number and the time of handshakes,
// the size of frames, and the lines in the log. A peer that reads nothing is
// disconnected when a write makes no progress.
//
// A Transport is safe for concurrent use. Close ends all its connections and waits for
// its goroutines.
package transport
