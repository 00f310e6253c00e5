package input

import "sync/atomic"

// Counts are the counts that all inputs share.
type Counts struct {
	Bytes        atomic.Int64 // received
	Points       atomic.Int64 // received and understood
	BadPoints    atomic.Int64 // received and not understood, or not to be stored
	NotANumber   atomic.Int64 // of BadPoints: not a number, or infinite
	Dropped      atomic.Int64 // understood, but all batches were waiting
	ReadFailures atomic.Int64

	Batches       atomic.Int64 // written
	BatchesFailed atomic.Int64 // given up
	Written       atomic.Int64 // points
	Refused       atomic.Int64 // points of written batches that the store refused for good
	Failed        atomic.Int64 // points of batches given up

	Connections atomic.Int64 // open
	Connected   atomic.Int64 // ever
}

// Received adds to figures what most kinds of inputs count, by InfluxDB's names.
func (c *Counts) Received(figures map[string]any) {
	figures["bytesRx"], figures["pointsRx"], figures["pointsParseFail"] = c.Bytes.Load(), c.Points.Load(), c.BadPoints.Load()
}
