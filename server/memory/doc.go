// Package memory keeps the heap of a server below a limit.
//
// Limit returns the limit: GOMEMLIMIT, or a share of the memory of the control
// group or the machine. A Guard refuses writes while live data fills the heap.
// A collector sets how much garbage each collection waits for.
package memory
