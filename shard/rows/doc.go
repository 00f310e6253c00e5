// Package rows has the chunks that cursors hand out of rows in memory, and charges readers
// for texts.
package rows
