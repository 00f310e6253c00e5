// Package config reads the settings of a server and checks them.
//
// Config holds all settings in one struct for each section of the file. Default
// returns the settings without a file. Source.Load combines flags, environment,
// file and defaults, in this order of precedence, and returns an error for a
// key that does not exist: a misspelled limit must not pass for a limit.
//
// Load also accepts an influxdb.conf. It takes the keys that have another name
// here, and returns a Note for each of them and for each key without effect.
//
// Settings lists the keys with their variables and values by reflection over the
// structs. The errors for unknown keys, SHOW DIAGNOSTICS, a reload and the test
// of docs/configuration.md use this list.
//
// The package opens nothing. It reads the file of settings, certificates, and the
// secret of a cluster, and nothing else.
package config
