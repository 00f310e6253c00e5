// Package exemplars keeps the latest exemplars of all databases in memory.
//
// A [Ring] has a bounded number of them. They are entries of the log: Select tells which of
// a request are to be logged, Append writes these, and Apply puts them into the ring in the
// order of the log. So the nodes of a cluster have equal rings, except for what each has
// trimmed from its log before a restart. As in Prometheus, those of a series
// come in the order of time, value and labels, and one that equals the latest is left out.
//
// A Ring may be used concurrently.
package exemplars
