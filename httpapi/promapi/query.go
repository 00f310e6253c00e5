package promapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"tsdbd/httpapi/encode"
	"tsdbd/prom"
	"tsdbd/prom/engine"
)

// maxPoints bounds the points of a series of a range query.
const maxPoints = 11_000

var (
	errEndBeforeStart = errors.New("end timestamp must not be before start time")
	errStep           = errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer")
)

// query answers an instant query.
func (a *API) query(c *Call) (err error) {
	req := &engine.Request{Access: c.Access, Expr: c.param("query")}
	if req.Limit, err = c.limit(); err != nil {
		return err
	}
	if req.Start, err = c.timeOr("time", a.opt.Now()); err != nil {
		return err
	}
	if err := storable("time", req.Start); err != nil {
		return err
	}
	req.End = req.Start
	return a.run(c, req)
}

// queryRange answers a range query.
func (a *API) queryRange(c *Call) (err error) {
	req := &engine.Request{Access: c.Access, Expr: c.param("query")}
	if req.Limit, err = c.limit(); err != nil {
		return err
	}
	if req.Start, err = parseTime(c.param("start")); err != nil {
		return invalid("start", err)
	}
	if req.End, err = parseTime(c.param("end")); err != nil {
		return invalid("end", err)
	}
	if req.End.Before(req.Start) {
		return invalid("end", errEndBeforeStart)
	}
	if req.Step, err = parseDuration(c.param("step")); err != nil {
		return invalid("step", err)
	}
	if req.Step < time.Millisecond { // the engine counts milliseconds
		return invalid("step", errStep)
	}
	if req.End.Sub(req.Start)/req.Step > maxPoints {
		return badData("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
	}
	if err := storable("start", req.Start); err != nil {
		return err
	}
	if err := storable("end", req.End); err != nil {
		return err
	}
	return a.run(c, req)
}

// storable refuses a time that the engine would take for another one.
func storable(name string, t time.Time) error {
	if s := t.Unix(); s <= math.MinInt64/int64(time.Second) || s >= math.MaxInt64/int64(time.Second) {
		return invalid(name, fmt.Errorf("cannot parse %q to a valid timestamp. Times are from the years 1678 to 2261", t.Format(time.RFC3339Nano)))
	}
	return nil
}

// run runs a query and answers with its value.
func (a *API) run(c *Call, req *engine.Request) (err error) {
	ctx := c.Request.Context()
	if text := c.param("timeout"); text != "" {
		d, err := parseDuration(text)
		if err != nil {
			return invalid("timeout", err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if text := c.param("lookback_delta"); text != "" {
		if req.Lookback, err = parseDuration(text); err != nil {
			return badData("error parsing lookback delta duration: %w", err)
		}
	}
	statistics := c.param("stats")
	req.Stats, req.StepStats = statistics != "", statistics == "all"
	v := &value{call: c}
	out, err := a.opt.Engine.Run(ctx, req, v)
	if err != nil {
		return parameterError(err, "query")
	}
	switch statistics {
	case "", "true", "all":
	default:
		out.Warnings = append(out.Warnings, fmt.Sprintf("value %q for parameter \"stats\" is deprecated and will be rejected in the next major release, use %q or %q", statistics, "true", "all"))
	}
	if statistics == "" {
		out.Stats = nil
	}
	if err := v.end(out.Stats); err != nil {
		return err
	}
	return c.tail(out)
}

// parameterError names the parameter that a query which is not PromQL came in.
func parameterError(err error, name string) error {
	var e *engine.Error
	if errors.As(err, &e) && e.Kind == engine.BadData {
		return invalid(name, e.Err)
	}
	return err
}

// queryExemplars answers with the exemplars of the series that a query selects.
func (a *API) queryExemplars(c *Call) error {
	start, end, err := c.times()
	if err != nil {
		return err
	}
	if end.Before(start) {
		return badData("end timestamp must not be before start timestamp")
	}
	found, selects, err := a.opt.Engine.Exemplars(c.Request.Context(), &c.Access, c.param("query"), start, end)
	if err != nil {
		return err
	}
	if !selects {
		c.W.WriteHeader(http.StatusNoContent)
		return nil
	}
	all := list{Call: c}
	for i := range found {
		if err := all.add(func(b []byte) []byte { return appendExemplars(b, &found[i]) }); err != nil {
			return err
		}
	}
	return all.end(nil)
}

// appendExemplars appends the exemplars of a series.
func appendExemplars(b []byte, s *engine.SeriesExemplars) []byte {
	b = appendLabels(append(b, `{"seriesLabels":`...), s.Labels)
	open := `,"exemplars":[`
	for i := range s.List {
		e := &s.List[i]
		b = append(append(b, open...), `{"labels":{`...)
		open = ","
		comma := ""
		for name, value := range prom.ExemplarLabels(e) {
			b = encode.AppendString(append(b, comma...), name)
			b = encode.AppendString(append(b, ':'), value)
			comma = ","
		}
		b = appendNumber(append(b, `},"value":`...), e.Value)
		b = append(appendSeconds(append(b, `,"timestamp":`...), e.Time), '}')
	}
	return append(b, "]}"...)
}
