package expr

import (
	"time"

	"github.com/influxdata/influxql"
)

// And returns a AND b. Without one of them it is the other.
func And(a, b influxql.Expr) influxql.Expr {
	return JoinExpr(influxql.AND, a, b)
}

// TimeBound returns a comparison of the time.
func TimeBound(op influxql.Token, at time.Time) influxql.Expr {
	return &influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: "time"}, RHS: &influxql.TimeLiteral{Val: at.UTC()}}
}
