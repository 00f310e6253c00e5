package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tsdbd/query/admission"
)

// TestEnded runs queries of each type of value, and failures, and sees what is reported at
// their ends: a sample is a row.
func TestEnded(t *testing.T) {
	e := newEngine(t, admission.Limits{}, nil, "up,job=a value=1 0\nup,job=b value=1 0\nup,job=a value=2 60")
	var got []string
	e.opt.Queries.Ended = func(q *admission.Ended) {
		got = append(got, fmt.Sprintf("%s %s %s: %s rows=%d failed=%t", q.Language, q.Database, q.User, q.Text, q.Rows, q.Failed))
	}
	gone := errors.New("gone")
	for _, c := range []struct {
		expr  string
		step  time.Duration
		begin func() error
	}{
		{"up", 0, nil},
		{"up", time.Minute, nil},
		{"up[2m]", 0, nil},
		{"sort(up)", 0, nil},
		{"1 + 1", 0, nil},
		{`"a"`, 0, nil},
		{"up{", 0, nil},
		{"up", 0, func() error { return gone }},
	} {
		req := &Request{Access: Access{DB: "db", RP: "rp", User: "ann"}, Expr: c.expr, Start: time.Unix(60, 0), End: time.Unix(60, 0), Step: c.step}
		if c.step > 0 {
			req.Start = time.Unix(0, 0)
		}
		_, _ = e.Run(t.Context(), req, &table{begin: c.begin})
	}
	want := []string{
		"promql db ann: up rows=2 failed=false",
		"promql db ann: up rows=4 failed=false",
		"promql db ann: up[2m] rows=3 failed=false",
		"promql db ann: sort(up) rows=2 failed=false",
		"promql db ann: 1 + 1 rows=1 failed=false",
		`promql db ann: "a" rows=1 failed=false`,
		"promql db ann: up{ rows=0 failed=true",
		"promql db ann: up rows=0 failed=true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", fmt.Sprintln(got))
	}
}
