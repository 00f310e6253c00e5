// Command tsdbd is a time-series database server that speaks the InfluxDB 1.x
// HTTP API. Without a command it runs the server. The other commands back up,
// restore, export, import, inspect and verify data.
//
// main calls run, which finds the command and parses its flags. Each command
// has a file of its own. Package config reads the settings, package server runs
// the server.
package main
