package plan

import (
	"fmt"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/result"
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
		x.Warn(lossText(&l))
	}
	if more > 0 {
		x.Warn(fmt.Sprintf("%d more damaged files were set aside", more))
	}
}

func lossText(l *scan.Loss) string {
	what := "points are missing"
	if l.Deletes {
		what = "deleted points may be back"
	}
	where := "somewhere"
	if l.Shard != 0 {
		where = fmt.Sprintf("in shard %d, %s to %s", l.Shard, result.FormatTime(l.Range.Min), result.FormatTime(l.Range.Max))
	}
	if l.Gone {
		return fmt.Sprintf("%s %s: files are gone, see %s.reason", what, where, l.Path)
	}
	return fmt.Sprintf("%s %s: damaged file set aside as %s", what, where, l.Path)
}
