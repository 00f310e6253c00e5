package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/meta"
	"tsdbd/store"
)

// TestTagsOfManyShards compares what SHOW TAG KEYS and SHOW TAG VALUES find in
// shards that share some of their series with the tags that were written.
func TestTagsOfManyShards(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 41))
	dir := t.TempDir()
	st := openStore(t, dir)
	if err := st.Apply(t.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	type point struct {
		tags  map[string]string
		shard int
	}
	var points []point
	for round := range 2 {
		if round > 0 { // what was written goes to files
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			st = openStore(t, dir)
		}
		var lines strings.Builder
		for range 150 {
			p := point{map[string]string{"a": fmt.Sprint("v", rnd.IntN(30))}, rnd.IntN(9)}
			key := "m,a=" + p.tags["a"]
			for _, k := range []string{"b", "c"} {
				if rnd.IntN(4) == 0 {
					p.tags[k] = fmt.Sprint("w", rnd.IntN(12))
					key += "," + k + "=" + p.tags[k]
				}
			}
			points = append(points, p)
			fmt.Fprintf(&lines, "%s v=1 %d\n", key, p.shard*7*24*3600+rnd.IntN(1000))
		}
		writeLines(t, st, lines.String())
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 60 {
		var terms []string
		matches := func(point) bool { return true }
		if rnd.IntN(2) == 0 {
			k, v := []string{"a", "b", "c"}[rnd.IntN(3)], fmt.Sprint([]string{"v", "w"}[rnd.IntN(2)], rnd.IntN(12))
			terms = append(terms, fmt.Sprintf("%s = '%s'", k, v))
			matches = func(p point) bool { return p.tags[k] == v }
		}
		first := rnd.IntN(9)
		if rnd.IntN(2) == 0 {
			terms = append(terms, fmt.Sprintf("time >= %ds", first*7*24*3600))
		} else {
			first = 0
		}
		where := ""
		if len(terms) > 0 {
			where = " WHERE " + strings.Join(terms, " AND ")
		}
		values, keys := map[string]bool{}, map[string]bool{}
		for _, p := range points {
			if p.shard < first || !matches(p) {
				continue
			}
			for k, v := range p.tags {
				keys[k] = true
				values[k+" "+v+" "] = true
			}
		}
		want := slices.Sorted(maps.Keys(values))
		limit, offset := 1+rnd.IntN(60), rnd.IntN(10)
		want = want[min(offset, len(want)):min(offset+limit, len(want))]
		tagsWant(t, st, seed, fmt.Sprintf("SHOW TAG VALUES WITH KEY =~ /./%s LIMIT %d OFFSET %d", where, limit, offset), want)
		want = want[:0]
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			want = append(want, k+" ")
		}
		tagsWant(t, st, seed, "SHOW TAG KEYS"+where, want)
	}
}

func tagsWant(t *testing.T, st *store.Store, seed uint64, text string, want []string) {
	t.Helper()
	var got []string
	for _, table := range firstRowsStatement(t, st, text) {
		got = append(got, table[1:]...)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: %s gives\n%q, want\n%q", seed, text, got, want)
	}
}
