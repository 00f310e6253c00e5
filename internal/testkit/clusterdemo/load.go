package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"tsdbd/exchange"
)

const (
	database    = "demo"
	measurement = "load"
	// batch points go every batchInterval, to the nodes in turn.
	batch         = 10
	batchInterval = 50 * time.Millisecond
	// requestTimeout is how long a node may take before the next one is asked.
	requestTimeout = 2 * time.Second
	// longPause is a pause of the acknowledgements that is an event.
	longPause = time.Second
)

// load writes points and counts the acknowledged ones.
type load struct {
	nodes  []*node
	events *events
	http   *http.Client

	mu           sync.Mutex
	acknowledged int
	repeated     int // requests
	longest      time.Duration
	last         time.Time // of an acknowledgement
}

func newLoad(nodes []*node, events *events) *load {
	return &load{nodes: nodes, events: events, http: &http.Client{Timeout: requestTimeout}}
}

func (l *load) summary() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("load: %d points acknowledged, %d requests repeated, longest pause of acknowledgements %s",
		l.acknowledged, l.repeated, l.longest.Round(10*time.Millisecond))
}

// run writes until ctx ends. A batch that is not acknowledged is sent again, to
// the next node: it is stored once, because its points are the same.
func (l *load) run(ctx context.Context) {
	ticker := time.NewTicker(batchInterval)
	defer ticker.Stop()
	turn := 0
	try := func(f func(c *exchange.Client) error) bool {
		for ctx.Err() == nil {
			n := l.nodes[turn%len(l.nodes)]
			turn++
			if f(&exchange.Client{URL: n.url(), HTTP: l.http}) == nil {
				return true
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
		return false
	}
	made := try(func(c *exchange.Client) error {
		return c.Ask(ctx, http.MethodPost, "/query", url.Values{"q": {"CREATE DATABASE " + database}}, nil, nil, nil)
	})
	if !made {
		return
	}
	l.events.add("the load begins")
	for at := time.Now().UnixNano(); ctx.Err() == nil; at += batch {
		var lines strings.Builder
		for i := range batch {
			fmt.Fprintf(&lines, "%s,writer=w%d v=%di %d\n", measurement, i, at, at+int64(i))
		}
		tries := 0
		done := try(func(c *exchange.Client) error {
			tries++
			return c.Write(ctx, database, "", "", []byte(lines.String()))
		})
		if done {
			l.acknowledge(tries - 1)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// acknowledge counts a batch.
func (l *load) acknowledge(repeated int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if pause := now.Sub(l.last); !l.last.IsZero() {
		l.longest = max(l.longest, pause)
		if pause >= longPause {
			l.events.add("writes are acknowledged again, after %s", pause.Round(10*time.Millisecond))
		}
	}
	l.last = now
	l.acknowledged += batch
	l.repeated += repeated
}

// found returns how many points a node finds, or why it does not say.
func (l *load) found(ctx context.Context, n *node) string {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c := &exchange.Client{URL: n.url(), HTTP: l.http}
	var answer struct {
		Results []struct {
			Series []struct{ Values [][]json.Number }
		}
	}
	err := c.Ask(ctx, http.MethodGet, "/query", url.Values{"db": {database}, "epoch": {"ns"}, "q": {"SELECT count(v) FROM " + measurement}}, nil, nil, &answer)
	switch {
	case err != nil:
		return "no answer"
	case len(answer.Results) == 0 || len(answer.Results[0].Series) == 0:
		return "0"
	}
	return answer.Results[0].Series[0].Values[0][1].String()
}
