//go:build linux

package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/cluster/raftlog"
	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/vfs"
)

// oldEnough makes nodes say soon how old their answers are.
var oldEnough = []string{"TSDBD_CLUSTER_MAX_LAG=1s"}

// answersAlone waits until a node without a leader answers reads of all kinds with points
// of the measurement m, and holds what it refuses. behind says that it cannot know whether
// there is more. hold keeps the cluster as it is.
func (n *node) answersAlone(points int64, behind bool, reason string, hold func()) {
	n.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const count = "SELECT count(value) FROM m"
	n.c.await(n.name+" answers without a leader", func() error {
		hold()
		a, err := n.query(ctx, "db", count)
		if err == nil && (a.status != http.StatusOK || behind && a.header.Get("X-Tsdbd-Behind") == "") {
			err = fmt.Errorf("%d %v %s", a.status, a.header, a.body)
		}
		return err
	})
	field := func(number protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), b)
	}
	message := snappy.Encode(nil, field(1, append(
		protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1<<40),
		field(3, append(field(2, []byte("__name__")), field(3, []byte("m"))...))...)))
	for _, r := range []struct{ method, path, params, body, want string }{
		{"POST", "/query", "db=db&q=" + url.QueryEscape(count), "", fmt.Sprintf(",%d]", points)},
		{"GET", "/query", "db=db&consistency=stale&q=" + url.QueryEscape(count), "", fmt.Sprintf(",%d]", points)},
		{"GET", "/api/v1/query", "db=db&time=1000&query=" + url.QueryEscape("count_over_time(m[1000s])"), "", fmt.Sprintf(`"%d"`, points)},
		{"GET", "/api/v1/labels", "db=db", "", `"__name__"`},
		{"GET", "/api/v1/export", "db=db&match[]=m", "", `"__name__":"m"`},
		{"POST", "/api/v1/read", "db=db", string(message), ""},
	} {
		params, err := url.ParseQuery(r.params)
		if err != nil {
			n.c.t.Fatal(err)
		}
		a, err := n.ask(ctx, r.method, r.path, params, r.body, 0)
		text := a.body
		if r.want == "" && err == nil {
			var plain []byte
			plain, err = snappy.Decode(nil, []byte(a.body))
			text, r.want = string(plain), "__name__"
		}
		if err != nil || a.status != http.StatusOK || !strings.Contains(text, r.want) {
			n.c.fatalf("%s at %s: %d %.300q, %v; want %s", r.path, n.name, a.status, text, err, r.want)
		}
		text = a.header.Get("X-Tsdbd-Behind")
		if age, err := strconv.ParseFloat(text, 64); (behind || text != "") && (err != nil || age < 0 || age > 2*patience.Seconds()) {
			n.c.fatalf("%s at %s: behind %q", r.path, n.name, text)
		}
	}
	strong, err := n.query(ctx, "db", count, "consistency", "strong")
	// A disk that freed some bytes lets a leader be elected for a moment: what it says is right.
	led := !behind && strong.status == http.StatusOK && strings.Contains(strong.body, fmt.Sprintf(",%d]", points))
	if err != nil || strong.status != http.StatusServiceUnavailable && !led {
		n.c.fatalf("a strong read at %s: %d %s, %v", n.name, strong.status, strong.body, err)
	}
	n.c.await("a write is refused, with the reason", func() error {
		hold()
		a, err := n.post(ctx, "db", "late value=1 1")
		if err == nil && (a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, reason)) {
			err = fmt.Errorf("%d %s", a.status, a.body)
		}
		return err
	})
}

// points writes points of the measurement m through a node.
func (n *node) points(count int64) {
	n.c.t.Helper()
	var lines strings.Builder
	for i := range count {
		fmt.Fprintf(&lines, "m,__name__=m value=%d %d\n", i, (i+1)*1e9)
	}
	position := n.write("db", lines.String())
	for _, o := range n.c.nodes {
		if got, err := o.count("db", "SELECT count(value) FROM m", position); err != nil || got != count {
			n.c.fatalf("%d points at %s, %v", got, o.name, err)
		}
	}
}

// keepsCommit returns an error unless the log of a node, which nobody writes to, says that
// all of it is committed.
func (n *node) keepsCommit() error {
	r, err := raftlog.Inspect(vfs.OS, filepath.Join(n.Dir, "cluster", "log"), nil)
	if err == nil && (r.Committed == 0 || r.Committed+1 < r.Next) {
		err = fmt.Errorf("%d of %d entries at %s", r.Committed, r.Next-1, n.name)
	}
	return err
}

// TestOneNodeIsBack kills all nodes and starts one: it answers reads with everything that
// was acknowledged, and says how old that may be.
func TestOneNodeIsBack(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: *size, env: append(oldEnough, small...)})
	c.nodes[0].must("", "CREATE DATABASE db")
	const points = 500
	c.nodes[0].points(points)
	for _, n := range c.nodes {
		c.await("the log keeps what is committed", func() error { return n.keepsCommit() })
	}
	for _, n := range c.nodes {
		n.Kill()
	}
	back := c.nodes[1]
	c.restart(back)
	back.answersAlone(points, true, "the cluster has no leader now; ", func() {})
	c.restart(c.others(back)...)
	c.healthy()
	c.verify()
	c.stop()
}

// TestMostDisksFull fills the disks of the leader and of so many other nodes that no
// majority stores anything: all nodes answer reads, and go on when there is room.
func TestMostDisksFull(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: *size, diskMiB: 64, env: append(oldEnough, small...)})
	if c.nodes[0].disk == nil {
		t.Skip("there are no disks to fill")
	}
	c.nodes[0].must("", "CREATE DATABASE db")
	const points = 500
	c.nodes[0].points(points)
	leader := c.leader()
	full := append([]*node{leader}, c.others(leader)[:c.mayFail()]...)
	ballast := func(n *node) string { return filepath.Join(n.disk.Dir, "ballast") }
	fill := func() { // again and again, because nodes allocate ahead, and free what they need no more
		for _, n := range full {
			apptest.FillDisk(t, ballast(n))
		}
	}
	filler := strings.Repeat("filler value=1\n", 5000)
	sound := c.others(full...)[0]
	c.await("no write is taken, because of all that are full", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		fill()
		a, err := sound.post(ctx, "db", filler)
		for _, n := range full {
			if err == nil && !strings.Contains(a.body, n.name+": takes no writes: ") {
				err = fmt.Errorf("%d %s", a.status, a.body)
			}
		}
		return err
	})
	for _, n := range c.nodes { // some may know that nothing more was committed
		n.answersAlone(points, false, "takes no writes: ", fill)
	}
	for _, n := range full {
		if err := os.Remove(ballast(n)); err != nil {
			t.Fatal(err)
		}
	}
	c.healthy()
	c.nodes[0].write("db", "late value=1 1")
	c.verify()
	c.stop()
}
