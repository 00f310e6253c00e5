//go:build linux

package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tsdbd/cold"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/testkit/apptest"
)

// chilled returns why a node has not the shards in the store that it should have.
func (n *node) chilled(shards int) error {
	var st cold.Status
	a, err := n.ask(context.Background(), http.MethodPost, cold.Path, url.Values{"do": {"sweep"}}, "", 0)
	if err == nil {
		a, err = n.ask(context.Background(), http.MethodGet, cold.Path, nil, "", 0)
	}
	if err == nil {
		err = json.Unmarshal([]byte(a.body), &st)
	}
	if err == nil && (len(st.Shards) != shards || st.Problem != "") {
		err = fmt.Errorf("%s has %d shards in the store, want %d; problem %q", n.name, len(st.Shards), shards, st.Problem)
	}
	return err
}

// TestCold has three nodes share a cold store: files with equal content are there once, late
// rows and deletes are the same on all, and neither the kill of the leader nor a node that
// begins again without data loses anything. A reader follows.
func TestCold(t *testing.T) {
	t.Parallel()
	bucket := objecttest.NewServer(t)
	place := "s3://" + objecttest.Bucket + "/p"
	access := []string{"TSDBD_COLD_ENDPOINT=" + bucket.URL, "TSDBD_COLD_PATH_STYLE=true", "TSDBD_COLD_ACCESS_KEY=a", "TSDBD_COLD_SECRET_KEY=b"}
	c := start(t, setup{nodes: 3, env: slices.Concat([]string{"TSDBD_COLD_URL=" + place, "TSDBD_COLD_AFTER=1h", "TSDBD_COLD_GRACE=1m"}, access, small)})
	c.nodes[0].must("", "CREATE DATABASE db")
	var b strings.Builder
	for i := range 20_000 { // three weeks
		fmt.Fprintf(&b, "cpu,host=h%d v=%di,f=%g %d\n", i%5, i, float64(i)/7, 1_500_000_000_000_000_000+int64(i)*60_000_000_000)
	}
	c.nodes[1].write("db", b.String())
	for _, n := range c.nodes {
		c.await("cold shards", func() error { return n.chilled(3) })
	}
	isFile := func(key string) bool { return strings.HasSuffix(key, ".tsm") }
	files := slices.DeleteFunc(bucket.Keys(t, "p/objects/"), func(key string) bool { return !isFile(key) })
	if len(files) != 3 {
		t.Errorf("three nodes with equal shards have %d objects, want 3", len(files))
	}
	reader := apptest.New(t, "-reader", place)
	reader.Env = access
	reader.Restart()
	questions := []string{
		"SELECT count(v), sum(f) FROM cpu GROUP BY host", "SELECT percentile(f, 90) FROM cpu WHERE host = 'h3'",
		"SELECT v FROM cpu WHERE host = 'h2' LIMIT 5",
	}
	same := func(what string) {
		t.Helper()
		for _, q := range questions {
			var answers []string
			c.await(what, func() error {
				answers = nil
				for _, n := range c.nodes {
					a, err := n.query(context.Background(), "db", q)
					if err != nil {
						return err
					}
					answers = append(answers, a.body)
				}
				answers = append(answers, reader.Query("db", q))
				if len(slices.Compact(slices.Clone(answers))) > 1 || strings.Contains(answers[0], "error") {
					return fmt.Errorf("%s: %s: the nodes and the reader say %q", what, q, answers)
				}
				return nil
			})
		}
	}
	same("cold shards")

	c.nodes[0].write("db", "cpu,host=late v=1i 1500000000000000001\n")
	c.nodes[2].must("db", "DELETE FROM cpu WHERE host = 'h1' AND time < 1500100000000000000")
	l := c.leader()
	l.Kill()
	for _, n := range c.others(l) {
		c.await("cold shards after the end of the leader", func() error { return n.chilled(3) })
	}
	c.restart(l)
	c.healthy()
	c.await("cold shards of the old leader", func() error { return l.chilled(3) })
	same("late rows and a delete")
	c.verify()

	// A node that has lost its data copies that of another node, but cold files stay cold: it reads
	// their tails in the bucket.
	n := c.follower()
	n.Kill()
	n.wipe()
	c.others(n)[0].expel(n.name)
	reader.Stop()
	var total int64
	for _, key := range bucket.Keys(t, "p/objects/") {
		if isFile(key) {
			total += int64(len(bucket.Object(t, key)))
		}
	}
	reads, bytes := bucket.Reads.Load(), bucket.ReadBytes.Load()
	c.restart(n)
	c.healthy()
	c.await("cold shards of the new node", func() error { return n.chilled(3) })
	reads, bytes = bucket.Reads.Load()-reads, bucket.ReadBytes.Load()-bytes
	t.Logf("a node that begins again: %d reads of %d bytes of the bucket, which has %d", reads, bytes, total)
	var fetched, left int64
	_, said, _ := strings.Cut(n.Log(), "state transfer ends")
	_, said, _ = strings.Cut(said, "fetched=")
	// A tenth are tails. A shard whose deleted rows are taken out meanwhile is read whole.
	if _, err := fmt.Sscanf(said, "%d cold=%d", &fetched, &left); err != nil || left == 0 || fetched > left/4 || bytes > total/2 || reads > 30 {
		t.Errorf("a node that begins again reads %d bytes in %d requests of the bucket, which has %d, and %d of another node; %d are cold, %v\n%s", bytes, reads, total, fetched, left, err, n.Log())
	}
	reader.Restart()
	same("a new node")
	c.verify()

	// Every object that a node needs is there.
	for _, n := range c.nodes {
		a, err := n.ask(context.Background(), http.MethodPost, cold.Path, url.Values{"do": {"verify"}}, "", 0)
		var report cold.Report
		if err = errors.Join(err, json.Unmarshal([]byte(a.body), &report)); err != nil || len(report.Problems) > 0 || report.Objects != 3 {
			t.Errorf("%s: %s, %v", n.name, a.body, err)
		}
	}
	lists := bucket.Keys(t, "p/cold/names/")
	if len(lists) != 3 || len(bucket.Keys(t, "p/cold/states/")) == 0 {
		t.Errorf("lists of three nodes: %q", lists)
	}
	c.stop()
}
