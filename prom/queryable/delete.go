package queryable

import (
	"fmt"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/prom"
)

// SharedRowsError refuses to delete a metric whose rows have other metrics too.
type SharedRowsError struct{ Measurement, Field string }

// Error implements error.
func (e *SharedRowsError) Error() string {
	return fmt.Sprintf("the metric %s is not alone in its rows: the measurement %s has the field %s too. DELETE of InfluxQL deletes whole rows",
		prom.MetricName(e.Measurement, e.Field), e.Measurement, e.Field)
}

// Delete returns the request that deletes the rows of the series that matchers choose,
// between two times in milliseconds, both inclusive.
func (s *Source) Delete(start, end int64, matchers []*labels.Matcher) (scan.DeleteRequest, error) {
	sel, err := (&querier{}).selector(matchers)
	if err != nil {
		return scan.DeleteRequest{}, err
	}
	return scan.DeleteRequest{
		Database: s.DB, RetentionPolicy: s.RP, Range: rangeOf(start, end),
		Where: func(measurement string, fields []column.Field) (*model.TagExpr, error) {
			chosen, partial := sel.fields(nil, measurement, fields)
			switch {
			case len(chosen) == 0:
				return &model.TagExpr{Op: model.TagNone}, nil
			case partial:
				return nil, sel.shared(measurement, fields)
			}
			return sel.where, nil
		},
	}, nil
}

// shared returns the error that names a field that the selector does not find.
func (s *selector) shared(measurement string, fields []column.Field) error {
	e := &SharedRowsError{Measurement: measurement}
	for _, f := range fields {
		if f.Type != model.String && !s.name(prom.MetricName(measurement, f.Key)) && prom.MetricName(measurement, f.Key) != "" {
			e.Field = f.Key
		}
	}
	return e
}
