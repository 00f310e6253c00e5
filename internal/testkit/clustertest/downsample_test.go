//go:build linux

package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
)

// TestDownsampleFailover kills the leader while it computes windows. The next one goes
// on: in the end the target has what the source gives, and all nodes have the same.
func TestDownsampleFailover(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, env: small})
	n := c.nodes[0]
	// All windows of a shard group are computed, also where it is empty.
	n.must("", "CREATE DATABASE db WITH SHARD DURATION 1h NAME autogen")
	n.must("", "CREATE RETENTION POLICY tier ON db DURATION INF REPLICATION 1 SHARD DURATION 1h")
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	body := func() string {
		var b strings.Builder
		for range 200 {
			fmt.Fprintf(&b, "m,w=%d v=%di %d\n", rnd.IntN(7), rnd.IntN(1000), rnd.Int64N(20_000)*1e8)
		}
		return b.String()
	}
	for range 20 {
		n.write("db", body())
	}
	n.must("db", "CREATE DOWNSAMPLE ON db FROM autogen INTO tier EVERY 1s AS count, max")
	for range 2 {
		for range 10 {
			n.write("db", body())
			from := rnd.Int64N(2000)
			n.must("db", fmt.Sprintf("DELETE FROM m WHERE w = '%d' AND time >= %ds AND time < %ds", rnd.IntN(7), from, from+rnd.Int64N(50)))
		}
		l := c.leader()
		n = c.others(l)[0]
		l.Kill()
		n.write("db", body())
		c.restart(l)
		c.healthy()
	}
	rows := func(q string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer, err := n.read(ctx, "db", q, 0, "consistency", "strong")
		if err != nil {
			return "", err
		}
		b, err := json.Marshal(answer)
		return string(b), err
	}
	c.await("the target has what the source gives", func() error {
		want, err := rows("SELECT count(v) AS count_v, max(v) AS max_v FROM autogen.m WHERE time >= 0 AND time < 3000s GROUP BY time(1s), w fill(none)")
		if err != nil {
			return err
		}
		got, err := rows("SELECT count_v, max_v FROM tier.m GROUP BY w")
		if err == nil && got != want {
			err = fmt.Errorf("%d bytes of answer, want %d", len(got), len(want))
		}
		return err
	})
	c.await("nothing is waiting", func() error {
		for _, n := range c.nodes {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if a, err := n.query(ctx, "", "SHOW DOWNSAMPLES"); err != nil || !strings.Contains(a.body, `Z",0,1,`) {
				return fmt.Errorf("%s: %s %w", n.name, a.body, err)
			}
		}
		return nil
	})
	c.verify()
	c.stop()
}

// TestExpiryFailover kills leaders while they compute what expired shard groups of a source have,
// and drop them. The nodes that are left have the raw rows of each group, or all windows of
// it: no group goes before a majority has its windows.
func TestExpiryFailover(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, env: append([]string{"TSDBD_RETENTION_CHECK_INTERVAL=100ms", "TSDBD_QUERY_USE_DOWNSAMPLES=off"}, small...)})
	n := c.nodes[0]
	const groups, rows = 8, 300 // rows in a group
	n.must("", "CREATE DATABASE db WITH SHARD DURATION 1h NAME raw")
	n.must("", "CREATE RETENTION POLICY tier ON db DURATION INF REPLICATION 1 SHARD DURATION 7d")
	for g := range groups {
		var b strings.Builder
		for i := range rows {
			fmt.Fprintf(&b, "m,w=%d v=1i %d\n", i%7, int64(g*3600+i*12)*1e9)
		}
		n.write("db", b.String())
	}
	n.must("db", "CREATE DOWNSAMPLE ON db FROM raw INTO tier EVERY 1s AS count")
	n.must("db", "ALTER RETENTION POLICY raw ON db DURATION 1h")
	count := func(n *node, q string, g int) (int64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer, err := n.read(ctx, "db", fmt.Sprintf("%s WHERE time >= %ds AND time < %ds", q, g*3600, (g+1)*3600), 0, "consistency", "strong")
		if err != nil || len(answer.Series) == 0 {
			return 0, err
		}
		have, _ := integer(answer.Series[0].Values[0][1])
		return have, nil
	}
	// left returns how many groups there are.
	left := func(n *node) (raw int, err error) {
		for g := range groups {
			have, err := count(n, "SELECT count(v) FROM raw.m", g)
			if err != nil {
				return 0, err
			}
			if have == rows {
				raw++
				continue
			}
			if have != 0 { // nothing deletes single rows
				c.fatalf("group %d has %d rows", g, have)
			}
			have, err = count(n, "SELECT sum(count_v) FROM tier.m", g)
			if err != nil {
				return 0, err
			}
			if have != rows {
				c.fatalf("group %d has gone, and the target counts %d rows, want %d", g, have, rows)
			}
		}
		return raw, nil
	}
	// Leaders are killed as soon as there is something to expire: one that computes, or drops.
	for kills, before := 0, groups; before > 0; kills++ {
		if kills < 2 {
			l := c.leader()
			n = c.others(l)[0]
			l.Kill()
			c.await("what the others have", func() (err error) {
				before, err = left(n)
				return err
			})
			c.restart(l)
			c.healthy()
		}
		if before == 0 {
			break
		}
		c.await("a group goes", func() error {
			raw, err := left(n)
			if err == nil && raw == before {
				err = fmt.Errorf("%d groups", raw)
			}
			before = raw
			return err
		})
	}
	c.verify()
	c.stop()
}
