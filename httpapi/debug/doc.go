// Package debug makes the documents below /debug/ that InfluxDB 1.x has: what
// the server counts (Vars), which clients send requests (Clients), and profiles
// (Profile, Archive).
//
// The package does not check parameters or rights; httpapi does.
package debug
