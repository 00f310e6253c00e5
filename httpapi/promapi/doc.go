// Package promapi answers the part of Prometheus' HTTP API that reads: its parameters,
// documents, errors and words. Endpoints is the table of what there is. Package httpapi
// has the routes, the rights and the form of a request, and hands over a Call.
//
// An answer is written while the engine gives out its series, through encode.Output.
// Until the first megabyte is complete, an error can still take the place of the
// answer. All documents have the members, the order and the numbers of Prometheus.
//
// An API is safe for concurrent use.
package promapi
