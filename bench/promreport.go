package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// writeProm writes the report of PromQL.
func (r *report) writeProm(w io.Writer, results []*promResult) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# PromQL: tsdbd, Prometheus and VictoriaMetrics\n\nWritten by `make bench-e2e`. The same series go by remote write to all servers of this machine. Then each query is asked of\nall of them in turn.\n\n| | |\n|---|---|\n")
	r.machine(&b)
	fmt.Fprintf(&b, "\n| server | version | settings that differ from its defaults |\n|---|---|---|\n")
	for _, p := range r.products {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.name, p.version, p.settings)
	}
	fmt.Fprintf(&b, `
Each query is asked over one connection, each panel of a dashboard over one of its own, for %v in each of up to %d rounds.
In each round the servers come in another order. "CPU" is what the clock of the server's process counts for one query,
"wall" the shortest and the middle time until the whole answer is read, "peak" the most resident memory of the process while
it answers. "x Prometheus" and "x VictoriaMetrics" are how many times the CPU time of tsdbd theirs is, in bold below 1. The
last table has these figures once more, and those of loads.

A request of remote write has one sample of up to %d series, and the first scrape is of new series. "bytes/sample" counts the
whole directory, logs included; Prometheus has the last two to three hours in its log only. VictoriaMetrics takes no remote
write 2.0, and is asked with `+"`nocache=1`"+`.

The answers are compared. Samples without jitter lie %v behind the times that are asked for: no sample is on the bound of a
window, which belongs to it in Prometheus 2 and not in Prometheus 3. So tsdbd must answer what Prometheus answers, except for
a relative difference of %g from sums in another order. VictoriaMetrics' rate means something else: there half of the values
may differ by no more than %.0f %%. All else must be equal, and the last samples of all series must be what was written.
`, promSlot, promRounds, promRequestSeries, promShift, promLastDigits, 100*promRoughly)
	for _, res := range results {
		if len(res.loads)+len(res.queries) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s, %s\n\n", res.size.name, res.state)
		writePromLoads(&b, res)
		writePromQueries(&b, res)
	}
	writePromBehind(&b, results)
	_, err := io.WriteString(w, b.String())
	return err
}

// writePromBehind lists the figures in which the best peer is better than tsdbd.
func writePromBehind(b *strings.Builder, results []*promResult) {
	fmt.Fprintf(b, "\n## Where a peer is better\n\n| data | figure | tsdbd | best peer | times better |\n|---|---|--:|--:|--:|\n")
	for _, res := range results {
		// less is better in all of them; a figure of 0 is none.
		row := func(name string, of func(server int) (string, float64), n int) {
			ours, peer, peers := 0.0, "", math.NaN()
			for i := range n {
				server, v := of(i)
				if server == "tsdbd" {
					ours = v
				} else if v > 0 && best(peers, v, less) == v {
					peer, peers = server, v
				}
			}
			if peers < ours {
				fmt.Fprintf(b, "| %s, %s | %s | %s | %s %s | %s |\n", res.size.name, res.state, name, number(ours), peer, number(peers), times(ours, peers, less))
			}
		}
		for _, f := range []struct {
			name string
			of   func(*promLoad) float64
		}{
			{"remote write of new series, us CPU/sample", func(l *promLoad) float64 { return perRow(l.fresh, l.first) }},
			{"remote write of known series, us CPU/sample", func(l *promLoad) float64 { return perRow(l.cpu-l.fresh, l.samples-l.first) }},
			{"until quiet after a restart, us CPU/sample", func(l *promLoad) float64 { return perRow(l.settled, l.samples) }},
			{"bytes/sample", func(l *promLoad) float64 { return float64(l.disk) / float64(l.samples) }},
		} {
			row(f.name, func(i int) (string, float64) { return res.loads[i].server, f.of(&res.loads[i]) }, len(res.loads))
		}
		for _, q := range res.queries {
			row(q.name+", CPU ms", func(i int) (string, float64) {
				if q.of[i].wrong != "" {
					return q.of[i].server, 0
				}
				return q.of[i].server, ms(q.of[i].perQuery())
			}, len(q.of))
		}
	}
}

func writePromLoads(b *strings.Builder, res *promResult) {
	if len(res.loads) == 0 {
		return
	}
	fmt.Fprintf(b, "| load by remote write | k samples/s | us CPU/sample | new series | known series | until quiet after a restart | bytes/sample |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, l := range res.loads {
		quiet := ""
		if !l.quiet {
			quiet = " (not quiet)"
		}
		fmt.Fprintf(b, "| %s | %.0f | %.2f | %.2f | %.2f | %.2f%s | %.2f |\n", l.server, perSecond(l.samples, l.took)/1e3, perRow(l.cpu, l.samples),
			perRow(l.fresh, l.first), perRow(l.cpu-l.fresh, l.samples-l.first), perRow(l.settled, l.samples), quiet, float64(l.disk)/float64(l.samples))
	}
	fmt.Fprintln(b)
}

func writePromQueries(b *strings.Builder, res *promResult) {
	if len(res.queries) == 0 {
		return
	}
	fmt.Fprintf(b, "| query | server | CPU ms | wall ms | answer kB | peak MB | x Prometheus | x VictoriaMetrics |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	var wrong []string
	for _, q := range res.queries {
		name := q.name
		for _, f := range q.of {
			if f.wrong != "" {
				wrong = append(wrong, fmt.Sprintf("%s, %s: %s", q.name, f.server, f.wrong))
			}
			times := " | "
			if f.server == "tsdbd" {
				times = q.text("prometheus") + " | " + q.text("victoria-metrics")
			}
			if f.asked == 0 {
				fmt.Fprintf(b, "| %s | %s | failed | | | | %s |\n", name, f.server, times)
			} else {
				l := summary(f.wall)
				fmt.Fprintf(b, "| %s | %s | %s | %s / %s | %.1f | %.0f | %s |\n", name, f.server, number(ms(f.perQuery())), number(ms(slices.Min(f.wall))), number(ms(l.p50)), float64(f.bytes)/1e3, mb(f.peak), times)
			}
			name = ""
		}
	}
	for _, text := range wrong {
		fmt.Fprintf(b, "\n**wrong**: %s\n", text)
	}
}

// times returns how many times the CPU time of tsdbd that of a peer is, 0 if tsdbd
// failed; false if the peer did.
func (fs *promFigures) times(peer string) (float64, bool) {
	var ours, theirs *promFigure
	for _, f := range fs.of {
		switch f.server {
		case "tsdbd":
			ours = f
		case peer:
			theirs = f
		}
	}
	switch {
	case ours == nil || theirs == nil || theirs.wrong != "" || theirs.asked == 0:
		return 0, false
	case ours.wrong != "" || ours.asked == 0:
		return 0, true
	}
	return float64(theirs.perQuery()) / max(float64(ours.perQuery()), 1), true
}

// text is the cell of a peer, in bold if it is better.
func (fs *promFigures) text(peer string) string {
	times, ok := fs.times(peer)
	switch {
	case !ok:
		return ""
	case times < 1:
		return "**" + ratioText(times) + "**"
	}
	return ratioText(times)
}
