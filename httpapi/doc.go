// Package httpapi serves the InfluxDB 1.x HTTP API: /query, /write, /ping,
// /status, /health, /metrics, /debug; of the v2 API write, delete and buckets;
// and Prometheus remote write and read.
//
// A Handler routes a request by a fixed table, which says for each route who is
// admitted (admit); what a user may do there, the route asks (authorizeQuery,
// authorizeWrite and others). Writes go through readBody
// (bounded before and after decompression), a pooled lineproto.Parser and a
// pooled point.Batch to the Writer; queries go through influxql's parser to
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
// With logins on, nothing of a request is parsed before its user is known, no
// statement of a request runs before all were authorized, and an answer names
// no database that its user may not see. Passwords and tokens go into no log,
// no metric and no error.
//
// The package knows nothing of storage and holds no data of its own: users are
// in the catalog, and of a password that was right only a keyed hash is kept.
// A Handler is safe for concurrent use; encoders and outputs
// belong to one request.
package httpapi
