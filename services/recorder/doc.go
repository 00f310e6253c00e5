// Package recorder keeps the figures of the server of the last hour in memory, so that its
// page can plot what was before somebody opened it.
//
// A Service reads all figures at once, at its start and at every Interval. Samples returns
// what it has kept and the figures of the moment. Its memory is fixed: Rows samples. A
// restart begins with nothing. Package monitor keeps more and for longer, in a database.
//
// Samples may be called by many goroutines, Run by one.
package recorder
