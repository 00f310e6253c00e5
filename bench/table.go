package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// figureRow is one figure of every server.
type figureRow struct {
	name   string
	format string
	// better is 1 if more is better, -1 if less is, 0 if it is not compared.
	better int
	value  func(*loadFigures) float64 // NaN: not known
}

const (
	more = 1
	less = -1
)

// loadRows are the lines of the table of a load.
func loadRows(results []*result) []figureRow {
	mbOf := func(n int64) float64 {
		if n == 0 {
			return math.NaN()
		}
		return mb(n)
	}
	rows := []figureRow{
		{"k rows/s", "%.1f", more, func(f *loadFigures) float64 { return perSecond(f.rows, f.took) / 1e3 }},
		{"M values/s", "%.2f", 0, func(f *loadFigures) float64 {
			if f.values == 0 {
				return math.NaN()
			}
			return perSecond(f.values, f.took) / 1e6
		}},
		{"MB/s of text", "%.1f", 0, func(f *loadFigures) float64 { return mb(f.size) / f.took.Seconds() }},
	}
	for _, r := range results {
		if r.load == nil || len(r.load.phases) < 2 {
			continue
		}
		for i, p := range r.load.phases {
			rows = append(rows, figureRow{fmt.Sprintf("round %d, %s: k rows/s", i+1, p.name), "%.1f", more, func(f *loadFigures) float64 {
				return perSecond(f.phases[i].rows, f.phases[i].took) / 1e3
			}})
		}
		break
	}
	cpu := func(us float64) float64 {
		if us == 0 {
			return math.NaN()
		}
		return us
	}
	rows = append(
		rows,
		figureRow{"server CPU s to the last acknowledgement", "%.2f", 0, func(f *loadFigures) float64 { return cpu(f.cpu.Seconds()) }},
		figureRow{"server CPU s until quiet", "%.2f", 0, func(f *loadFigures) float64 { return cpu(f.settled.Seconds()) }},
		figureRow{"us CPU/row to the last acknowledgement", "%.3f", less, func(f *loadFigures) float64 { return cpu(perRow(f.cpu, f.rows)) }},
		figureRow{"us CPU/row until quiet", "%.3f", less, func(f *loadFigures) float64 { return cpu(perRow(f.settled, f.rows)) }},
		figureRow{"client CPU us/row", "%.3f", 0, func(f *loadFigures) float64 { return perRow(f.clientCPU, f.rows) }},
		figureRow{"peak anonymous MB", "%.0f", less, func(f *loadFigures) float64 { return mbOf(f.anon) }},
		figureRow{"peak resident MB", "%.0f", less, func(f *loadFigures) float64 { return mbOf(f.peak) }},
		figureRow{"written MB", "%.0f", less, func(f *loadFigures) float64 { return mbOf(f.written) }},
		figureRow{"disk MB after the load", "%.1f", 0, func(f *loadFigures) float64 { return mbOf(f.disk) }},
		figureRow{"disk MB when quiet", "%.1f", less, func(f *loadFigures) float64 { return mbOf(f.diskSettled) }},
		figureRow{"of it the write-ahead log", "%.1f", 0, func(f *loadFigures) float64 {
			if f.diskSettled == 0 {
				return math.NaN()
			}
			return mb(f.logSettled)
		}},
		figureRow{"bytes/value", "%.3f", less, func(f *loadFigures) float64 {
			if f.values == 0 || f.diskSettled == 0 {
				return math.NaN()
			}
			return float64(f.diskSettled) / float64(f.values)
		}},
	)
	if results[0].workload == "hicard" {
		rows = append(rows, figureRow{"bytes/series", "%.1f", less, func(f *loadFigures) float64 {
			return float64(f.diskSettled) / float64(f.phases[0].rows)
		}})
	}
	seconds := func(s float64) float64 {
		if s == 0 {
			return math.NaN()
		}
		return s
	}
	return append(
		rows,
		figureRow{"s from the last acknowledgement until quiet", "%.0f", 0, func(f *loadFigures) float64 {
			if f.diskSettled == 0 {
				return math.NaN()
			}
			return f.settledTook.Seconds()
		}},
		figureRow{"writes sent again for lack of memory", "%.0f", 0, func(f *loadFigures) float64 { return float64(f.retries) }},
		figureRow{"stop s", "%.2f", 0, func(f *loadFigures) float64 { return seconds(f.stop.Seconds()) }},
		figureRow{"start to serving s", "%.2f", less, func(f *loadFigures) float64 { return seconds(f.ready.Seconds()) }},
		figureRow{"start to first answer s", "%.2f", less, func(f *loadFigures) float64 { return seconds(f.first.Seconds()) }},
		figureRow{"anonymous MB after the start", "%.0f", less, func(f *loadFigures) float64 { return mbOf(f.anonRestarted) }},
	)
}

// times renders how much better ours is than the best of others; empty if
// there is nothing to compare.
func times(ours, best float64, better int) string {
	ratio := best / ours
	if better == more {
		ratio = ours / best
	}
	if better == 0 || math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return ""
	}
	return ratioText(ratio)
}

// ratioText renders two digits or more.
func ratioText(ratio float64) string {
	switch {
	case ratio < 0.0995:
		return fmt.Sprintf("%.2g", ratio)
	case ratio < 9.95:
		return fmt.Sprintf("%.2f", ratio)
	}
	return fmt.Sprintf("%.0f", ratio)
}

// best returns the better one, of which NaN is none.
func best(a, b float64, better int) float64 {
	if math.IsNaN(a) || !math.IsNaN(b) && (b-a)*float64(better) > 0 {
		return b
	}
	return a
}

// header writes the head of a table with a column of each server.
func header(w io.Writer, first string, results []*result) error {
	names, rule := []string{first}, []string{"---"}
	for _, r := range results {
		names, rule = append(names, r.product.title()), append(rule, "--:")
	}
	if len(results) > 1 {
		names, rule = append(names, "times better"), append(rule, "--:")
	}
	_, err := fmt.Fprintf(w, "| %s |\n|%s|\n", strings.Join(names, " | "), strings.Join(rule, "|"))
	return err
}

func line(w io.Writer, cells []string) error {
	_, err := fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	return err
}

// loaded returns the results that have figures of a load.
func loaded(results []*result) (out []*result) {
	for _, r := range results {
		if r.load != nil {
			out = append(out, r)
		}
	}
	return out
}

// writeLoad writes the table of a load and what was wrong in it. The first
// result is held against the best of the others.
func writeLoad(w io.Writer, results []*result) error {
	results = loaded(results)
	if len(results) == 0 {
		return nil
	}
	errs := []error{header(w, "load", results)}
	for _, row := range loadRows(results) {
		cells := []string{row.name}
		peers, ours, known := math.NaN(), math.NaN(), false
		for i, r := range results {
			v := row.value(r.load)
			if i == 0 {
				ours = v
			} else {
				peers = best(peers, v, row.better)
			}
			if math.IsNaN(v) {
				cells = append(cells, "-")
				continue
			}
			known = true
			cells = append(cells, fmt.Sprintf(row.format, v))
		}
		if len(results) > 1 {
			cells = append(cells, times(ours, peers, row.better))
		}
		if known {
			errs = append(errs, line(w, cells))
		}
	}
	for _, r := range results {
		if r.load.wrongCount != "" {
			errs = append(errs, note(w, r, "rows", r.load.wrongCount))
		}
		if !r.load.quiet && r.load.diskSettled > 0 {
			errs = append(errs, note(w, r, "load", "did not become quiet in time; its settled figures are of that moment"))
		}
	}
	return errors.Join(errs...)
}

func note(w io.Writer, r *result, about, text string) error {
	_, err := fmt.Fprintf(w, "\n- %s, %s: %s\n", r.product.name, about, text)
	return err
}

// writeQueries writes the table of the queries and what was wrong in answers. CPU times
// are compared: they repeat better than others.
func writeQueries(w io.Writer, results []*result) error {
	var with []*result
	for _, r := range results {
		if len(r.queries) > 0 {
			with = append(with, r)
		}
	}
	if len(with) == 0 {
		return nil
	}
	errs := []error{header(w, "query: mean / p50 / p99 ms (CPU ms)", with)}
	for i, q := range with[0].queries {
		cells := []string{q.name}
		peers, ours := math.NaN(), math.NaN()
		for j, r := range with {
			if i >= len(r.queries) || r.queries[i].skipped {
				cells = append(cells, "-")
				continue
			}
			f := r.queries[i]
			if f.latency.n == 0 {
				cells = append(cells, "error")
				continue
			}
			l := f.latency
			text := fmt.Sprintf("%.2f / %.2f / %.2f (%.2f, n=%d, %d B)", ms(l.mean), ms(l.p50), ms(l.p99), ms(f.cpu), l.n, f.bytes)
			if f.wrong != "" {
				text = "WRONG " + text
			} else if j == 0 {
				ours = ms(f.cpu)
			} else {
				peers = best(peers, ms(f.cpu), less)
			}
			cells = append(cells, text)
		}
		if len(with) > 1 {
			cells = append(cells, times(ours, peers, less))
		}
		errs = append(errs, line(w, cells))
	}
	for _, r := range with {
		for _, q := range r.queries {
			if q.wrong != "" {
				errs = append(errs, note(w, r, q.name, q.wrong))
			}
		}
	}
	return errors.Join(errs...)
}

// writeSmall writes the tables of small requests. The first result is held
// against the best of the others that are databases, and against the limit.
func writeSmall(w io.Writer, results []*result) error {
	errs := []error{header(w, "k rows/s (mean / p99 ms)", results)}
	for i, size := range results[0].small {
		cells := []string{size.name()}
		peers := math.NaN()
		for j, r := range results {
			if i >= len(r.small) {
				cells = append(cells, "-")
				continue
			}
			f := r.small[i]
			if j > 0 && !r.product.limit {
				peers = best(peers, f.perSecond, more)
			}
			text := fmt.Sprintf("%.2f (%.2f / %.2f)", f.perSecond/1e3, ms(f.latency.mean), ms(f.latency.p99))
			if r.product.limit {
				text += ", " + times(size.perSecond, f.perSecond, more)
			}
			if f.rejected > 0 {
				text += fmt.Sprintf(", %d rejected", f.rejected)
			}
			cells = append(cells, text)
		}
		if len(results) > 1 {
			cells = append(cells, times(size.perSecond, peers, more))
		}
		errs = append(errs, line(w, cells))
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	errs = append(errs, header(w, "server CPU us/row", results))
	for i, size := range results[0].small {
		cells := []string{size.name()}
		peers := math.NaN()
		for j, r := range results {
			if i >= len(r.small) || r.small[i].cpu == 0 {
				cells = append(cells, "-")
				continue
			}
			us := r.small[i].cpu.Seconds() * 1e6
			if j > 0 && !r.product.limit {
				peers = best(peers, us, less)
			}
			cells = append(cells, fmt.Sprintf("%.2f", us))
		}
		if len(results) > 1 {
			cells = append(cells, times(size.cpu.Seconds()*1e6, peers, less))
		}
		errs = append(errs, line(w, cells))
	}
	return errors.Join(errs...)
}
