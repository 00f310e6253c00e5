// Package dump writes the rows of a cache to a TSM file.
package dump
