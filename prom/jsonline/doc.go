// Package jsonline reads and writes series as lines of JSON, in the form of
// VictoriaMetrics:
//
//	{"metric":{"__name__":"up","job":"a"},"values":[1,0],"timestamps":[1000,2000]}
//
// Read turns lines into rows of a batch. Append writes a series. A value that is not a
// number is null, and infinities are the texts "Infinity" and "-Infinity". The form has
// no place for native histograms and start timestamps.
//
// The package does no input and output. Its functions are safe for concurrent use.
package jsonline
