// Package proto reads protobuf messages in place: the requests of remote write and read,
// and those of OTLP.
//
// A Message gives its members one after the other. It knows no schema: the caller looks
// at the number of a Member and takes what it needs. What a Member gives refers to the
// message, and nothing is copied.
//
// The package has no state.
package proto
