// Package opentsdb receives the two protocols of OpenTSDB on one port: lines "put
// metric time value tag=value ..." (telnet), and HTTP POST /api/put with a point or an
// array of points as JSON, plain or gzip. A connection that begins with an upper-case
// letter is HTTP. The metric becomes the measurement, and the value its field
// "value". Times are seconds, or milliseconds if they have more than ten digits.
//
// Lines are gathered in batches and are not answered. A POST is answered with 204
// when its points are durable.
package opentsdb
