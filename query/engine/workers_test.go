package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/result"
)

// profiled runs a statement with counting cursors.
func profiled(t *testing.T, m *scantest.Store, q string, workers int) ([]string, *profile) {
	t.Helper()
	stmt, err := parseSelect(m, q)
	if err != nil {
		t.Fatal(err)
	}
	prof := &profile{}
	x := newExec(context.Background(), m, Options{
		Workers: workers, Now: time.Unix(1500400000, 0),
	})
	x.analyze(prof)
	defer x.release()
	run, err := x.plan(stmt)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	err = run.answer(func(r *result.Result) error {
		out = append(out, seriesTexts(r.Series)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, prof
}

// TestWorkers: an answer is the same to the last bit for any number of workers.
func TestWorkers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 5))
	m := scantest.New()
	m.ShardSpan = 24 * 3600e9
	m.ChunkRows = 1 + rnd.IntN(40)
	modelData(rnd, m, true)
	var queries []string
	where := " WHERE time >= 1500000000s AND time < 1500100000s"
	for _, fn := range []string{
		"f, i, host", "count(f), sum(f), mean(f)", "stddev(f), spread(i)", "min(f), host", "max(i), f", "first(f), host", "last(f), i",
		"median(f), mode(i)", "percentile(f, 90), host", "distinct(i)", "top(f, host, 3)", "bottom(f, 4), i", "integral(f)",
		"derivative(f)", "sum(f) / count(i)",
	} {
		queries = append(queries, "SELECT "+fn+" FROM m"+where, "SELECT "+fn+" FROM m"+where+" AND (f > 0 OR i < 5) GROUP BY host ORDER BY time DESC LIMIT 7")
		if !strings.Contains(fn, "f, i, host") && !strings.HasPrefix(fn, "derivative") {
			queries = append(queries, "SELECT "+fn+" FROM m"+where+" GROUP BY time(3h), host fill(none)")
		}
	}
	queries = append(queries, "SELECT mean(x) FROM (SELECT sum(f) AS x FROM m"+where+" GROUP BY time(1h), host) GROUP BY time(1d)")
	for _, q := range queries {
		want, _ := profiled(t, m, q, 1)
		if len(want) < 2 {
			t.Errorf("%s: only %q", q, want)
		}
		for workers := 2; workers <= 8; workers++ {
			if got, _ := profiled(t, m, q, workers); !slices.Equal(got, want) {
				t.Errorf("%s\n1 worker  %.500q\n%d workers %.500q", q, want, workers, got)
			}
		}
	}
}

// TestTouchesFewShards counts the shards and chunks that statements touch which
// need few of them.
func TestTouchesFewShards(t *testing.T) {
	m := scantest.New()
	m.ShardSpan = 24 * 3600e9
	m.ChunkRows = 10
	m.Create("d", "autogen")
	var lines strings.Builder
	const shards, perShard = 500, 60
	for day := range shards {
		for i := range perShard {
			fmt.Fprintf(&lines, "m,h=%c v=%d,w=%d %d\n", 'a'+i%3, day*perShard+i, i, day*86400+i*60)
		}
	}
	lines.WriteString("m,h=old v=-1 100\n") // in the first shard alone
	m.Write(t, "d", "", "s", lines.String())
	for _, c := range []struct {
		q             string
		shards        int
		chunks        int64 // at most
		decodedAtMost int64
		row           string // in the answer
	}{
		{"SELECT last(v) FROM m", 1, 3, 0, "[43117140000000000 29999]"},
		{"SELECT last(v), h FROM m", 1, 3, 3, ""},
		{"SELECT first(v) FROM m", 1, 4, 0, "[0 0]"},
		{"SELECT last(v) FROM m GROUP BY h LIMIT 1", shards, 3 + 3 + 1, 0, ""}, // old is looked for in all
		{"SELECT last(v) FROM m WHERE h = 'a'", 1, 1, 0, ""},
		{"SELECT v FROM m LIMIT 5", 1, 8, 8, ""},
		{"SELECT v FROM m ORDER BY time DESC LIMIT 5", 1, 3, 3, ""},
		{"SELECT v FROM m WHERE h = 'a' ORDER BY time DESC LIMIT 1", 1, 1, 0, ""},
		{"SELECT v FROM m WHERE v > 29950 AND time > 490d", 10, 10 * 6, 6, ""},
		{"SELECT count(v), sum(v), max(v) FROM m WHERE v > 29000", shards, shards*6 + 1, 3, ""},
		{"SELECT v FROM m WHERE time >= 3d AND time < 4d LIMIT 3", 1, 3, 3, ""},
		{"SELECT mean(v) FROM m WHERE time >= 0 AND time < 500d GROUP BY time(1d) LIMIT 2", 3, 3 * 7, 0, ""},
		{"SELECT x FROM (SELECT v AS x FROM m) LIMIT 3", 1, 8, 8, ""},
	} {
		rows, prof := profiled(t, m, c.q, 2)
		var chunks, decoded int64
		for _, sp := range prof.storage.Shards {
			chunks += sp.Chunks.Load()
			decoded += sp.Decoded.Load()
		}
		if len(prof.storage.Shards) > c.shards || chunks > c.chunks || decoded > c.decodedAtMost {
			t.Errorf("%s: %d shards, %d chunks, %d decoded; want at most %d, %d, %d", c.q, len(prof.storage.Shards), chunks, decoded, c.shards, c.chunks, c.decodedAtMost)
		}
		if len(rows) < 2 || !strings.Contains(fmt.Sprint(rows), strings.Trim(c.row, "[]")) {
			t.Errorf("%s: %q", c.q, rows)
		}
	}
}
