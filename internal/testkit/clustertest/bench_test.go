//go:build linux

package clustertest

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/load"
)

var (
	benchRuns   = flag.Int("bench-runs", 0, "runs of TestBench; 0: it measures nothing")
	benchRows   = flag.Int("bench-rows", load.DevopsHosts*load.DevopsSteps, "rows of each load of TestBench")
	benchSmall  = flag.Int("bench-small", 1000, "writes of one row of TestBench; a tenth as many of 10,000 rows")
	benchMissed = flag.Int("bench-missed", 5_000_000, "rows that a node of TestBench misses; 0: none")
	benchReport = flag.String("bench-report", "", "page that TestBench puts its figures into")
)

// TestBench writes the same to a server of its own and to a cluster, in turn, and compares
// processor time and latency. Then a node catches up on what it has missed. It needs an
// idle machine.
func TestBench(t *testing.T) {
	if *benchRuns == 0 {
		t.Skip("measures with -bench-runs")
	}
	devops, regular := devopsBodies(*benchRows), regularBodies(*benchRows)
	f := newFigures()
	for range *benchRuns {
		// What was written is in files at the end, of all servers.
		env := []string{"TSDBD_DATA_FLUSH_IDLE=1s"}
		c := prepare(t, setup{nodes: 1, env: env})
		c.nodes[0].Args = nil
		c.nodes[0].Restart()
		n := c.nodes[0]
		f.load("devops", "one", n, nil, devops)
		f.load("regular", "one", n, nil, regular)
		f.requests("one", n, devops)
		c.stop()

		c = start(t, setup{nodes: 3, env: env})
		leader := c.leader()
		others := c.others(leader)
		f.load("devops", "leader", leader, others, devops)
		f.load("regular", "leader", leader, others, regular)
		f.load("devops", "follower", others[0], []*node{leader, others[1]}, devops)
		f.requests("leader", leader, devops)
		f.requests("follower", others[0], devops)
		f.reads(leader, others[0])
		c.verify()
		c.stop()
	}
	if *benchMissed > 0 {
		f.catchUp(t, "by the log")
		f.catchUp(t, "by files", "TSDBD_CLUSTER_LOG_MAX_SIZE=1MiB")
	}
	f.publish(t)
	f.check(t)
}

// devopsBodies returns requests of 5,000 rows of the devops load.
func devopsBodies(rows int) (bodies []string) {
	g := load.NewDevops(load.DevopsHosts, rows/load.DevopsHosts)
	for {
		b, n := g.Next(nil, 5000)
		if n == 0 {
			return bodies
		}
		bodies = append(bodies, string(b))
	}
}

// regularBodies returns requests of 5,000 rows of 100 series that have two short tags, so
// that a server has little to parse, and values that repeat.
func regularBodies(rows int) (bodies []string) {
	for at := 0; at < rows; at += 5000 {
		var b strings.Builder
		for i := at; i < min(at+5000, rows); i++ {
			h, t := i%100, i/100
			fmt.Fprintf(&b, "cpu,host=host_%d,region=eu-%d a=%di,b=%di,c=%di,d=%di,e=%di,f=%di,g=%di,h=%di,i=%di,j=%di %d\n", h, h%7,
				(t*7+h)%100, (t*3+h)%100, t%97, (h*t)%89, t%60, (t/60)%100, (t*11)%100, h, (t+h)%13, (t*17)%100, load.DevopsTime(t))
		}
		bodies = append(bodies, b.String())
	}
	return bodies
}

// load writes requests to a node, four at a time, into a database of their own.
func (f *figures) load(what, at string, to *node, others []*node, bodies []string) {
	t := to.c.t
	t.Helper()
	db := what + "_" + at
	to.must("", "CREATE DATABASE "+db)
	nodes := append([]*node{to}, others...)
	quiet(t, nodes)
	before := cpuTimes(t, nodes)
	queue := make(chan string)
	var writers sync.WaitGroup
	began := time.Now()
	for range 4 {
		writers.Go(func() {
			for b := range queue {
				if err := to.insist(db, b); err != nil {
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
	f.rows[db] = append(f.rows[db], rows/time.Since(began).Seconds()/1000)
	quiet(t, nodes)
	var cpu []float64
	for i, after := range cpuTimes(t, nodes) {
		cpu = append(cpu, float64((after-before[i]).Microseconds())/rows)
	}
	f.cpu[db] = append(f.cpu[db], cpu)
}

// requests measures requests at a node, one after the other.
func (f *figures) requests(at string, n *node, bodies []string) {
	n.c.t.Helper()
	n.must("", "CREATE DATABASE requests")
	for i := range *benchSmall {
		d := n.post1("requests", fmt.Sprintf("small,host=a v=%di %d", i, i))
		if i >= *benchSmall/10 { // warm
			f.small[at] = append(f.small[at], d)
		}
	}
	for i := 0; i < *benchSmall/10 && 2*i+1 < len(bodies); i++ {
		d := n.post1("requests", bodies[2*i]+bodies[2*i+1])
		if i >= *benchSmall/100 {
			f.large[at] = append(f.large[at], d)
		}
		time.Sleep(20 * time.Millisecond) // the nodes share the processors of this machine
	}
}

// post1 returns how long a write takes, which must succeed.
func (n *node) post1(db, lines string) time.Duration {
	n.c.t.Helper()
	began := time.Now()
	a, err := n.post(context.Background(), db, lines)
	if err != nil || a.status != http.StatusNoContent {
		n.c.t.Fatalf("write: %d %s %v", a.status, a.body, err)
	}
	return time.Since(began)
}

// reads measures how long after its answer a write is seen at another node, while nothing
// else is written.
func (f *figures) reads(to, from *node) {
	t := to.c.t
	t.Helper()
	quiet(t, []*node{to, from})
	for i := range *benchSmall {
		to.post1("requests", fmt.Sprintf("seen v=1i %d", i))
		began := time.Now()
		for seen := int64(0); seen == 0; {
			var err error
			if seen, err = from.count("requests", fmt.Sprintf("SELECT count(v) FROM seen WHERE time = %d", i), 0); err != nil || time.Since(began) > patience {
				t.Fatalf("row %d is not seen at %s: %v", i, from.name, err)
			}
		}
		if i >= *benchSmall/10 {
			f.seen = append(f.seen, time.Since(began))
		}
		time.Sleep(5 * time.Millisecond) // so that no entry comes along
	}
}

// catchUp measures how long a node needs for what was written while it was down.
func (f *figures) catchUp(t *testing.T, how string, env ...string) {
	t.Helper()
	c := start(t, setup{nodes: 3, env: append(env, "TSDBD_DATA_FLUSH_IDLE=1s")})
	c.nodes[0].must("", "CREATE DATABASE db")
	away := c.follower()
	away.Kill()
	rest := c.others(away)
	(&cluster{t: t, nodes: rest, http: c.http}).fillDevops(*benchMissed)
	quiet(t, rest)
	s, err := rest[0].status()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.restart(away)
	c.await("what was missed", func() error {
		now, err := away.status()
		if err == nil && now.Applied < s.Applied {
			err = fmt.Errorf("%d of %d entries", now.Applied, s.Applied)
		}
		return err
	})
	f.missed = append(f.missed, missed{how, time.Since(began), cpuTimes(t, []*node{away})[0]})
	c.healthy()
	c.verify()
	c.stop()
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
