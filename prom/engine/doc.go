// Package engine runs PromQL within the limits that InfluxQL has.
//
// Engine.Run admits a query (query/admission), parses it, charges what its evaluation
// takes, and evaluates it by Prometheus' own engine over prom/queryable. A Sink gets
// the result series by series. Series, LabelNames and LabelValues look at the labels
// of series in the same way.
//
// # Memory
//
// Prometheus' engine takes memory without asking. So the engine charges for what an
// evaluation can take at most, before it begins (see bounds), and for each series when
// the evaluation gets it (see source). prom/queryable charges what it reads. All of
// this is one claim of the query (W9). A second bound is the number of samples that
// Prometheus' engine holds at a time. The last one is the heap: while the server is
// short of memory, the largest queries end (see watch).
//
// An Engine is safe for concurrent use.
package engine
