package engine

import (
	"time"

	"tsdbd/model"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/read"
)

// without returns units that have the times of others but those of segments, by source.
func without(us []*read.Unit, covered map[*read.Measurement][]plan.Segment) (out []*read.Unit) {
	for _, u := range us {
		rest := u.Range
		for _, s := range covered[u.Source] { // oldest first
			if rest.Empty() || !s.Overlaps(rest) {
				continue
			}
			if s.Min > rest.Min {
				out = append(out, u.Within(model.TimeRange{Min: rest.Min, Max: s.Min - 1}))
			}
			rest.Min = s.Max + 1
		}
		if !rest.Empty() {
			out = append(out, u.Within(rest))
		}
	}
	return out
}

// times says in words what times are in a range.
func times(r model.TimeRange) string {
	end := time.Unix(0, r.Max+1).UTC().Format(time.RFC3339)
	if r.Min < model.MinTime+int64(366*24*time.Hour) {
		return "before " + end
	}
	return "from " + time.Unix(0, r.Min).UTC().Format(time.RFC3339) + " to " + end
}
