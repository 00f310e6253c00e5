// Package promjudge judges the PromQL of tsdbd by that of Prometheus.
//
// Reference is Prometheus' own engine over its own storage in memory. NewDataset
// makes random series of every kind that Prometheus has, and Expressions makes random
// PromQL over them. The test of the package stores a dataset in tsdbd and in a
// Reference, asks both the same, and wants the same answers to the last bit.
//
// TestCompliance asks what the PromQL compliance tester asks, over the data of NewDemo,
// where TSDBD_PROMQL_QUERIES names the file with its queries.
//
// Run the random queries longer, or one query of it again, with
//
//	go test ./promjudge -run Fuzz -datasets=200 -queries=2000
//	TSDBD_SEED=... go test ./promjudge -run Fuzz -dataset=3 -expr='sum(rate(x[5m]))' -start=... -end=... -step=...
package promjudge
