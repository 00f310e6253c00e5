package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// goal is what tsdbd is to reach in one figure of a workload at its full size:
// a line of the table of its load, a query's mean in ms, or k rows/s of small
// requests. The bounds were set on two quiet cores of an AMD EPYC (Zen 5);
// those of the TSBS queries are half of what the best peer took there.
type goal struct {
	workload, figure string
	better           int
	bound            float64
}

var goals = []goal{
	{"devops", "k rows/s", more, 2000},
	{"devops", "us CPU/row until quiet", less, 0.8},
	{"devops", "bytes/value", less, 0.32},
	{"devops", "peak anonymous MB", less, 150},
	{"devops", "single-groupby-1-1-1", less, 0.12},
	{"devops", "single-groupby-1-1-12", less, 0.20},
	{"devops", "single-groupby-1-8-1", less, 0.26},
	{"devops", "single-groupby-5-1-1", less, 0.25},
	{"devops", "single-groupby-5-1-12", less, 0.52},
	{"devops", "single-groupby-5-8-1", less, 0.57},
	{"devops", "cpu-max-all-1", less, 0.30},
	{"devops", "cpu-max-all-8", less, 1.07},
	{"devops", "double-groupby-1", less, 1.68},
	{"devops", "double-groupby-5", less, 5.68},
	{"devops", "double-groupby-all", less, 8},
	{"devops", "groupby-orderby-limit", less, 0.84},
	{"devops", "high-cpu-1", less, 0.76},
	{"devops", "high-cpu-all", less, 60},
	{"devops", "lastpoint", less, 1},
	{"seed", "k rows/s", more, 2000},
	{"seed", "us CPU/row until quiet", less, 0.8},
	{"seed", "disk MB when quiet", less, 50},
	{"seed", "A: count per period", less, 100},
	{"seed", "B: sum by period and vCmdid", less, 100},
	{"hicard", "round 1, new series: k rows/s", more, 400},
	{"hicard", "round 2, known series: k rows/s", more, 1500},
	{"hicard", "round 3, known series: k rows/s", more, 1500},
	{"hicard", "peak anonymous MB", less, 400},
	{"hicard", "bytes/series", less, 70},
	{"hicard", "start to first answer s", less, 0.2},
	{"hicard", "anonymous MB after the start", less, 100},
	{"hicard", "count over all series", less, 300},
	{"hicard", "mean of dc3 by region", less, 60},
	{"hicard", "exact series cardinality", less, 10},
	{"hicard", "exact cardinality of host", less, 10},
	{"hicard", "ten values of host", less, 2},
	{"small", "100 rows, 8 connections", more, 600},
	{"small", "1000 rows, 8 connections", more, 1000},
}

// limitShare is the goal for requests of up to limitRows rows: so much of
// what the limit reaches.
const (
	limitShare = 0.9
	limitRows  = 10
)

// measured returns the figure of a name in a result; NaN if it has none, or a
// wrong one.
func (r *result) measured(figure string) float64 {
	if r.load != nil {
		for _, row := range loadRows([]*result{r}) {
			if row.name == figure {
				return row.value(r.load)
			}
		}
	}
	for _, q := range r.queries {
		if q.name == figure && q.latency.n > 0 && q.wrong == "" {
			return ms(q.latency.mean)
		}
	}
	for _, f := range r.small {
		if f.name() == figure {
			return f.perSecond / 1e3
		}
	}
	return math.NaN()
}

// writeGoals holds what tsdbd has reached against the goals.
func writeGoals(w io.Writer, results []*result) error {
	var b strings.Builder
	reached, all := 0, 0
	line := func(g goal, v float64, text string) {
		if math.IsNaN(v) {
			return
		}
		sign, yes := "<=", "no"
		if g.better == more {
			sign = ">="
		}
		if all++; (g.bound-v)*float64(g.better) <= 0 {
			reached++
			yes = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s %s | %s | %s |\n", g.workload, g.figure, sign, text, number(v), yes)
	}
	for _, r := range results {
		if r.product.name != "tsdbd" {
			continue
		}
		for _, g := range goals {
			if g.workload == r.workload {
				line(g, r.measured(g.figure), number(g.bound))
			}
		}
		for _, limit := range results {
			if limit.workload != r.workload || !limit.product.limit {
				continue
			}
			for _, f := range r.small {
				if f.rows <= limitRows && f.steady == 0 {
					share := r.measured(f.name()) / limit.measured(f.name())
					line(goal{r.workload, f.name() + ", share of " + limit.product.name, more, limitShare}, share, number(limitShare))
				}
			}
		}
	}
	if all == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, `
## Goals

%d of %d reached. They hold for workloads of full size and defaults, and were set on another, quiet machine of two cores;
those of the TSBS queries are half of what the best peer took there.

| workload | figure | goal | measured | reached |
|---|---|--:|--:|---|
%s`, reached, all, b.String())
	return err
}

// number renders three digits or more.
func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
