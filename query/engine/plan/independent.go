package plan

import (
	"github.com/influxdata/influxql"

	"tsdbd/query/engine/function"
	"tsdbd/query/expr"
)

// Independent reports whether a run of s over many windows gives what a run over
// each of them does: nothing looks at other windows, or counts or fills over
// all of them.
func Independent(s *influxql.SelectStatement) bool {
	if max(s.Limit, s.Offset, s.SLimit, s.SOffset) > 0 || s.Fill != influxql.NullFill && s.Fill != influxql.NoFill {
		return false
	}
	for _, source := range s.Sources {
		if _, ok := source.(*influxql.SubQuery); ok {
			return false
		}
	}
	ok := true
	influxql.WalkFunc(s.Fields, func(n influxql.Node) {
		if c, is := n.(*influxql.Call); is && !expr.IsMathFunction(c.Name) && !function.Filled(c.Name) && !function.IsSelector(c.Name) && c.Name != "distinct" {
			ok = false
		}
	})
	return ok
}
