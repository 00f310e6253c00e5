package result

import (
	"tsdbd/model"
	"tsdbd/model/column"
)

// IntoBatch is a run of rows of one series to be written by SELECT INTO.
type IntoBatch struct {
	Database, RetentionPolicy, Measurement string
	Tags                                   model.Tags // of the series; sorted
	Fields                                 []string
	Times                                  []int64
	Columns                                []column.Vector // one per field; a null is not written
	// TagColumns are columns of Fields' kind whose values become tags (top and
	// bottom give such), by name.
	TagColumns map[string]column.Vector
	// Frees says that the rows make room on a full disk: others can expire after them.
	Frees bool
}
