// Package keyorder gives series in the order of their keys.
//
// Ids are handed out in the order of the keys of each write. So series by id are runs
// that are sorted already, and as many as there were writes with new series. To merge
// them takes a comparison per doubling of the runs, not of the series, and the keys in
// memory are those next in each run.
//
// An Order belongs to one goroutine.
package keyorder
