package httpapi

import (
	"sync/atomic"
	"time"
)

// counts are the figures of InfluxDB's httpd statistic. The metrics of
// /metrics are the same events under other names.
type counts struct {
	requests, active, requestNs              atomic.Int64
	queries, queryNs, queryBytes             atomic.Int64
	writes, writeNs, writeBytes              atomic.Int64
	activeWrites                             atomic.Int64
	points, dropped, pointsFailed            atomic.Int64
	values                                   atomic.Int64 // of writes of which nothing was dropped
	pings, statuses, promWrites, promReads   atomic.Int64
	clientErrors, serverErrors, authFailures atomic.Int64
	panics                                   atomic.Int64
}

// done counts an answered request.
func (c *counts) done(route string, status int, in, out int64, took time.Duration) {
	c.requests.Add(1)
	c.requestNs.Add(int64(took))
	switch route {
	case "query":
		c.queries.Add(1)
		c.queryNs.Add(int64(took))
		c.queryBytes.Add(out)
	case "write", "v2_write":
		c.writes.Add(1)
		c.writeNs.Add(int64(took))
		c.writeBytes.Add(in)
	case "prom_write":
		c.promWrites.Add(1)
	case "prom_read":
		c.promReads.Add(1)
	case "ping":
		c.pings.Add(1)
	case "status":
		c.statuses.Add(1)
	}
	switch {
	case status >= 500:
		c.serverErrors.Add(1)
	case status >= 400:
		c.clientErrors.Add(1)
	}
}
