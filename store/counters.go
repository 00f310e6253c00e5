package store

import (
	"sync/atomic"

	"tsdbd/shard"
)

// counters are the store's own figures; Metrics shows them.
type counters struct {
	points, values, dropped, refused, failed         atomic.Int64
	over                                             atomic.Int64 // of dropped, by a limit of cardinality
	flushes, flushFailures, flushNanos               atomic.Int64
	compactions, compactionFailures, compactionNanos atomic.Int64
	deletes                                          atomic.Int64

	files shard.Counters
}
