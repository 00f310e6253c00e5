package mover

import (
	"bytes"
	"fmt"
	"slices"

	"tsdbd/exchange/rows"
	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/model/column"
)

// textOf returns rows as line protocol. Rows whose names it cannot have become comments: as
// lines they could be read as other points.
func textOf(database, policy, reason string, run *rows.Run) ([]byte, error) {
	text, err := rows.Header(database, policy)
	series := wire.AppendSeries(nil, run.Key)
	var prefixes []string
	for _, f := range run.Fields {
		prefixes = append(prefixes, wire.FieldPrefix(f.Key))
	}
	plain := writable(run)
	for row, at := range run.Times {
		line := wire.AppendRow(nil, series, prefixes, run.Cols, row, at)
		if plain {
			text = append(text, line...)
		} else if len(line) > 0 {
			text = fmt.Appendf(text, "# %q: %q\n", reason, bytes.TrimSpace(line))
		}
	}
	return text, err
}

// writable reports whether line protocol can have the names of a run.
func writable(run *rows.Run) bool {
	measurement, tags := model.ParseSeriesKey(run.Key, nil)
	if model.Unstorable(measurement, tags) != "" || string(model.AppendSeriesKey(nil, measurement, tags)) != run.Key {
		return false
	}
	return !slices.ContainsFunc(run.Fields, func(f column.Field) bool { return model.UnstorableField(f.Key) != "" })
}

// values returns the number of values in a run.
func values(run *rows.Run) (n int64) {
	for i := range run.Cols {
		if v := &run.Cols[i]; v.Valid == nil {
			n += int64(run.Len())
		} else {
			n += int64(v.Valid.Count(run.Len()))
		}
	}
	return n
}
