package apptest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/query"
	"tsdbd/query/result"
	"tsdbd/store"
)

var stateQueries = flag.Int("state-queries", 300, "queries that TestStates asks in each state")

// stateServer is a store and an executor in process.
type stateServer struct {
	t  *testing.T
	st *store.Store
	ex *query.Executor
}

type stateAdmin struct{ *store.Store }

func openState(t *testing.T, dir string, opt store.Options) *stateServer {
	t.Helper()
	st, err := store.Open(dir, opt)
	// A process that another test starts has the lock of this one until it runs.
	for deadline := time.Now().Add(time.Minute); errors.Is(err, vfs.ErrLocked) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		st, err = store.Open(dir, opt)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &stateServer{t: t, st: st}
	s.ex = query.New(query.Options{Storage: stateAdmin{st}, Admin: stateAdmin{st}, Now: func() time.Time { return time.Unix(genStart+genSpan, 0) }})
	return s
}

func (s *stateServer) close() {
	s.t.Helper()
	if err := s.st.Close(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stateServer) write(lines string) {
	s.t.Helper()
	table, err := s.st.Table("d")
	if err != nil {
		s.t.Fatal(err)
	}
	var p lineproto.Parser
	b := &point.Batch{Database: table.Database()}
	if _, err := p.Parse(b, table, []byte(lines), lineproto.Options{Unit: 1e9}); err != nil {
		s.t.Fatal(err)
	}
	if err := s.st.Write(s.t.Context(), "d", "", b); err != nil {
		s.t.Fatal(err)
	}
}

// ask returns the answer as text.
func (s *stateServer) ask(q string) string {
	s.t.Helper()
	parsed, err := influxql.ParseQuery(q)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	err = s.ex.Execute(s.t.Context(), parsed, query.ExecuteOptions{Database: "d"}, func(r *result.Result) error {
		fmt.Fprintln(&b, "err", r.Err)
		for _, t := range r.Series {
			fmt.Fprintln(&b, t.Name, t.Tags, t.Columns)
			for i := range t.Rows {
				for c := range t.Values {
					b.WriteString(stateCell(&t.Values[c], i))
					b.WriteByte('\t')
				}
				b.WriteByte('\n')
			}
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}

func stateCell(v *column.Vector, i int) string {
	if v.Type == model.Unknown || !v.IsValid(i) {
		return "-"
	}
	switch v.Type {
	case model.Float:
		return fmt.Sprint(v.Floats[i])
	case model.Integer:
		return fmt.Sprint(v.Ints[i])
	case model.Unsigned:
		return fmt.Sprint(v.Uints[i])
	case model.String:
		return fmt.Sprintf("%q", v.Strings[i])
	}
	return fmt.Sprint(v.Bools[i])
}

// flush writes all caches to files.
func (s *stateServer) flush() {
	s.t.Helper()
	set, err := s.st.Backup(context.Background(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	set.Release()
}

// TestStates: an answer does not depend on where the rows are: in the cache, in
// one file or several that overlap, merged, before and after a restart.
func TestStates(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	g := &queryGen{rand.New(rand.NewPCG(seed, 12))}
	lines := strings.SplitAfter(g.lines(), "\n")
	g.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	third := len(lines) / 3
	parts := [][]string{lines[:third], lines[third : 2*third], lines[2*third:]}
	// The second and third part write some points again, with other values
	// of f.
	again := regexp.MustCompile(`\bf=-?`)
	for p := 1; p < 3; p++ {
		for _, line := range parts[p-1][:third/5] {
			parts[p] = append(parts[p], again.ReplaceAllString(line, "f=7"))
		}
	}
	queries := make([]string, *stateQueries)
	for i := range queries {
		queries[i] = g.query()
	}
	forget := fmt.Sprintf("DELETE FROM m1 WHERE h = 'h1' AND time < %ds", genStart+genSpan/2)
	// All in the cache.
	plain := openState(t, t.TempDir(), store.Options{})
	plain.ask("CREATE DATABASE d WITH SHARD DURATION 1d")
	for i, p := range parts {
		plain.write(strings.Join(p, ""))
		if i == 1 {
			plain.ask(forget)
		}
	}
	want := make([]string, len(queries))
	rows := 0
	for i, q := range queries {
		want[i] = plain.ask(q)
		rows += strings.Count(want[i], "\n")
	}
	plain.close()
	dir := t.TempDir()
	s := openState(t, dir, store.Options{CompactAfter: time.Hour})
	defer func() { s.close() }()
	check := func(state string) {
		t.Helper()
		bad := 0
		for i, q := range queries {
			if got := s.ask(q); got != want[i] {
				if bad++; bad < 4 {
					t.Errorf("%s: %s\n got %.600s\nwant %.600s", state, q, got, want[i])
				}
			}
		}
		if bad > 0 {
			t.Errorf("%s: %d of %d answers are others", state, bad, len(queries))
		}
	}
	s.ask("CREATE DATABASE d WITH SHARD DURATION 1d")
	s.write(strings.Join(parts[0], ""))
	s.flush()
	s.write(strings.Join(parts[1], ""))
	s.flush()
	s.ask(forget)
	s.write(strings.Join(parts[2], ""))
	check("two files and the cache")
	s.flush()
	check("three files")
	s.close()
	s = openState(t, dir, store.Options{CompactAfter: time.Hour})
	check("after a restart")
	s.close()
	s = openState(t, dir, store.Options{CompactAfter: time.Nanosecond})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if most := mostFiles(t, dir); most == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("a shard still has %d files", most)
		}
		wakeCompaction(s)
	}
	check("after merges")
	t.Logf("%d queries in 5 states, %d lines of answers", len(queries), rows)
}

// wakeCompaction lets the store look for merges now.
func wakeCompaction(s *stateServer) { s.flush() }

// mostFiles returns the largest number of TSM files of a shard.
func mostFiles(t *testing.T, dir string) int {
	t.Helper()
	perShard, most := map[string]int{}, 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".tsm" {
			perShard[filepath.Dir(path)]++
			most = max(most, perShard[filepath.Dir(path)])
		}
		return nil // files come and go
	})
	if err != nil {
		t.Fatal(err)
	}
	return most
}
