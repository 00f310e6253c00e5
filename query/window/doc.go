// Package window computes the windows of GROUP BY time: intervals of a fixed
// length, intervals counted on the clock of a time zone, and calendar months.
//
// Windows cover all time without gaps. Start returns the start of the window
// that holds a time, Next and Prev return the starts of its neighbors. A Windows
// is a value without state and is safe for concurrent use.
package window
