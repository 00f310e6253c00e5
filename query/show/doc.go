// Package show answers the statements that show what a database holds: the catalog,
// measurements, series, fields, tags, how many there are of each, and the figures
// of the server. A Statement has a method for each. The methods read indexes
// and the catalog, never points, and return tables.
//
// A Statement belongs to the goroutine of its statement. It accounts for what it
// lists by Keep.
package show
