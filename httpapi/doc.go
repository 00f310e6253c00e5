// Package httpapi serves the HTTP API of InfluxDB 1.x: /query, /write, /ping,
// /status, /health, /metrics and /debug. It also serves writes, deletes and
// buckets of the v2 API, Prometheus remote write and read, and OpenTelemetry metrics.
//
// # Path of a request
//
// A Handler dispatches requests through one table (Handler.table). A row of the
// table has the path, the handlers by method, and the users who may call them. ServeHTTP
// finds the row, logs the user in (admit), and calls the handler. The handler checks
// what the user may do (authorize, authorizeQuery) and writes its answer or returns
// an error. Options.Mounts adds handlers of other packages to the table.
//
// A write reads its body into bounded memory (internal/body), parses it into a
// pooled point.Batch, and gives the batch to the Writer. A query is parsed and
// given to the Querier, whose results an encode.Encoder renders as they come.
//
// In a cluster, the row of the table also says which node answers (place). A node that
// does not lead forwards the request through Options.Cluster before it reads the body.
// Queries are parsed first, because their statements decide. Handler.Forwarded serves
// what other nodes forward. Such a request is never forwarded again.
//
// A Server adds a listener, its limits, and the graceful stop.
//
// # Guarantees
//
//   - A write is answered with 204 only after the Writer returned.
//   - Every error gets its status from one table, classify. A 5xx never contains
//     the words by which clients drop their data.
//   - An answer that fails before its first byte is sent becomes an error. An
//     answer that fails later is cut off. It is never completed with wrong data.
//   - With logins, the Handler parses nothing of a request before it knows the
//     user, and runs no statement before all statements are authorized. An answer
//     names no database that the user may not see.
//   - Passwords and tokens appear in no log, metric or error.
//
// # Limits of the package
//
// The package stores nothing. The catalog has the users.
//
// A Handler is safe for concurrent use.
package httpapi
