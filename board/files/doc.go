// Package files moves boards between a server and files: it lists, exports and imports them over the
// HTTP API, in the form of tsdbd and as dashboards of Grafana.
//
// What a format cannot hold is said by name. The server checks rights, bounds and editions.
package files
