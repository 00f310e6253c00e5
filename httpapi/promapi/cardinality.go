package promapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/engine"
	"tsdbd/query/show"
)

// maxTopN bounds topN, and maxLimit its name in Prometheus.
const (
	maxTopN  = 1000
	maxLimit = 10_000
)

// tsdbStatus is the answer of status/tsdb. It has the members of Prometheus and those
// of VictoriaMetrics, and the totals under both names.
type tsdbStatus struct {
	TotalSeries          int64        `json:"totalSeries"`
	TotalLabelValuePairs int64        `json:"totalLabelValuePairs"`
	HeadStats            headStats    `json:"headStats"`
	ByMetric             []namedCount `json:"seriesCountByMetricName"`
	ByLabel              []namedCount `json:"seriesCountByLabelName"`
	ByFocus              []namedCount `json:"seriesCountByFocusLabelValue"`
	ByPair               []namedCount `json:"seriesCountByLabelValuePair"`
	Values               []namedCount `json:"labelValueCountByLabelName"`
	// Memory is empty: labels take none of their own.
	Memory []namedCount `json:"memoryInBytesByLabelName"`
}

// headStats are totals. There is no head: chunks and times are always 0.
type headStats struct {
	Series     int64 `json:"numSeries"`
	LabelPairs int64 `json:"numLabelPairs"`
	Chunks     int64 `json:"chunkCount"`
	MinTime    int64 `json:"minTime"`
	MaxTime    int64 `json:"maxTime"`
}

type namedCount struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// tsdbStatus answers status/tsdb: the measurements, tags and values with the most
// series.
func (a *API) tsdbStatus(c *Call) error {
	x := show.Exploration{
		Measurement: cmp.Or(c.param("match[]"), c.param("match")),
		Top:         10, Range: model.AllTime, Keys: true, Values: true,
	}
	if text := c.param("limit"); text != "" {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil || n < 1:
			return badData("limit must be a positive number")
		case n > maxLimit:
			return badData("limit must not exceed %d", maxLimit)
		}
		x.Top = n
	}
	if text := c.param("topN"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxTopN {
			return badData("topN must be a number from 1 to %d, not %q", maxTopN, text)
		}
		x.Top = n
	}
	if text := c.param("date"); text != "" {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return badData("date must be a day such as 2024-02-29, not %q", text)
		}
		x.Range = model.TimeRange{Min: day.UnixNano(), Max: day.AddDate(0, 0, 1).UnixNano() - 1}
	}
	var s tsdbStatus
	for _, x.Database = range c.Databases {
		err := a.explore(c.Request.Context(), &s, x, c.param("focusLabel"))
		if errors.Is(err, meta.ErrDatabaseNotFound) {
			if len(c.Databases) > 1 {
				continue // it was dropped after the catalog was read
			}
			return &engine.Error{Kind: engine.NotFound, Err: err}
		}
		if err != nil {
			return err
		}
	}
	s.HeadStats = headStats{Series: s.TotalSeries, LabelPairs: s.TotalLabelValuePairs}
	for _, list := range []*[]namedCount{&s.ByMetric, &s.ByLabel, &s.ByFocus, &s.ByPair, &s.Values, &s.Memory} {
		*list = largest(*list, x.Top)
	}
	return c.answer(s, nil)
}

// explore adds the counts of a database to s.
func (a *API) explore(ctx context.Context, s *tsdbStatus, x show.Exploration, focus string) error {
	found, err := a.opt.Explorer.Explore(ctx, x)
	if err != nil {
		return err
	}
	s.TotalSeries += found.Series
	s.TotalLabelValuePairs += found.Pairs
	for _, m := range found.Measurements {
		s.ByMetric = append(s.ByMetric, namedCount{prom.Text(m.Name), m.Series})
	}
	for _, k := range found.Keys {
		name := prom.Text(k.Key)
		s.ByLabel = append(s.ByLabel, namedCount{name, k.Series})
		s.Values = append(s.Values, namedCount{name, k.Values})
	}
	for _, v := range found.Values {
		s.ByPair = append(s.ByPair, namedCount{prom.Text(v.Key + "=" + v.Value), v.Series})
	}
	if focus == "" {
		return nil
	}
	x.Key, x.Keys = focus, false
	if found, err = a.opt.Explorer.Explore(ctx, x); err != nil {
		return err
	}
	for _, v := range found.Values {
		s.ByFocus = append(s.ByFocus, namedCount{prom.Text(v.Value), v.Series})
	}
	return nil
}

// largest adds the counts of equal names, which come from several databases, and
// returns the n largest.
func largest(list []namedCount, n int) []namedCount {
	slices.SortStableFunc(list, func(a, b namedCount) int { return strings.Compare(a.Name, b.Name) })
	out := []namedCount{} // never null
	for _, c := range list {
		if last := len(out) - 1; last >= 0 && out[last].Name == c.Name {
			out[last].Value += c.Value
			continue
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b namedCount) int { return cmp.Compare(b.Value, a.Value) })
	return out[:min(n, len(out))]
}
