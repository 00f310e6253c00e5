// Package flux has what InfluxDB's module names of Flux, and does nothing. The real one
// needs a library in Rust, which the files of a storage engine do not need.
package flux

import "io"

type (
	// MultiResultEncoder stands for a type of Flux.
	MultiResultEncoder interface {
		Encode(w io.Writer, results ResultIterator) (int64, error)
	}
	// DialectType stands for a type of Flux.
	DialectType string
	// ResultIterator stands for a type of Flux.
	ResultIterator interface {
		More() bool
		Next() Result
		Release()
		Err() error
	}
	// Result stands for a type of Flux.
	Result interface{ Tables() TableIterator }
	// TableIterator stands for a type of Flux.
	TableIterator interface{ Do(func(Table) error) error }
	// Table stands for a type of Flux.
	Table interface {
		Do(func(ColReader) error) error
	}
	// ColReader stands for a type of Flux.
	ColReader any
)
