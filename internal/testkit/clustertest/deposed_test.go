//go:build linux

package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestDeposedLeader cuts off a leader that is given new series and fields meanwhile.
// The others elect another leader and use the same series and fields, with other
// types. The old leader forgets its own and follows again.
func TestDeposedLeader(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: *size, proxies: true, env: small})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.nodes[0].write("db", "m,s=old v=1i 1")
	c.healthy()
	for round := range 2 {
		old := c.leader()
		rest := c.others(old)
		minority := append([]*node{old}, rest[:c.mayFail()-1]...)
		c.network.Partition(namesOf(minority)...)
		rest = c.others(minority...)
		// None of these can be acknowledged: the old leader has no majority.
		answers := make(chan error, 20)
		for i := range cap(answers) {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				a, err := old.post(ctx, "db", fmt.Sprintf("p%d,s=%d v=%di,other=%di 1\np%d,phantom=%d v=1i 2", round, i, i, i, round, i))
				if err == nil && a.status == http.StatusNoContent {
					answers <- fmt.Errorf("round %d: the lonely leader %s acknowledged a write", round, old.name)
					return
				}
				if err == nil && a.status != http.StatusServiceUnavailable {
					answers <- fmt.Errorf("round %d: the lonely leader %s answers %d %.300s", round, old.name, a.status, a.body)
					return
				}
				answers <- nil
			}()
		}
		// The same fields get other types here.
		for i := range 30 {
			rest[i%2].write("db", fmt.Sprintf("p%d,s=%d v=\"text\",other=%d.5 1\np%d,real=%d v=\"x\" 3", round, i, i, round, i))
		}
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Error(err) // every one of them was answered, nobody waits for ever
			}
		}
		if old.Ended() {
			t.Errorf("round %d: the old leader has ended:\n%s", round, tail(old.Log()))
		}
		c.network.HealAll()
		c.await("a healthy cluster", func() error {
			c.resume()
			return c.unhealthy()
		})
		for _, n := range c.nodes {
			q := fmt.Sprintf("SELECT count(v), count(other) FROM p%d", round)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			a, err := n.query(ctx, "db", q)
			cancel()
			if err != nil || !strings.Contains(a.body, `[0,60,30]`) {
				t.Errorf("round %d: %s at %s: %s %v, want 60 and 30", round, q, n.name, a.body, err)
			}
			if a, err := n.query(context.Background(), "db", fmt.Sprintf("SHOW TAG VALUES FROM p%d WITH KEY = phantom", round)); err != nil || strings.Contains(a.body, "phantom") {
				t.Errorf("round %d: series that were never acknowledged are at %s: %s %v", round, n.name, a.body, err)
			}
		}
		// A new series at the old leader's turn gets an id that nobody has.
		old.administer("transfer-leader", map[string][]string{"name": {old.name}}, nil)
		old.write("db", fmt.Sprintf("p%d,after=%d v=\"y\" 4", round, round))
		c.healthy()
		c.verify()
	}
	c.crash()
	c.verify()
	c.stop()
}

// crash kills all nodes and starts them again: they read their logs back.
func (c *cluster) crash() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.Kill()
	}
	c.restart(c.nodes...)
	c.healthy()
}
