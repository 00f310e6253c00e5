// Package udp receives packets of line protocol. A packet is lines; one that is
// bad does not spoil the others (in InfluxDB 1.x it does). Where there is no
// room for the points of a packet they are dropped and counted: over UDP nobody
// can be told to wait.
package udp
