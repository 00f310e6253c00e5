package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// Progress is how far a downsample is.
type Progress struct {
	CompleteUntil int64         // all windows that end up to then are computed; ns since the epoch
	Behind        time.Duration // age of the first window that is to be computed, less what a window takes to be due
	Waiting       int64         // windows that have ended and are to be computed
	Backfilled    float64       // share of what was there at the creation
	Failing       int64         // of the windows that wait, those that could not be computed
	Rows          int64         // of the target, about
	Bytes         int64         // of the target on disk
	Held          int64         // shard groups of the source that have expired and are kept for it
	Err           string        // why, and which; "" if all is well
}

// ShowDownsamples has a table for each database that the user may read.
func (s *Statement) ShowDownsamples(*syntax.ShowDownsamples) ([]*result.Series, error) {
	var progress map[uint64]Progress
	if s.Downsamples != nil {
		progress = s.Downsamples()
	}
	var tables []*result.Series
	for _, db := range s.readable() {
		t := result.NewTable(db.Name, "from", "into", "every", "functions", "where", "complete_until", "waiting", "backfilled", "computed", "failing", "error", "held", "behind", "rows", "bytes", "statement", "earlier", "name")
		for i := range db.Downsamples {
			d, def := &db.Downsamples[i], db.Downsamples[i].Current()
			p := progress[d.ID]
			until := ""
			if p.CompleteUntil != 0 {
				until = result.FormatTime(p.CompleteUntil)
			}
			t.AddRow(d.From, d.Into, def.Period.String(), strings.Join(def.Functions, ", "), def.Where,
				until, p.Waiting, p.Backfilled, int64(d.Computed), p.Failing, p.Err, p.Held,
				influxql.FormatDuration(p.Behind), p.Rows, p.Bytes, syntax.DownsampleText(db.Name, d), earlier(d), d.Name)
		}
		if t.Rows > 0 {
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// earlier says which definitions hold for rows of earlier windows.
func earlier(d *meta.Downsample) string {
	var out []string
	for i := range d.Definitions[1:] {
		def := &d.Definitions[i]
		functions := ", no functions"
		if len(def.Functions) > 0 {
			functions = " AS " + strings.Join(def.Functions, ", ")
		}
		out = append(out, fmt.Sprintf("before %s: EVERY %s%s", result.FormatTime(d.Definitions[i+1].Since), def.Period.String(), functions))
	}
	return strings.Join(out, "; ")
}
