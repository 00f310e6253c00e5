// Package input is what the inputs beside HTTP share: a Batcher, which gathers
// points and writes them as HTTP writes are written, and listeners for packets
// and for lines over connections. The packages below it, one per protocol,
// decode.
//
// A decoder hands Points, or line protocol as it came, to its Batcher. The batch
// being filled is passed on when it has BatchSize points, or maxBatchBytes, or
// is BatchTimeout old; a writer stores it by Writer.Write and, while that fails
// for a time, tries again. There are BatchPending batches and one: when all wait
// to be written, AddLines and Offer drop what comes and count it (packets have
// no sender who could wait), and Add waits, so that a connection is not read and
// its sender feels it (W9).
//
// The senders of these protocols get no acknowledgement: what was received and
// not yet written is lost in a crash. Close writes it. WritePoints is the
// exception: it returns when the points are durable.
//
// A Batcher may be used by any number of goroutines. The package makes the
// database, and the policy if one is named, when they are not there.
package input
