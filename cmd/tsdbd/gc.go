package main

// ballastBytes is how much garbage there may be before the first collection.
const ballastBytes = 64 << 20

// ballast is memory that is never written, so that no page of it is resident.
// The collector counts it as live: without it a server that holds little, as
// after a restart, would collect several times within one query.
var ballast []byte

// layBallast makes the ballast, smaller where the heap is small. It has to come
// before anything is freed: only fresh memory is left unwritten.
func layBallast(heap int64) { ballast = make([]byte, min(ballastBytes, heap/32)) }
