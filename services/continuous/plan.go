package continuous

import (
	"strings"
	"time"

	"tsdbd/query"
)

// plan is a continuous query and the times of its runs.
type plan struct {
	*query.ContinuousQuery
	every time.Duration // time between runs; 0: at the end of each window
	back  time.Duration // FOR: what a run looks back over
}

// parse reads a stored CREATE CONTINUOUS QUERY.
func parse(text string) (*plan, error) {
	q, err := query.ParseContinuous(text)
	if err != nil {
		return nil, err
	}
	p := &plan{ContinuousQuery: q, every: q.Every, back: q.For}
	if p.back <= 0 {
		p.back = max(q.Interval, p.every)
	}
	return p, nil
}

// step returns the time between two runs.
func (p *plan) step() time.Duration {
	if p.every <= 0 {
		return p.Interval
	}
	return p.every
}

// due reports whether a run is due at now if the previous run was last (zero: none),
// and returns the range [start, end) of the run. run is the time of the run; runs are
// a multiple of EVERY apart.
func (p *plan) due(now, last time.Time) (start, end, run time.Time, ok bool) {
	every := p.step()
	if p.every <= 0 {
		run = p.Window(now)
	} else {
		run = p.Step(now, every)
	}
	if !last.IsZero() && !run.After(last) {
		return start, end, run, false
	}
	// If EVERY is shorter than the interval, the run includes the current window.
	end = p.Window(run.Add(p.Interval - min(every, p.Interval)))
	start = p.Window(run.Add(p.Interval - p.back - 1))
	if !last.IsZero() {
		// Include windows that ended since the last run, or were current then.
		if covered := p.Window(last); covered.Before(start) {
			start = covered
		}
	}
	return start, end, run, start.Before(end)
}

// key is the key of a query in the maps of a Service. A query that was dropped and created
// with another text has another key.
func key(database, name, text string) string {
	return strings.Join([]string{database, name, text}, "\x00")
}
