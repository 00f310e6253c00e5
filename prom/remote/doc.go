// Package remote reads and writes the protobuf messages of Prometheus' remote
// write 1.0 and remote read.
//
// EachSeries reads a WriteRequest. ParseReadRequest reads a ReadRequest, Select
// turns the matchers of a query into a Selection of measurements and series, and
// Query.Statement into the SELECT that answers it. AppendLabel and AppendSample
// write a ReadResponse.
//
// The package does no input and output. Its functions are safe for concurrent use.
package remote
