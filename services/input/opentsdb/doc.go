// Package opentsdb receives OpenTSDB's two protocols on one port: lines "put
// metric time value tag=value ..." as for telnet, and HTTP POST /api/put with a
// point or an array of points in JSON, plain or gzip. A connection that begins
// with an upper-case letter speaks HTTP. The metric is the measurement, the
// value its field "value". Times are seconds, or milliseconds if they have more
// than ten digits.
//
// Lines are gathered in batches and get no answer. A POST is answered 204 when
// its points are durable.
package opentsdb
