// Package downsample answers SELECTs from downsamples.
//
// Rewrite looks whether a SELECT of aggregates over a policy can take part of its range
// from a downsample of that policy. It then returns a SELECT over two subqueries, which
// the engine plans as any other: one reads the rows of the target, the other aggregates
// the source in the same windows. The calls of the select list combine the aggregates of
// both, so a window of GROUP BY time may have rows of either. The statement that a client
// sent is not changed.
//
// The answer is that of the source, with these exceptions. Means and sums of floats may
// differ in the last digits. A bound of time in a window that the source no longer
// covers takes the whole window.
package downsample
