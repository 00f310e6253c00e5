//go:build linux

package clustertest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/load"
)

var (
	benchRuns   = flag.Int("bench-runs", 0, "runs of TestBench; 0: it measures nothing")
	benchRows   = flag.Int("bench-rows", load.DevopsHosts*load.DevopsSteps, "rows of TestBench")
	benchSmall  = flag.Int("bench-small", 1000, "writes of one row of TestBench")
	benchReport = flag.String("bench-report", "", "page that TestBench puts its figures into")
)

// figures are what one run measures of the servers of a kind.
type figures struct {
	cpu     [][]float64     // by run: microseconds a row of each server, the leader first
	rows    []float64       // thousands a second
	small   []time.Duration // writes of one row at the server, or the leader
	through []time.Duration // through a follower
}

// TestBench writes the devops workload to a server of its own and to the leader of a
// cluster, in turn, and compares processor time and latency. It needs an idle machine.
func TestBench(t *testing.T) {
	if *benchRuns == 0 {
		t.Skip("measures with -bench-runs")
	}
	g := load.NewDevops(load.DevopsHosts, *benchRows/load.DevopsHosts)
	var bodies []string
	for {
		b, n := g.Next(nil, 5000)
		if n == 0 {
			break
		}
		bodies = append(bodies, string(b))
	}
	single, three := &figures{}, &figures{}
	for range *benchRuns {
		// What was written is in files at the end, of all servers.
		env := []string{"TSDBD_DATA_FLUSH_IDLE=1s"}
		c := prepare(t, setup{nodes: 1, env: env})
		c.nodes[0].Args = nil
		c.nodes[0].Restart()
		single.measure(c, c.nodes, bodies)
		c.stop()
		c = start(t, setup{nodes: 3, env: env})
		leader := c.leader()
		three.measure(c, append([]*node{leader}, c.others(leader)...), bodies)
		c.verify()
		c.stop()
	}
	text := report(single, three)
	t.Log("\n" + text)
	if *benchReport != "" {
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
	one, lead, follow := mean(single.cpu, 0), mean(three.cpu, 0), max(mean(three.cpu, 1), mean(three.cpu, 2))
	if lead > 1.4*one || follow > 0.75*one {
		t.Errorf("the leader takes %.2f of the time of a single node, want 1.4 at most; a follower %.2f, want 0.75", lead/one, follow/one)
	}
	if p := percentile(three.small, 50); p > 3*time.Millisecond && p > 5*percentile(single.small, 50) {
		t.Errorf("a write of one row takes %v at the median", p)
	}
}

// measure loads the servers through the first one.
func (f *figures) measure(c *cluster, nodes []*node, bodies []string) {
	t := c.t
	t.Helper()
	nodes[0].must("", "CREATE DATABASE db")
	quiet(t, nodes)
	before := cpuTimes(t, nodes)
	queue := make(chan string)
	var writers sync.WaitGroup
	began := time.Now()
	for range 4 {
		writers.Go(func() {
			for b := range queue {
				if err := nodes[0].insist(b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, b := range bodies {
		queue <- b
	}
	close(queue)
	writers.Wait()
	rows := float64(*benchRows)
	f.rows = append(f.rows, rows/time.Since(began).Seconds()/1000)
	quiet(t, nodes)
	var cpu []float64
	for i, after := range cpuTimes(t, nodes) {
		cpu = append(cpu, float64((after-before[i]).Microseconds())/rows)
	}
	f.cpu = append(f.cpu, cpu)
	f.small = append(f.small, latencies(nodes[0])...)
	if len(nodes) > 1 {
		f.through = append(f.through, latencies(nodes[1])...)
	}
}

// latencies measures writes of one row, one after the other.
func latencies(n *node) (all []time.Duration) {
	n.c.t.Helper()
	for i := range *benchSmall {
		began := time.Now()
		a, err := n.post(context.Background(), "db", fmt.Sprintf("small,host=a v=%di %d", i, i))
		if err != nil || a.status != http.StatusNoContent {
			n.c.t.Fatalf("write: %d %s %v", a.status, a.body, err)
		}
		if i >= *benchSmall/10 { // warm
			all = append(all, time.Since(began))
		}
	}
	return all
}

// cpuTimes returns the processor time of servers.
func cpuTimes(t testing.TB, nodes []*node) (all []time.Duration) {
	t.Helper()
	for _, n := range nodes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Pid()))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		var ticks int64
		for _, field := range fields[11:13] { // user and system
			v, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			ticks += v
		}
		all = append(all, time.Duration(ticks)*10*time.Millisecond)
	}
	return all
}

// quiet waits until servers have flushed and merged: for two seconds each uses less than
// a twentieth of a processor.
func quiet(t testing.TB, nodes []*node) {
	t.Helper()
	sum := func() (s time.Duration) {
		for _, c := range cpuTimes(t, nodes) {
			s += c
		}
		return s
	}
	var used time.Duration
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := sum()
		time.Sleep(2 * time.Second)
		if used = sum() - before; used < time.Duration(len(nodes))*100*time.Millisecond {
			return
		}
	}
	t.Fatalf("the servers do not come to rest: %v in two seconds", used)
}

func mean(runs [][]float64, server int) (m float64) {
	for _, r := range runs {
		m += r[server] / float64(len(runs))
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

// report returns the figures as a table.
func report(single, three *figures) string {
	var b strings.Builder
	average := func(v []float64) (m float64) {
		for _, x := range v {
			m += x / float64(len(v))
		}
		return m
	}
	one := mean(single.cpu, 0)
	fmt.Fprintf(&b, "\n%d runs of %d rows of 10 integers on %s.\n\n", len(single.cpu), *benchRows, time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintln(&b, "| | one server | leader | followers |\n|---|--:|--:|--:|")
	fmt.Fprintf(&b, "| CPU time per row, merges included, us | %.2f | %.2f | %.2f, %.2f |\n", one, mean(three.cpu, 0), mean(three.cpu, 1), mean(three.cpu, 2))
	fmt.Fprintf(&b, "| of one server | 1 | %.2f | %.2f, %.2f |\n", mean(three.cpu, 0)/one, mean(three.cpu, 1)/one, mean(three.cpu, 2)/one)
	fmt.Fprintf(&b, "| thousand rows per second, all processes on this machine | %.0f | %.0f | |\n", average(single.rows), average(three.rows))
	for _, p := range []int{50, 99} {
		round := func(d []time.Duration) time.Duration { return percentile(d, p).Round(10 * time.Microsecond) }
		fmt.Fprintf(&b, "| write of one row, %d %% | %v | %v | %v |\n", p, round(single.small), round(three.small), round(three.through))
	}
	b.WriteByte('\n')
	return b.String()
}
