// Package query turns InfluxQL into plans and runs them over column batches,
// and executes the statements that show or change the catalog.
package query
