// Package encode renders the results of a query: JSON as InfluxDB 1.x answers
// it, CSV, MessagePack, and line protocol.
//
// Negotiate chooses a media type by the Accept header. New returns the Encoder
// of a Format, which renders typed vectors straight into an Output. The Output
// gathers bytes and passes them on in large pieces. It holds back the first
// megabyte, so that an answer that fails early becomes an error as a whole.
//
// An encoder never completes an answer with wrong data: after an error the
// caller uses Fail, or cuts the connection if AnySent. A document that must be
// built as a whole is charged to Options.Account before its memory is taken.
//
// An Encoder and its Output belong to one request and one goroutine.
package encode
