package scan

import "tsdbd/model"

// Narrower is what a Cursor may implement beside Cursor, for a reader that
// learns on the way that it wants fewer rows.
type Narrower interface {
	// Narrow makes Request.Range smaller for the series to come. The rows of
	// the present one may be cut to it or not.
	Narrow(r model.TimeRange)
}
