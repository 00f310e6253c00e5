// Package load makes deterministic line protocol for benchmarks and tests,
// together with what a correct server must answer about it.
//
// Devops is hosts' cpu metrics in the style of TSBS: ten tags and ten integer
// random walks, every host every ten seconds. Hicard is a million series of
// few points. Seed is the workload of a call-statistics service: one-minute periods, three
// tags, few tag combinations that carry almost all rows and very many that are
// seen once. Scrape is what Prometheus sends of some targets. Telegraf is what fifty hosts' agents send in a day, with jitter,
// strings, booleans, late and repeated points.
//
// A generator serves one goroutine; its answers may be asked from many once it
// has made its rows.
package load
