package mover

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
)

// keepRun keeps rows as line protocol. Rows whose names it cannot have become comments: as
// lines they could be read as other points.
func (r *Refused) keepRun(database, policy, reason string, run *rows.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	heading, err := rows.Header(database, policy)
	if err != nil {
		r.mu.err = cmp.Or(r.mu.err, err)
		return
	}
	var text rows.LineWriter
	text.Begin(run)
	plain := writable(run)
	for row := range run.Times {
		line := bytes.TrimSuffix(text.AppendRow(nil, row), []byte{'\n'})
		if !plain && len(line) > 0 {
			line = fmt.Appendf(nil, "# %q: %q", reason, line)
		}
		if len(line) > 0 {
			r.keepLocked(heading, line)
		}
	}
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
