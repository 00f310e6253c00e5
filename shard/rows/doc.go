// Package rows has the chunks that cursors hand out of rows in memory.
package rows
