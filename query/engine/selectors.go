package engine

import (
	"github.com/influxdata/influxql"

	"tsdbd/model"
)

// selectors are the functions that choose rows. One that stands alone shows the
// other columns of its rows as well.
var selectors = map[string]function{
	"min":        {check: oneField, takes: numberOrBoolean, selector: true, filled: true, partial: &partial{slots: []slotKind{slotMin}}},
	"max":        {check: oneField, takes: numberOrBoolean, selector: true, filled: true, partial: &partial{slots: []slotKind{slotMax}}},
	"first":      {check: oneField, takes: anyType, selector: true, filled: true, partial: &partial{slots: []slotKind{slotFirst}}},
	"last":       {check: oneField, takes: anyType, selector: true, filled: true, partial: &partial{slots: []slotKind{slotLast}}},
	"percentile": {check: percentileArguments, selector: true, filled: true, tagOrder: true, rows: percentiles},
	"sample":     {check: sampleArguments, takes: anyType, selector: true, rows: samples},
	"top":        {check: topArguments, refused: topRefused("max"), selector: true, tagOrder: true, rows: topmost(-1)},
	"bottom":     {check: topArguments, refused: topRefused("min"), selector: true, tagOrder: true, rows: topmost(1)},
}

// topRefused names what InfluxDB runs for top or bottom with tags: the greatest
// or smallest value of each combination of them first.
func topRefused(reduced string) func(*influxql.Call, model.FieldType) (string, string) {
	return func(e *influxql.Call, t model.FieldType) (string, string) {
		switch {
		case len(e.Args) <= 2:
			return e.Name, "Interrupt"
		case t == model.Boolean:
			return e.Name, "ReduceBoolean"
		}
		return reduced, "Interrupt"
	}
}
