// Package engine runs PromQL within the limits that InfluxQL has.
//
// Engine.Run admits a query (query/admission), parses it, and evaluates it. An
// expression that prom/window has a plan for, or prom/operator a tree, is evaluated
// without Prometheus' engine. The series of a plan reach the Sink when they are computed
// (see direct). For any other expression the engine charges what its evaluation takes, and runs Prometheus' own
// engine over prom/queryable, and over the results of the parts that have a plan (see
// parts). A request for statistics has Prometheus' engine do everything: only that
// counts samples.
//
// Series, LabelNames and LabelValues look at the labels of series in the same way.
//
// # Memory
//
// Prometheus' engine takes memory without asking. So the engine charges for what an
// evaluation can take at most, before it begins (see bounds), and for each series when
// the evaluation gets it (see source), also for labels that functions make longer (see
// growth). prom/queryable charges what it reads. All of
// this is one claim of the query (W9). A second bound is the number of samples that
// Prometheus' engine holds at a time. The last one is the heap: while the server is
// short of memory, the largest queries end (see watch).
//
// An Engine is safe for concurrent use.
package engine
