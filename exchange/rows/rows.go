// Package rows is what readers of foreign data hand over, and what writers of foreign
// formats take: rows of one series at a time, in typed columns.
//
// A reader of a foreign format is a Reader. A loader writes its runs into the files of a
// shard. Lines turns a Reader into line protocol for a server that runs.
//
// An export calls a Writer. An Encoder and Decode carry the calls from a server to the
// program that asked it.
//
// A Reader and a Writer belong to one goroutine.
package rows

import (
	"context"

	"tsdbd/model/column"
)

// MaxRows is the largest number of rows of a Run, that of a full chunk of a shard.
const MaxRows = 1024

// Run is rows of one series with ascending, unique times. It has 1 to MaxRows rows, and
// each row has a value.
type Run struct {
	// Key is the canonical key of the series, as model.AppendSeriesKey writes it.
	Key string
	// Fields are sorted by key. Cols[i] has the values of Fields[i]. All runs of a series
	// have the same fields, those of all its rows: a file begins a series with its fields.
	// So a field may have no value in a run.
	Fields []column.Field
	column.Rows
}

// Reader yields runs. Unless its documentation says otherwise, series come in ascending
// order of their keys, and the runs of a series come one after the other in ascending
// time.
type Reader interface {
	// Next returns the next run, which is valid until the next call, or io.EOF. The Key
	// and the keys of fields stay valid.
	Next(ctx context.Context) (*Run, error)
	Close() error
}
