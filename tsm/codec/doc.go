// Package codec turns columns of times and values into self-describing blocks
// and back.
package codec
