package cluster

import (
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestClockOffset(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	f := func(read, sent, received, want float64) {
		t.Helper()
		if got := clockOffset(at(read).UnixMicro(), at(sent), at(received)); got.Seconds() != want {
			t.Errorf("%v between %v and %v: %v", read, sent, received, got)
		}
	}
	f(1, 0, 2, 0)
	f(2, 0, 2, 0) // the answer was at once
	f(10, 0, 2, 8)
	f(-10, 0, 2, -10)
	f(5, 0, 0, 5)
	f(5, 9000, 0, 5) // the clock of this node was set back meanwhile
	for _, read := range []int64{0, math.MinInt64, math.MaxInt64} {
		for _, now := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			if got := clockOffset(read, now, now); got.Abs() > farthest {
				t.Errorf("%d at %v: %v", read, now, got)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	const h = time.Hour
	f := func(want string, voters int, ahead ...time.Duration) {
		t.Helper()
		clocks := []clock{{"n1", 0, true}}
		for i, a := range ahead {
			clocks = append(clocks, clock{"n" + string(rune('2'+i)), a, i < voters-1})
		}
		if got := judge(clocks, voters, time.Minute); got.text != want {
			t.Errorf("%v of %d: %q, want %q", ahead, voters, got.text, want)
		}
	}
	f("", 1)
	f("", 3, time.Second, -time.Minute)
	f("", 3, h, 0)
	f("", 3, 45*time.Second, 90*time.Second) // the middle one agrees with all
	f("its clock is 1h0m0s behind that of most voters: set it (NTP)", 3, h, h)
	f("its clock is 30m0s ahead of that of most voters: set it (NTP)", 3, -h/2, -h/2)
	f("its clock is 20454 days ahead of that of most voters: set it (NTP)", 3, -20454*24*h, -20454*24*h)
	f("its clock is decades behind that of most voters: set it (NTP)", 3, farthest, farthest)
	f("its clock is 1h0m0s behind that of n2, and no majority tells which is right: set both (NTP)", 2, h)
	f("its clock is 1h0m0s ahead of that of n2, and no majority tells which is right: set both (NTP)", 3, -h)
	f("its clock is 1h0m0s behind that of n2, and no majority tells which is right: set both (NTP)", 3, h, -h)
	f("", 5, 0, 0, h, h)
	f("its clock is 1h0m0s behind that of most voters: set it (NTP)", 5, h, h, h, 0)
	f("", 2, 0, h) // who has no vote does not count
	f("its clock is 1h0m0s behind that of most voters: set it (NTP)", 3, h, h, 0)
}

// skewed is a cluster whose nodes have clocks that the test sets.
func skewed(t *testing.T, names ...string) (*group, map[string]*atomic.Int64) {
	g := newGroup(t, names...)
	ahead := map[string]*atomic.Int64{}
	for _, name := range names {
		ahead[name] = new(atomic.Int64)
		g.server(name).options = func(o *Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead[name].Load())) }
		}
	}
	g.start(names...)
	g.voters(names...)
	g.create("n1", "d")
	g.done("n1", "POST transfer-leader?name=n1")
	return g, ahead
}

// told waits until the health of a server has a text. It is healthy.
func (g *group) told(name, want string) {
	g.t.Helper()
	g.await(name+" says of itself: "+want, func() bool {
		n, _ := g.servers[name].now()
		if n == nil {
			return false
		}
		ok, text := n.Health()
		return ok && strings.Contains(text, want)
	})
}

// keptLead checks that no leader has handed its lead over by itself.
func (g *group) keptLead() {
	g.t.Helper()
	g.log.Lock()
	defer g.log.Unlock()
	if strings.Contains(g.log.String(), "the leader hands the lead over") {
		g.t.Error("a leader has handed its lead over")
	}
}

// TestClockOfLeader sets the clock of a leader while it leads.
func TestClockOfLeader(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "since 1970": -time.Since(time.Unix(0, 0))} {
		t.Run(name, func(t *testing.T) {
			g, clocks := skewed(t, "n1", "n2", "n3")
			clocks["n1"].Store(int64(by))
			g.await("another node leads", func() bool { n, _ := g.servers["n1"].now(); return !n.Leads() && g.leader().name != "n1" })
			want := "that of most voters: set it (NTP)"
			g.problem("n2", "n1", want)
			g.problem("n1", "n1", want)
			g.told("n1", want)
			for _, name := range g.join {
				g.write(name, "d", 0, 10)
			}
			if status, text := g.answered("n2", "POST transfer-leader?name=n1", nil); status != http.StatusConflict || !strings.Contains(text, want) {
				t.Errorf("the lead for a node with a wrong clock: %d %s", status, text)
			}
			g.log.Lock()
			if text := g.log.String(); !strings.Contains(text, "the clocks of the nodes differ") || !strings.Contains(text, "the leader hands the lead over") {
				t.Error("the log does not say it")
			}
			g.log.Unlock()
			clocks["n1"].Store(0)
			g.done("n2", "POST transfer-leader?name=n1")
			g.leads("n1")
			g.equal("n1", "n2", "n3")
		})
	}
}

// TestClockOfFollower: a follower with a wrong clock takes part, also after a restart, and
// so does one that restarts while the leader cannot know whose clock is wrong.
func TestClockOfFollower(t *testing.T) {
	g, clocks := skewed(t, "n1", "n2", "n3")
	clocks["n3"].Store(int64(-time.Hour))
	const want = "its clock is 1h0m0s behind that of most voters"
	g.problem("n1", "n3", want)
	g.servers["n3"].stop()
	g.write("n1", "d", 0, 10)
	g.start("n3")
	g.voters("n1", "n2", "n3")
	g.told("n3", want)
	g.write("n3", "d", 10, 10)
	g.equal("n1", "n2", "n3")
	g.keptLead()
}

// TestTwoClocks: two nodes cannot tell whose clock is right. They say so and go on.
func TestTwoClocks(t *testing.T) {
	g, clocks := skewed(t, "n1", "n2")
	clocks["n1"].Store(int64(time.Hour))
	g.told("n1", "its clock is 1h0m0s ahead of that of n2, and no majority tells")
	g.told("n2", "its clock is 1h0m0s behind that of n1, and no majority tells")
	g.servers["n2"].stop()
	g.start("n2")
	g.voters("n1", "n2")
	g.write("n2", "d", 0, 10)
	g.equal("n1", "n2")
	g.keptLead()
}
