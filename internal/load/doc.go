// Package load makes deterministic line protocol for benchmarks and tests,
// together with what a correct server must answer about it.
//
// Seed is the workload of a call-statistics service: one-minute periods, three
// tags, few tag combinations that carry almost all rows and very many that are
// seen once. Telegraf is what fifty hosts' agents send in a day, with jitter,
// strings, booleans, late and repeated points.
package load
