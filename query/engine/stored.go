package engine

import (
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
