package main

import (
	"slices"
	"time"
)

// latencies sum up how long some requests took.
type latencies struct {
	n              int
	mean, p50, p99 time.Duration
}

// summary sorts took.
func summary(took []time.Duration) latencies {
	if len(took) == 0 {
		return latencies{}
	}
	slices.Sort(took)
	sum := time.Duration(0)
	for _, t := range took {
		sum += t
	}
	rank := func(share float64) time.Duration { return took[min(int(share*float64(len(took))), len(took)-1)] }
	return latencies{len(took), sum / time.Duration(len(took)), rank(0.5), rank(0.99)}
}

// loadFigures are of the load of one workload into one server.
type loadFigures struct {
	phases      []phaseFigures
	rows        int
	values      int // 0: not known
	size        int64
	took        time.Duration
	retries     int64
	clientCPU   time.Duration
	cpu         time.Duration // of the server, to the last acknowledgement
	settled     time.Duration // CPU, until it was quiet
	settledTook time.Duration // wall, from the last acknowledgement
	quiet       bool          // it became quiet in time
	peak, anon  int64         // most resident, anonymous memory, bytes
	written     int64
	disk        int64 // after the load
	diskSettled int64
	logSettled  int64 // of it the write-ahead log
	wrongCount  string

	stop, ready, first time.Duration // of a restart; ready and first from its start
	anonRestarted      int64
}

// phaseFigures are of a part of the load.
type phaseFigures struct {
	name string
	rows int
	took time.Duration
}

// queryFigures are of one kind of query.
type queryFigures struct {
	name    string
	latency latencies
	cpu     time.Duration // of the server, a query; 0: not known
	bytes   int
	wrong   string // what was wrong with an answer
	skipped bool
}

// result is what was measured of one workload on one server.
type result struct {
	product  *product
	workload string
	load     *loadFigures
	queries  []*queryFigures
	small    []*smallFigures
	err      error
}

// wrong tells whether any answer of the server was.
func (r *result) wrong() bool {
	if r.load != nil && r.load.wrongCount != "" {
		return true
	}
	return slices.ContainsFunc(r.queries, func(q *queryFigures) bool { return q.wrong != "" })
}

func perSecond(rows int, took time.Duration) float64 {
	return float64(rows) / max(took.Seconds(), 1e-9)
}

// perRow returns microseconds of a row.
func perRow(d time.Duration, rows int) float64 { return d.Seconds() * 1e6 / float64(max(rows, 1)) }

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func mb(n int64) float64 { return float64(n) / 1e6 }
