// Package udp receives packets of line protocol. A bad line does not affect the other
// lines of its packet; in InfluxDB 1.x it does. If the batches are full, the points of
// a packet are dropped and counted.
package udp
