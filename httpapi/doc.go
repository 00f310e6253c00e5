// Package httpapi serves the InfluxDB 1.x HTTP API: /query, /write, /ping,
// /status, /health, /metrics, and of the v2 API write and delete.
//
// A Handler routes a request by a fixed table. Writes go through readBody
// (bounded before and after decompression), a pooled lineproto.Parser and a
// pooled column.Batch to the Writer; queries go through influxql's parser to
// the Querier, whose results an encoder (JSON, CSV or MessagePack) renders
// straight from typed vectors into an output. A Server adds the listener,
// limits and the graceful stop.
//
// Invariants: a write is answered 204 only after the Writer returned; every
// error goes through classify, the one table from error to status, and a 5xx
// never carries words by which clients throw data away; an answer that fails
// before its first byte is out becomes an error as a whole, and one that fails
// later is cut off, never completed with wrong data.
//
// The package knows nothing of storage and holds no data of its own. It does
// not authenticate. A Handler is safe for concurrent use; encoders and outputs
// belong to one request.
package httpapi
