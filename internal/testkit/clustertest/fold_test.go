//go:build linux

package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestFoldFailover kills the leader while a statement makes series one whose aggregates nothing
// can compute again. All nodes have the folded rows then, and no staged ones.
func TestFoldFailover(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, env: small})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.nodes[0].must("db", "CREATE RETENTION POLICY hours ON db DURATION INF REPLICATION 1 DEFAULT")
	c.nodes[0].must("db", "CREATE DOWNSAMPLE ON db FROM autogen INTO hours EVERY 1h AS mean")
	const series, rows = 4, 3000
	for round := range 3 {
		name := fmt.Sprintf("m%d", round)
		for k := range series {
			var body strings.Builder
			for n := range rows {
				fmt.Fprintf(&body, "%s,h=%d count_v=1i,sum_v=%d %d\n", name, k, n, int64(n)*int64(time.Hour))
			}
			c.nodes[0].write("db", body.String())
		}
		l := c.leader()
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(time.Duration(round) * 20 * time.Millisecond)
			l.Kill()
		}()
		others := c.others(l)
		c.await("the fold", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			a, err := others[0].query(ctx, "db", fmt.Sprintf("UPDATE %s DROP TAG h", name))
			if err == nil && (a.status != http.StatusOK || strings.Contains(a.body, `"error"`)) {
				err = fmt.Errorf("%d %s", a.status, a.body)
			}
			return err
		})
		<-killed
		c.restart(l)
		c.healthy()
		// A leader deletes what another one has staged when it begins to lead.
		want := fmt.Sprintf(`,%d,%d,%d]]`, rows, series*rows, series*rows*(rows-1)/2)
		for _, n := range c.nodes {
			c.await("the folded rows", func() error {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				a, err := n.query(ctx, "db", fmt.Sprintf("SELECT count(count_v), sum(count_v), sum(sum_v) FROM %s", name))
				if err == nil && !strings.Contains(a.body, want) {
					err = fmt.Errorf("%s has %s, want %s", n.name, a.body, want)
				}
				if err != nil {
					return err
				}
				a, err = n.query(ctx, "db", "SHOW MEASUREMENTS")
				if err == nil && strings.Contains(a.body, "_fold:") {
					err = fmt.Errorf("%s has staged rows: %s", n.name, a.body)
				}
				return err
			})
		}
	}
	c.verify()
	c.stop()
}
