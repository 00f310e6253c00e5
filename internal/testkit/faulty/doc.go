// Package faulty is a network for tests that can be cut, slowed down and broken, over
// real TCP connections of 127.0.0.1.
//
// A Link is one direction between two nodes. It has Faults, which a test changes at
// any time: they act on connections that exist and on new ones. A Proxy relays TCP
// connections to a target over two links. A Network has the proxies of all pairs of
// its nodes. Nodes in the process of the test use its Listen and Dial as hooks; nodes
// that are processes of their own (Add) get addresses of proxies (AddressFor) in the
// place of those of their peers.
//
// As in a real network, a connection needs both directions: across a cut of one
// direction no connection comes into being, and of one that exists the bytes of that
// direction wait, its end included, until the cut is healed. Reset breaks connections.
//
// Random choices come from the seed of the Network. Everything here is safe for
// concurrent use. Close ends all connections and waits for all goroutines.
package faulty
