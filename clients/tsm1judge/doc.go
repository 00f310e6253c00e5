// Package tsm1judge gives the same files to tsdbd's reader of InfluxDB's files and to
// InfluxDB's own storage engine. It is a module of its own: the engine needs the modules
// of the whole server. It has no code of its own.
package tsm1judge
