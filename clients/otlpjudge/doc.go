// Package otlpjudge judges how tsdbd turns OpenTelemetry metrics into series by how
// Prometheus does. The test of the package makes random requests, gives each to
// prom/otlp and to the translator of Prometheus' own receiver, and wants the same
// samples, histograms and metadata.
//
// Run it longer, or one request of it again, with
//
//	go test ./otlpjudge -requests=100000
//	TSDBD_SEED=... go test ./otlpjudge -request=3
package otlpjudge
