package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"tsdbd/exchange"
	"tsdbd/services/scrub"
)

const (
	// healWait is how long scrub waits until what it has found is healed.
	healWait = 5 * time.Minute
	// scrubTimeout is how long a node may take to say how far it is.
	scrubTimeout = 30 * time.Second
	// scrubPoll is the time between two looks at a scrub.
	scrubPoll = 200 * time.Millisecond
)

// scrub has each node read all its files, one after the other, and prints what was found.
func (a *clusterAsk) scrub(ctx context.Context, nodes []*exchange.Client, stdout io.Writer, p *progress) error {
	defer p.clear()
	var damaged, failed error
	for _, n := range nodes {
		st, err := a.scrubNode(ctx, n, p)
		p.clear()
		if err != nil {
			failed = errors.Join(failed, err) // the others are still asked
			continue
		}
		if a.asJSON {
			err = json.NewEncoder(stdout).Encode(st)
		} else {
			err = writeScrub(stdout, n.URL, st)
		}
		if err != nil {
			return err
		}
		if len(st.Problems) > 0 || slices.ContainsFunc(st.Damage, func(d scrub.Damage) bool { return !d.Healed }) {
			damaged = errDamaged
		}
	}
	return cmp.Or(failed, damaged)
}

// scrubNode has a node read all its files, and waits until that is done and what may be healed
// soon is healed.
func (a *clusterAsk) scrubNode(ctx context.Context, n *exchange.Client, p *progress) (*scrub.Status, error) {
	ask := func(method string) (*scrub.Status, error) {
		ctx, cancel := context.WithTimeout(ctx, scrubTimeout)
		defer cancel()
		st := new(scrub.Status)
		return st, n.Ask(ctx, method, scrub.Path, nil, nil, nil, st)
	}
	st, err := ask(http.MethodPost)
	begun := st.Started
	for end := time.Now().Add(a.wait); err == nil && (st.Running || st.Healing && time.Now().Before(end)); {
		if st.Running {
			end = time.Now().Add(a.wait)
			p.show("%s: %s read, %s", n.URL, mib(st.Bytes), st.Part)
		} else {
			p.show("%s: damage is healed", n.URL)
		}
		select {
		case <-time.After(scrubPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if st, err = ask(http.MethodGet); err == nil && !st.Started.Equal(begun) {
			err = fmt.Errorf("%s was started again meanwhile: ask it once more", n.URL)
		}
	}
	return st, err
}

// writeScrub writes what a scrub of a node has found.
func writeScrub(w io.Writer, node string, st *scrub.Status) error {
	outcome := "sound"
	for _, d := range st.Damage {
		state := "healed"
		if !d.Healed {
			state, outcome = "NOT healed", "DAMAGED"
		}
		at := ""
		if d.Offset >= 0 {
			at = fmt.Sprintf(" at offset %d", d.Offset)
		}
		if _, err := fmt.Fprintf(w, "%s%s: %s: %s\n", d.Path, at, d.Reason, state); err != nil {
			return err
		}
	}
	for _, part := range slices.Sorted(maps.Keys(st.Problems)) {
		outcome = cmp.Or(map[string]string{"sound": "NOT read as a whole"}[outcome], outcome)
		if _, err := fmt.Fprintf(w, "%s: %s\n", part, st.Problems[part]); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: %s; %s read\n", node, outcome, mib(st.Bytes))
	return err
}
