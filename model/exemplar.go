package model

// Exemplar is an example of what a series counts: a value with labels of its own, such as
// the id of a trace.
type Exemplar struct {
	Series string // canonical key
	Time   int64  // ms since the epoch
	Value  float64
	Labels string // as package prom writes them; opaque to the storage
}
