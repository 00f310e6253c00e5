//go:build linux

package clustertest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/testkit/testseed"
)

// TestMoveFailover sends writes and moves to all nodes in turn, while the leader is killed.
// All nodes give the same answer, where each point is at the place that the moves give it.
func TestMoveFailover(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, env: small})
	c.nodes[0].must("", "CREATE DATABASE db")
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	want := map[apptest.Point]apptest.Place{}
	var done [apptest.Kinds]int
	at := int64(0)
	step := func(n int, nodes []*node) {
		via := nodes[r.IntN(len(nodes))]
		var body strings.Builder
		for range 50 {
			at++
			p := apptest.Point{Host: fmt.Sprintf("h%d", r.IntN(3)), Time: at%3*int64(7*24*time.Hour) + at}
			name := []string{"a", "b"}[r.IntN(2)]
			body.WriteString(p.Line(name))
			want[p] = apptest.Place{Name: name, Field: "v"}
		}
		via.write("db", body.String())
		move := apptest.NthMove(r, n)
		moved := maps.Clone(want)
		for p, place := range moved {
			moved[p] = move.Apply(p.Host, place)
		}
		if c.move(nodes[r.IntN(len(nodes))], move, want, moved) {
			done[move.Kind]++
			want = moved
		}
	}
	const each = 12
	for round := range 2 {
		for i := range each {
			step(2*round*each+i, c.nodes)
		}
		l := c.leader()
		killed := make(chan struct{})
		go func() { defer close(killed); l.Kill() }()
		for i := range each {
			step((2*round+1)*each+i, c.others(l))
		}
		<-killed
		c.restart(l)
		c.healthy()
	}
	var answer string
	for _, n := range c.nodes {
		a, err := n.query(t.Context(), "db", apptest.SelectPlaces)
		if err != nil || a.status != http.StatusOK {
			c.fatalf("%s: %d %s %v", n.name, a.status, a.body, err)
		}
		found, err := apptest.Places(a.body)
		if err != nil {
			c.fatalf("%s: %v", n.name, err)
		}
		if !maps.Equal(found, want) {
			for p, place := range want {
				if found[p] != place {
					t.Logf("%s has %v at %+v, want %+v", n.name, p, found[p], place)
				}
			}
			c.fatalf("%s has %d points, not the %d that were written, or not where they should be", n.name, len(found), len(want))
		}
		if answer != "" && a.body != answer {
			c.fatalf("the answer of %s is\n%.2000s\nand that of %s\n%.2000s", n.name, a.body, c.nodes[0].name, answer)
		}
		answer = a.body
	}
	t.Logf("%d points, %v moves of each kind", len(want), done)
	if slices.Contains(done[:], 0) {
		t.Errorf("%v moves of each kind, want some of all", done)
	}
	c.verify()
	c.stop()
}

// move sends a move to a node until it has an answer, and returns whether it was made.
// If the answer is an error, the points tell: an earlier request may have made the move.
func (c *cluster) move(n *node, m apptest.Move, before, after map[apptest.Point]apptest.Place) (made bool) {
	c.t.Helper()
	var a answer
	c.await(m.Query, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var err error
		if a, err = n.query(ctx, "db", m.Query); err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("%d %s", a.status, a.body)
		}
		return err
	})
	if !strings.Contains(a.body, `"error"`) {
		return true
	}
	c.await("the points after a move that failed", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a, err := n.query(ctx, "db", apptest.SelectPlaces, "consistency", "strong")
		if err != nil || a.status != http.StatusOK {
			return fmt.Errorf("%d %s %w", a.status, a.body, err)
		}
		found, err := apptest.Places(a.body)
		if err != nil {
			return err
		}
		if made = maps.Equal(found, after); !made && !maps.Equal(found, before) {
			c.fatalf("%s has parts of %s", n.name, m.Query)
		}
		return nil
	})
	return made
}
