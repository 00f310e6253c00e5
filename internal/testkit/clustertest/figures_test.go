//go:build linux

package clustertest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// figures are what TestBench measures.
type figures struct {
	// By load and node that it is sent to, such as devops_leader, and by run:
	cpu  map[string][][]float64 // microseconds a row of each server: that one, then the others
	rows map[string][]float64   // thousands a second
	// Latencies of one row and of 10,000, by node that they are sent to.
	small, large map[string][]time.Duration
	seen         []time.Duration
	missed       []missed
}

// missed is what a node needed for rows that it had missed.
type missed struct {
	how       string
	took, cpu time.Duration
}

func newFigures() *figures {
	return &figures{cpu: map[string][][]float64{}, rows: map[string][]float64{}, small: map[string][]time.Duration{}, large: map[string][]time.Duration{}}
}

// of returns the mean processor time of a server in a load.
func (f *figures) of(load string, server int) (m float64) {
	for _, r := range f.cpu[load] {
		m += r[server] / float64(len(f.cpu[load]))
	}
	return m
}

func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)*p/100, len(all)-1)]
}

// check compares the figures with the goals.
func (f *figures) check(t *testing.T) {
	t.Helper()
	goal := func(what string, got, want float64) {
		if got > want {
			t.Errorf("%s: %.2f, want %.2f at most", what, got, want)
		}
	}
	for _, load := range []string{"devops", "regular"} {
		one := f.of(load+"_one", 0)
		goal(load+": CPU time of the leader in that of one server", f.of(load+"_leader", 0)/one, 1.2)
		goal(load+": CPU time of a follower in that of one server", max(f.of(load+"_leader", 1), f.of(load+"_leader", 2))/one, .75)
	}
	goal("a write of one row, in ms", percentile(f.small["leader"], 50).Seconds()*1000, 1)
	goal("a write of 10,000 rows in that at one server", percentile(f.large["leader"], 50).Seconds()/percentile(f.large["one"], 50).Seconds(), 1.5)
	goal("99 % of reads behind a write at another node, in ms", percentile(f.seen, 99).Seconds()*1000, 10)
	for _, m := range f.missed {
		goal("seconds for what was missed, "+m.how, m.took.Seconds(), 10)
	}
}

// publish logs the figures and puts them into the page.
func (f *figures) publish(t *testing.T) {
	t.Helper()
	text := f.report()
	t.Log("\n" + text)
	if *benchReport == "" {
		return
	}
	page, err := os.ReadFile(*benchReport)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- figures -->\n", "<!-- end of figures -->"
	before, rest, ok := strings.Cut(string(page), from)
	_, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for figures", *benchReport)
	}
	if err := os.WriteFile(*benchReport, []byte(before+from+text+to+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// report returns the figures as tables.
func (f *figures) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d runs of %d rows of 10 integers on %s.\n\n", *benchRuns, *benchRows, time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintln(&b, "| CPU time per row, merges included | one server | leader | followers | of one server |\n|---|--:|--:|--:|--:|")
	for _, l := range []struct {
		title, load, one    string
		leader, first, last int
	}{
		{"devops, sent to the leader", "devops_leader", "devops_one", 0, 1, 2},
		{"devops, sent to the first follower", "devops_follower", "devops_one", 1, 0, 2},
		{"regular, sent to the leader", "regular_leader", "regular_one", 0, 1, 2},
	} {
		one, lead, first, last := f.of(l.one, 0), f.of(l.load, l.leader), f.of(l.load, l.first), f.of(l.load, l.last)
		fmt.Fprintf(&b, "| %s, us | %.2f | %.2f | %.2f, %.2f | %.2f; %.2f, %.2f |\n", l.title, one, lead, first, last, lead/one, first/one, last/one)
	}
	fmt.Fprintln(&b, "\n| | one server | leader | through a follower |\n|---|--:|--:|--:|")
	fmt.Fprint(&b, "| thousand rows of devops per second, all processes on this machine |")
	for _, what := range []string{"devops_one", "devops_leader", "devops_follower"} {
		sum := 0.
		for _, r := range f.rows[what] {
			sum += r
		}
		fmt.Fprintf(&b, " %.0f |", sum/float64(len(f.rows[what])))
	}
	for _, p := range []int{50, 99} {
		for _, l := range []struct {
			title string
			all   map[string][]time.Duration
		}{{"one row", f.small}, {"10,000 rows", f.large}} {
			fmt.Fprintf(&b, "\n| write of %s, %d %% |", l.title, p)
			for _, at := range []string{"one", "leader", "follower"} {
				fmt.Fprintf(&b, " %v |", percentile(l.all[at], p).Round(10*time.Microsecond))
			}
		}
	}
	fmt.Fprintf(&b, "\n\nA row that the leader has acknowledged is in answers of a follower after %v in 50 %% of the cases, after %v in 99 %%.\n",
		percentile(f.seen, 50).Round(10*time.Microsecond), percentile(f.seen, 99).Round(10*time.Microsecond))
	if len(f.missed) > 0 {
		fmt.Fprintf(&b, "\n| %d rows missed | seconds, the start included | CPU seconds of the node |\n|---|--:|--:|\n", *benchMissed)
		for _, m := range f.missed {
			fmt.Fprintf(&b, "| %s | %.1f | %.1f |\n", m.how, m.took.Seconds(), m.cpu.Seconds())
		}
	}
	b.WriteByte('\n')
	return b.String()
}
