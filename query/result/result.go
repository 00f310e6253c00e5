package result

import (
	"tsdbd/model"
	"tsdbd/model/column"
)

// Result is a piece of the answer to one statement. A statement yields one or
// more Results in order; all but the last have Partial set when the consumer
// asked for chunks.
type Result struct {
	StatementID int
	Series      []*Series
	Messages    []Message
	Partial     bool  // more Results of this statement follow
	Err         error // the statement failed; Series is empty
}

// Message is a note to the client that goes with the data.
type Message struct{ Level, Text string }

// LevelInfo is the level of messages that say where rows are from, or why there are none.
const LevelInfo = "info"

// Series is a table of rows. Once it is emitted, it is read-only and belongs to the
// consumer.
type Series struct {
	Name    string
	Tags    model.Tags // sorted by key; nil when the query groups by no tag
	Columns []string
	// Values has one vector per column, all of the same length. A column of
	// type Unknown with length Rows is all null.
	Values []column.Vector
	Rows   int
	// Time is the index of the column that holds timestamps (Integer vector,
	// ns since the epoch) to be rendered as times, or -1.
	Time    int
	Partial bool // the next Result has more rows of the series
	// Zone renders times; "" is UTC.
	Zone string
	// Lists has, by index of column, a list of texts per row for columns that
	// are arrays; their vectors are null. Nil for nearly every table.
	Lists map[int][][]string
}
