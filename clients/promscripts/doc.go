// Package promscripts runs the tests that Prometheus has of its query language over
// a store: over rows in memory, and over files that were flushed and merged.
// testdata/differences.txt lists the queries whose answers differ, and why.
package promscripts
