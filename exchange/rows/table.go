package rows

import (
	"slices"

	"tsdbd/model/column"
)

// Table is a measurement in one shard of a retention policy.
type Table struct {
	Database, Policy, Measurement string
	Start                         int64 // of the shard, in nanoseconds
	TagKeys                       []string
	Fields                        []column.Field // those of the runs, sorted by key
	// AllTagKeys and AllFields are those of the measurement in all shards of the policy
	// that are read. If the types of a field differ, this shard has the type in Fields.
	AllTagKeys []string
	AllFields  []column.Field
}

// Columns returns AllFields with the types that they have in this table, and the place of each
// in Fields and in the columns of runs, -1 for one that the table does not have.
func (t *Table) Columns() (fields []column.Field, places []int) {
	fields = slices.Clone(t.AllFields)
	for i := range fields {
		place, ok := column.FindField(t.Fields, fields[i].Key)
		if ok {
			fields[i].Type = t.Fields[place].Type
		} else {
			place = -1
		}
		places = append(places, place)
	}
	return fields, places
}

// Writer takes exported rows. One goroutine calls it. Its methods must not keep what they
// are given.
type Writer interface {
	// Define is called once, before the first table, with the statements that make the
	// databases and retention policies.
	Define(statements []string) error
	// Table begins a table. The tables of a measurement come one after the other in order
	// of time.
	Table(t *Table) error
	// Run adds rows of one series of the latest table. The runs of a series come one after
	// the other in ascending time. Their fields are those of the table.
	Run(r *Run) error
	// Close completes the output. After an error of another method the caller calls Abort
	// in its place.
	Close() error
	// Abort removes what is not complete.
	Abort()
}
