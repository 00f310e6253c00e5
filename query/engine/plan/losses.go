package plan

import (
	"fmt"

	"tsdbd/model"
	"tsdbd/model/scan"
)

// maxWarnings is how many losses an answer tells one by one.
const maxWarnings = 8

// warnOfLosses tells the client what damage has taken from the rows of a view
// in r: a short answer must not look like a whole one.
func (x *Planner) warnOfLosses(v scan.View, r model.TimeRange) {
	if x.Warn == nil {
		return
	}
	more := 0
	for _, l := range v.Losses() {
		if !l.Range.Overlaps(r) {
			continue
		}
		if x.warned++; x.warned > maxWarnings {
			more++
			continue
		}
		x.Warn(l.String())
	}
	if more > 0 {
		x.Warn(fmt.Sprintf("%d more damaged files were set aside", more))
	}
}
