// Command tsdbd is a time-series database server that speaks the InfluxDB 1.x
// HTTP API.
//
// Run bare, it keeps its data in ./data and listens on 127.0.0.1:8086. main
// hands over to run, which reads the configuration (flags over environment
// over file over defaults), opens the store, puts the query executor and the
// HTTP handler on it, and serves until its context ends; then it closes them
// in reverse order. Everything that can be set is in config.go.
package main
