//go:build linux

package clustertest

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsdbd/cluster/admin"
	"tsdbd/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// electionTimeout is short in the short slice of the tests: they wait for elections.
var electionTimeout = flag.Duration("election-timeout", 300*time.Millisecond, "cluster.election-timeout of all nodes")

// steady is the setting of nodes whose leader must stay: on a busy machine a write to the disk
// may last as long as the short election timeout.
const steady = "TSDBD_CLUSTER_ELECTION_TIMEOUT=2s"

// size is how many nodes the tests of kills, cuts, power, and reads have.
var size = flag.Int("nodes", 3, "nodes of a cluster, 3 or 5, in the tests of what fails")

// mayFail is how many nodes may fail at a time.
func (c *cluster) mayFail() int { return (len(c.nodes) - 1) / 2 }

// patience is how long a test waits for a state. A machine under load needs it; a
// test that passes never waits so long.
const patience = 4 * time.Minute

// setup describes a cluster.
type setup struct {
	nodes   int
	proxies bool // nodes reach each other through a network with faults
	diskMiB int  // each node has a disk of its own, if there can be one
	seed    uint64
	env     []string
}

// small makes nodes flush, merge and trim their logs after little data.
var small = []string{
	"TSDBD_DATA_FLUSH_SIZE=1MiB", "TSDBD_DATA_FLUSH_IDLE=500ms", "TSDBD_DATA_COMPACT_AFTER=1s",
	"TSDBD_CLUSTER_LOG_MAX_SIZE=1MiB",
}

// cluster is some nodes and what is between them.
type cluster struct {
	t       testing.TB
	nodes   []*node
	network *network // nil: there is nothing between the nodes
	http    *http.Client
}

// node is a server process of a cluster.
type node struct {
	*apptest.Server
	name      string
	bind      string // where it listens for other nodes
	advertise string // where they reach it
	disk      *apptest.Disk
	restarted int // times that it had ended by itself
	c         *cluster
}

// prepare makes the nodes of a cluster without starting them.
func prepare(t testing.TB, s setup) *cluster {
	t.Helper()
	c := &cluster{t: t, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(c.http.CloseIdleConnections)
	if s.proxies {
		c.network = newNetwork(t, s.seed, func(name string) int { return c.named(name).Pid() })
	}
	for i := range s.nodes {
		c.add(fmt.Sprintf("n%d", i+1), s)
	}
	c.join(c.nodes...)
	return c
}

// add makes a node.
func (c *cluster) add(name string, s setup) *node {
	c.t.Helper()
	n := &node{name: name, bind: apptest.FreeAddress(c.t), c: c}
	if s.diskMiB > 0 { // before the server, which ends before its disk does
		var err error
		if n.disk, err = apptest.NewDisk(c.t, s.diskMiB); err != nil {
			c.t.Logf("no power is cut and no disk is full: %v", err)
		}
	}
	n.Server = apptest.New(c.t)
	if n.disk != nil {
		n.Dir = filepath.Join(n.disk.Dir, "data")
	}
	n.advertise = n.bind
	if c.network != nil {
		n.advertise = c.network.front(name, n.bind)
	}
	n.Env = append([]string{"TSDBD_CLUSTER_ELECTION_TIMEOUT=" + electionTimeout.String()}, s.env...)
	c.nodes = append(c.nodes, n)
	return n
}

// join gives the flags of a cluster to nodes. All of them have the same list.
func (c *cluster) join(nodes ...*node) {
	var list []string
	for _, n := range c.nodes {
		list = append(list, n.name+"="+n.advertise)
	}
	for _, n := range nodes {
		n.Args = []string{"-cluster-node", n.name, "-cluster-bind", n.bind, "-cluster-advertise", n.advertise, "-cluster-join", strings.Join(list, ",")}
	}
}

// start starts a cluster and waits until it is healthy.
func start(t testing.TB, s setup) *cluster {
	t.Helper()
	c := prepare(t, s)
	c.restart(c.nodes...)
	c.healthy()
	return c
}

// restart starts the processes of nodes together and waits until they listen.
func (c *cluster) restart(nodes ...*node) {
	c.t.Helper()
	for _, n := range nodes {
		n.Begin()
	}
	for _, n := range nodes {
		if err := n.Await(); err != nil {
			c.t.Fatalf("%s: %v", n.name, err)
		}
	}
}

// resume starts the nodes again whose processes have ended, as a supervisor does.
func (c *cluster) resume() {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.Ended() {
			n.restarted++
			c.t.Logf("%s had ended:\n%s", n.name, tail(n.Log()))
			c.restart(n)
		}
	}
}

func (c *cluster) named(name string) *node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// others returns all nodes but some.
func (c *cluster) others(without ...*node) (out []*node) {
next:
	for _, n := range c.nodes {
		for _, w := range without {
			if n == w {
				continue next
			}
		}
		out = append(out, n)
	}
	return out
}

// await waits until a condition holds. It fails the test with the last reason why
// not. The nodes' logs follow.
func (c *cluster) await(what string, condition func() error) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	c.fatalf("%s: not after %v: %v", what, patience, err)
}

// fatalf fails the test and shows the logs of all nodes.
func (c *cluster) fatalf(format string, args ...any) {
	c.t.Helper()
	var logs strings.Builder
	for _, n := range c.nodes {
		fmt.Fprintf(&logs, "\n--- %s, ended: %t\n%s", n.name, n.Ended(), tail(n.Log()))
		if dir := os.Getenv("TSDBD_CLUSTER_LOGS"); dir != "" {
			_ = os.WriteFile(filepath.Join(dir, n.name+".log"), []byte(n.Log()), 0o600)
		}
	}
	c.t.Fatalf(format+"%s", append(args, logs.String())...)
}

func tail(log string) string { return log[max(0, len(log)-3000):] }

// answer is what a node said.
type answer struct {
	status int
	header http.Header
	body   string
}

// position returns the position that an answer carries.
func (a answer) position() uint64 {
	n, _ := strconv.ParseUint(a.header.Get("X-Tsdbd-Position"), 10, 64)
	return n
}

// ask sends a request. An error means that there was no answer.
func (n *node) ask(ctx context.Context, method, path string, params url.Values, body string, position uint64) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, n.URL+path+"?"+params.Encode(), strings.NewReader(body))
	if err != nil {
		return a, err
	}
	if position > 0 {
		req.Header.Set("X-Tsdbd-Position", strconv.FormatUint(position, 10))
	}
	resp, err := n.c.http.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

// post writes lines.
func (n *node) post(ctx context.Context, db, lines string) (answer, error) {
	return n.ask(ctx, http.MethodPost, "/write", url.Values{"db": {db}}, lines, 0)
}

// query runs InfluxQL.
func (n *node) query(ctx context.Context, db, q string, more ...string) (answer, error) {
	params := url.Values{"db": {db}, "q": {q}, "epoch": {"ns"}}
	for i := 0; i+1 < len(more); i += 2 {
		params.Set(more[i], more[i+1])
	}
	return n.ask(ctx, http.MethodPost, "/query", params, "", 0)
}

// must runs InfluxQL on a node until it is done. The cluster may have no leader at
// the moment.
func (n *node) must(db, q string) {
	n.c.t.Helper()
	n.c.await(q, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a, err := n.query(ctx, db, q)
		if err == nil && (a.status != http.StatusOK || strings.Contains(a.body, `"error"`)) {
			err = fmt.Errorf("%d %s", a.status, a.body)
		}
		return err
	})
}

// write writes lines and retries until they are stored. It returns the position.
func (n *node) write(db, lines string) (position uint64) {
	n.c.t.Helper()
	n.c.await("write", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a, err := n.post(ctx, db, lines)
		if err == nil && a.status != http.StatusNoContent {
			err = fmt.Errorf("%d %.300s", a.status, a.body)
		}
		position = a.position()
		return err
	})
	return position
}

// table is an answer to a SELECT with one statement.
type table struct {
	Series []struct {
		Tags    map[string]string
		Columns []string
		Values  [][]any
	}
}

// read runs a SELECT on a node at a position or later.
func (n *node) read(ctx context.Context, db, q string, position uint64, more ...string) (*table, error) {
	params := url.Values{"db": {db}, "q": {q}, "epoch": {"ns"}}
	for i := 0; i+1 < len(more); i += 2 {
		params.Set(more[i], more[i+1])
	}
	a, err := n.ask(ctx, http.MethodPost, "/query", params, "", position)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Results []struct {
			table
			Error string
		}
	}
	d := json.NewDecoder(strings.NewReader(a.body))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil || a.status != http.StatusOK || len(doc.Results) != 1 || doc.Results[0].Error != "" {
		return nil, fmt.Errorf("query %q at %s: %d %.300s %w", q, n.name, a.status, a.body, err)
	}
	return &doc.Results[0].table, nil
}

// integer reads a number of an answer; false for null.
func integer(v any) (int64, bool) {
	number, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := number.Int64()
	return n, err == nil
}

// count returns the only number of an answer, 0 if it is empty.
func (n *node) count(db, q string, position uint64) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t, err := n.read(ctx, db, q, position)
	if err != nil || len(t.Series) == 0 {
		return 0, err
	}
	v, _ := integer(t.Series[0].Values[0][1])
	return v, nil
}

// status returns what a node knows of its cluster.
func (n *node) status() (*admin.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, err := n.ask(ctx, http.MethodGet, admin.Prefix+"status", nil, "", 0)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("status of %s: %d %.300s", n.name, a.status, a.body)
	}
	var s admin.Status
	return &s, json.Unmarshal([]byte(a.body), &s)
}

// administer sends a request that changes the cluster, or verifies it, and retries
// while the cluster refuses it for now.
func (n *node) administer(what string, params url.Values, to any) {
	n.c.t.Helper()
	n.c.await(what, func() error { return n.try(what, params, to) })
}

// expel removes a member. If the lead changes meanwhile, the answer can be an error though
// the member is gone; then the next try says that there is none of its name.
func (n *node) expel(name string) {
	n.c.t.Helper()
	tried := false
	n.c.await("remove "+name, func() error {
		err := n.try("remove", url.Values{"name": {name}}, nil)
		if tried && err != nil && strings.Contains(err.Error(), "no member has the name") {
			return nil
		}
		tried = true
		return err
	})
}

// try is administer, once.
func (n *node) try(what string, params url.Values, to any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := n.ask(ctx, http.MethodPost, admin.Prefix+what, params, "", 0)
	switch {
	case err != nil:
		return err
	case a.status != http.StatusOK:
		return fmt.Errorf("%s at %s: %d %.300s", what, n.name, a.status, a.body)
	case to == nil:
		return nil
	}
	return json.Unmarshal([]byte(a.body), to)
}

// leader returns the node that leads, as most nodes see it; it waits for one.
func (c *cluster) leader() (leader *node) {
	c.t.Helper()
	c.await("a leader", func() error {
		seen := map[string]int{}
		for _, n := range c.nodes {
			if s, err := n.status(); err == nil && s.Leader != "" {
				seen[s.Leader]++
			}
		}
		for name, times := range seen {
			if 2*times > len(c.nodes) {
				leader = c.named(name)
				return nil
			}
		}
		return fmt.Errorf("nodes see %v", seen)
	})
	return leader
}

// follower returns a node that does not lead.
func (c *cluster) follower() *node { return c.others(c.leader())[0] }

// healthy waits until all nodes are voters, see the same leader, miss nothing and
// complain of nothing.
func (c *cluster) healthy() {
	c.t.Helper()
	c.await("a healthy cluster", c.unhealthy)
}

// unhealthy returns why the cluster is not as it should be.
func (c *cluster) unhealthy() error {
	var applied uint64
	var leader string
	for _, n := range c.nodes {
		s, err := n.status()
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		if reasons := s.Degraded(); len(reasons) > 0 {
			return fmt.Errorf("%s: %s", n.name, strings.Join(reasons, "; "))
		}
		if leader = cmp.Or(leader, s.Leader); s.Leader != leader {
			return fmt.Errorf("%s sees leader %q, others %q", n.name, s.Leader, leader)
		}
		if len(s.Members) != len(c.nodes) {
			return fmt.Errorf("%s sees %d members, want %d", n.name, len(s.Members), len(c.nodes))
		}
		for _, m := range s.Members {
			if !m.Voter {
				return fmt.Errorf("%s sees that %s has no vote", n.name, m.Name)
			}
		}
		applied = max(applied, s.Applied)
	}
	for _, n := range c.nodes {
		if s, err := n.status(); err != nil || s.Applied < applied {
			return fmt.Errorf("%s has not applied %d yet: %+v, %w", n.name, applied, s, err)
		}
	}
	return nil
}

// verify compares the content of all nodes by their sums.
func (c *cluster) verify() {
	c.t.Helper()
	var v admin.Verification
	c.await("verify", func() error {
		v = admin.Verification{}
		if err := c.nodes[0].try("verify", nil, &v); err != nil {
			return err
		}
		if len(v.Nodes) != len(c.nodes) {
			return fmt.Errorf("sums of %d nodes, want %d", len(v.Nodes), len(c.nodes))
		}
		for _, n := range v.Nodes {
			if n.Error != "" {
				return fmt.Errorf("no sum of %s: %s", n.Name, n.Error)
			}
		}
		return nil
	})
	if !v.Equal || len(v.Differences) > 0 {
		c.fatalf("the content of the nodes differs: %+v", v)
	}
	for _, n := range v.Nodes[1:] {
		if n.Sum != v.Nodes[0].Sum || n.Sum == "" {
			c.fatalf("the sums of the nodes differ: %+v", v)
		}
	}
}

// stop ends all nodes with SIGTERM.
func (c *cluster) stop() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.Stop()
	}
}

// remove takes a node out of the test: its process is killed.
func (c *cluster) remove(n *node) {
	n.Kill()
	c.nodes = c.others(n)
}

// wipe removes the data of a node that does not run.
func (n *node) wipe() {
	n.c.t.Helper()
	if err := os.RemoveAll(n.Dir); err != nil {
		n.c.t.Fatal(err)
	}
}
