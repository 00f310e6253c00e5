// Package monitor writes the server's statistics into a database, like _internal of
// InfluxDB. Each statistic of SHOW STATS is a measurement. Its values are fields, its
// tags and the hostname are tags.
//
// A Service reads the statistics at every interval. It writes them with the time
// rounded down to the interval, to a retention policy of a week. It creates the
// database and the policy when they do not exist. If a write fails, the statistics of
// that interval are lost. The log reports the first failure and the first success
// after it.
//
// /metrics, /debug/vars and SHOW STATS do not depend on this package.
package monitor
