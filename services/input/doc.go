// Package input is the common part of the inputs other than HTTP: a Batcher, which
// gathers points and writes them, and listeners for packets and for connections with
// lines. The packages below it decode one protocol each.
//
// Open returns a Service: a Listener and the Batcher that it adds points to. A
// decoder adds Points, or line protocol, to the Batcher. A batch is written when it
// has BatchSize points or maxBatchBytes, or is BatchTimeout old. While Writer.Write
// fails with a temporary error, the Batcher tries again.
//
// There are BatchPending+1 batches. When all of them wait to be written, AddLines
// and Offer drop points and count them, because the sender of a packet cannot wait.
// Add waits, so that the server stops to read from the connection (W9).
//
// These protocols have no acknowledgement. A crash loses points that were received
// and not yet written; Close writes them. WritePoints is different: the points are
// durable when it returns.
//
// The package creates the database, and the retention policy if one is named, when
// they do not exist. A Batcher is safe for concurrent use.
package input
