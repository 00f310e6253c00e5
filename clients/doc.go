// Package clients runs the programs and libraries that people use with an
// InfluxDB 1.x against the real server: Telegraf, the influx shell, client
// libraries of three languages, Prometheus, the queries of Grafana, and the move
// of data from an InfluxDB. It is a module of its own, so that what it needs is
// no dependency of the server.
//
// Run it with make clients. A client that is not installed is told and passed
// over; everything else that does not work fails. make clients-follower runs it
// against a node of a cluster that follows.
package clients
