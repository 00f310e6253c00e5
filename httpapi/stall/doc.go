// Package stall bounds how long a server waits for clients that do not read their
// answers. A Client learns when a write to the connection begins and ends, and sets
// the deadlines of the connection.
package stall
