// Package monitor writes what the server counts into a database of its own, as
// InfluxDB's _internal: a measurement for each statistic of SHOW STATS, its
// values as fields, its tags and hostname as tags.
//
// A Service asks for the statistics at every interval and writes them with one
// time, rounded down to it, to a policy that keeps them for a week. It makes the
// database and the policy when they are not there. A round that fails is
// left out; the log tells of the first and of the first that works again.
//
// It is not where figures come from: /metrics, /debug/vars and SHOW STATS have
// the same without it. Close may be called by any goroutine.
package monitor
