package plan

import (
	"testing"
	"time"

	"github.com/influxdata/influxql"
)

// TestCompileErrors holds the texts that clients match on.
func TestCompileErrors(t *testing.T) {
	for q, want := range map[string]string{
		"SELECT time FROM cpu":                                         "at least 1 non-time field must be queried",
		"SELECT value, mean(value) FROM cpu":                           "mixing aggregate and non-aggregate queries is not supported",
		"SELECT value, max(value), min(value) FROM cpu":                "mixing multiple selector functions with tags or fields is not supported",
		"SELECT max(*), host FROM cpu":                                 "mixing aggregate and non-aggregate queries is not supported",
		"SELECT max(/val/), * FROM cpu":                                "mixing aggregate and non-aggregate queries is not supported",
		"SELECT count(value), /ho/ FROM cpu":                           "mixing aggregate and non-aggregate queries is not supported",
		"SELECT top(value, 10), max(value) FROM cpu":                   "selector function top() cannot be combined with other functions",
		"SELECT bottom(value, 10), max(value) FROM cpu":                "selector function bottom() cannot be combined with other functions",
		"SELECT count() FROM cpu":                                      "invalid number of arguments for count, expected 1, got 0",
		"SELECT count(value, host) FROM cpu":                           "invalid number of arguments for count, expected 1, got 2",
		"SELECT a(value) FROM cpu":                                     "undefined function a()",
		"SELECT count(max(value)) FROM cpu":                            "expected field argument in count()",
		"SELECT count(distinct('value')) FROM cpu":                     "expected field argument in distinct()",
		"SELECT min(distinct(value)) FROM cpu":                         "expected field argument in min()",
		"SELECT count(distinct()) FROM cpu":                            "distinct function requires at least one argument",
		"SELECT count(distinct(a, b)) FROM cpu":                        "distinct function can only have one argument",
		"SELECT distinct(a), sum(a) FROM cpu":                          "aggregate function distinct() cannot be combined with other functions or fields",
		"SELECT percentile() FROM cpu":                                 "invalid number of arguments for percentile, expected 2, got 0",
		"SELECT percentile(a, 'x') FROM cpu":                           "expected float argument in percentile()",
		"SELECT top(a,5,'server',2) FROM cpu":                          "only fields or tags are allowed in top(), found 5",
		"SELECT top(max(a), 10) FROM cpu":                              "expected first argument to be a field in top(), found max(a)",
		"SELECT sample(a, 'x') FROM cpu":                               "expected integer argument in sample()",
		"SELECT sample(a, 0) FROM cpu":                                 "sample window must be greater than 1, got 0",
		"SELECT derivative(mean(a)) FROM cpu":                          "derivative aggregate requires a GROUP BY interval",
		"SELECT derivative(a) FROM cpu GROUP BY time(1h)":              "aggregate function required inside the call to derivative",
		"SELECT derivative(max()) FROM cpu GROUP BY time(1h)":          "invalid number of arguments for max, expected 1, got 0",
		"SELECT derivative(percentile(a)) FROM cpu GROUP BY time(1h)":  "invalid number of arguments for percentile, expected 2, got 1",
		"SELECT derivative(a, -2h) FROM cpu":                           "duration argument must be positive, got -2h",
		"SELECT derivative(a, 10) FROM cpu":                            "second argument to derivative must be a duration, got *influxql.IntegerLiteral",
		"SELECT elapsed(a, 's') FROM cpu":                              "second argument to elapsed must be a duration, got *influxql.StringLiteral",
		"SELECT moving_average(a) FROM cpu":                            "invalid number of arguments for moving_average, expected 2, got 1",
		"SELECT moving_average(a, 1) FROM cpu":                         "moving_average window must be greater than 1, got 1",
		"SELECT moving_average(mean(a), 2) FROM cpu":                   "moving_average aggregate requires a GROUP BY interval",
		"SELECT integral(a, 10) FROM cpu":                              "second argument must be a duration",
		"SELECT holt_winters(a, 10, 2) FROM cpu":                       "must use aggregate function with holt_winters",
		"SELECT holt_winters(min(a), 10, 2) FROM cpu":                  "holt_winters aggregate requires a GROUP BY interval",
		"SELECT holt_winters(min(a), false, 2) FROM cpu":               "expected integer argument as second arg in holt_winters",
		"SELECT holt_winters(min(a), 10, 'x') FROM cpu":                "expected integer argument as third arg in holt_winters",
		"SELECT count(a) FROM cpu GROUP BY time":                       "time() is a function and expects at least one argument",
		"SELECT count(a) FROM cpu GROUP BY 'time'":                     "only time and tag dimensions allowed",
		"SELECT count(a) FROM cpu GROUP BY time()":                     "time dimension expected 1 or 2 arguments",
		"SELECT count(a) FROM cpu GROUP BY time(b)":                    "time dimension must have duration argument",
		"SELECT count(a) FROM cpu GROUP BY time(1s), time(2s)":         "multiple time dimensions not allowed",
		"SELECT count(a) FROM cpu GROUP BY time(1s, b)":                "time dimension offset must be duration or now()",
		"SELECT count(a) FROM cpu GROUP BY time(5m, unexpected())":     "time dimension offset function must be now()",
		"SELECT count(a) FROM cpu GROUP BY time(5m, now(1m))":          "time dimension offset now() function requires no arguments",
		"SELECT count(foo + sum(bar)) FROM cpu":                        "expected field argument in count()",
		"SELECT sum(a) + count(foo + sum(bar)) FROM cpu":               "expected field argument in count()",
		"SELECT a FROM cpu WHERE a":                                    "invalid condition expression: a",
		"SELECT a FROM cpu WHERE mean(a) > 1":                          "invalid function call in condition: mean(a)",
		"SELECT pow(a) FROM cpu":                                       "invalid number of arguments for pow, expected 2, got 1",
		"SELECT a FROM (SELECT mean(a), b FROM cpu)":                   "mixing aggregate and non-aggregate queries is not supported",
		"SELECT a FROM (SELECT a FROM cpu ORDER BY time DESC)":         "subqueries must be ordered in the same direction as the query itself",
		"SELECT a FROM cpu GROUP BY time(1m)":                          "GROUP BY requires at least one aggregate function",
		"SELECT a FROM cpu fill(none)":                                 "fill(none) must be used with a function",
		"SELECT 1 FROM cpu":                                            "field must contain at least one variable",
		"SELECT * + a FROM cpu":                                        "unable to use wildcard in a binary expression",
		"SELECT mean(*) + 1 FROM cpu":                                  "unsupported expression with wildcard: mean()",
		"SELECT exponential_moving_average(a, 0) FROM cpu":             "exponential_moving_average period must be greater than or equal to 1",
		"SELECT chande_momentum_oscillator(a, 3, 0, 'bad') FROM cpu":   "chande_momentum_oscillator warmup type must be one of: 'none' 'exponential' 'simple'",
		"SELECT kaufmans_efficiency_ratio(a, 3, 0, 'simple') FROM cpu": "invalid number of arguments for kaufmans_efficiency_ratio, expected at least 2 but no more than 3, got 4",
	} {
		stmt, err := influxql.ParseStatement(q)
		if err != nil {
			t.Errorf("%s: %v", q, err)
			continue
		}
		before := stmt.String()
		if _, err := compileSelect(stmt.(*influxql.SelectStatement), time.Unix(0, 0)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", q, err, want)
		}
		if stmt.String() != before {
			t.Errorf("%s was changed to %s", q, stmt)
		}
	}
}
