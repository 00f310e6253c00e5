package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/query/show"
)

// maxTopN bounds topN.
const maxTopN = 1000

// tsdbStatus is the answer of /api/v1/status/tsdb. It has the members that
// Prometheus and VictoriaMetrics share, and the totals under both names.
type tsdbStatus struct {
	TotalSeries          int64        `json:"totalSeries"`
	TotalLabelValuePairs int64        `json:"totalLabelValuePairs"`
	HeadStats            headStats    `json:"headStats"`
	ByMetric             []namedCount `json:"seriesCountByMetricName"`
	ByLabel              []namedCount `json:"seriesCountByLabelName"`
	ByFocus              []namedCount `json:"seriesCountByFocusLabelValue"`
	ByPair               []namedCount `json:"seriesCountByLabelValuePair"`
	Values               []namedCount `json:"labelValueCountByLabelName"`
}

type headStats struct {
	Series     int64 `json:"numSeries"`
	LabelPairs int64 `json:"numLabelPairs"`
}

type namedCount struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// tsdbStatus answers /api/v1/status/tsdb: the measurements, tags and values with
// the most series.
func (h *Handler) tsdbStatus(w *response, r *request) error {
	form := r.URL.Query()
	x := show.Exploration{
		Database: form.Get("db"), Measurement: cmp.Or(form.Get("match[]"), form.Get("match")),
		Top: 10, Range: model.AllTime, Keys: true, Values: true,
	}
	if text := form.Get("topN"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxTopN {
			return badRequest(fmt.Sprintf("topN must be a number from 1 to %d, not %q", maxTopN, text))
		}
		x.Top = n
	}
	if text := form.Get("date"); text != "" {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return badRequest(fmt.Sprintf("date must be a day such as 2024-02-29, not %q", text))
		}
		x.Range = model.TimeRange{Min: day.UnixNano(), Max: day.AddDate(0, 0, 1).UnixNano() - 1}
	}
	databases := []string{x.Database}
	switch {
	case x.Database != "":
		if err := r.authorize(meta.ReadPrivilege, "read from", x.Database); err != nil {
			return err
		}
	case !r.isAdmin():
		return forbidden("without db only an administrator may ask")
	default:
		databases = nil
		for _, d := range h.opt.Catalog.Catalog().Databases {
			databases = append(databases, d.Name)
		}
	}
	var s tsdbStatus
	for _, x.Database = range databases {
		err := h.explore(r.Context(), &s, x, form.Get("focusLabel"))
		if len(databases) > 1 && errors.Is(err, meta.ErrDatabaseNotFound) {
			continue // it was dropped after the catalog was read
		}
		if err != nil {
			return databaseError(err, x.Database)
		}
	}
	s.HeadStats = headStats{s.TotalSeries, s.TotalLabelValuePairs}
	for _, list := range []*[]namedCount{&s.ByMetric, &s.ByLabel, &s.ByFocus, &s.ByPair, &s.Values} {
		*list = largest(*list, x.Top)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"status": "success", "data": s})
}

// explore adds the counts of a database to s.
func (h *Handler) explore(ctx context.Context, s *tsdbStatus, x show.Exploration, focus string) error {
	found, err := h.opt.Explorer.Explore(ctx, x)
	if err != nil {
		return err
	}
	s.TotalSeries += found.Series
	s.TotalLabelValuePairs += found.Pairs
	for _, m := range found.Measurements {
		s.ByMetric = append(s.ByMetric, namedCount{m.Name, m.Series})
	}
	for _, k := range found.Keys {
		s.ByLabel = append(s.ByLabel, namedCount{k.Key, k.Series})
		s.Values = append(s.Values, namedCount{k.Key, k.Values})
	}
	for _, v := range found.Values {
		s.ByPair = append(s.ByPair, namedCount{v.Key + "=" + v.Value, v.Series})
	}
	if focus == "" {
		return nil
	}
	x.Key, x.Keys = focus, false
	if found, err = h.opt.Explorer.Explore(ctx, x); err != nil {
		return err
	}
	for _, v := range found.Values {
		s.ByFocus = append(s.ByFocus, namedCount{v.Value, v.Series})
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
