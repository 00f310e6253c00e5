package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	testpoints "tsdbd/internal/testkit/points"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
)

// points is the oracle: what a database must hold, by series key, time, field.
type points map[string]string

func pointKey(series string, t int64, field string) string { return testpoints.Key(series, t, field) }

// testStore is a store with a helper's ways of writing and reading.
type testStore struct {
	*Store
	t testing.TB
	p lineproto.Parser
}

// Apply applies a change and waits until the files of what it drops are removed.
func (s *testStore) Apply(ctx context.Context, cmd meta.Command) error {
	if err := s.Store.Apply(ctx, cmd); err != nil || !meta.Drops(cmd) {
		return err
	}
	return s.removeDropped()
}

func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, SegmentBytes: 32 << 10, RetentionInterval: -1, FlushIdle: time.Hour, CompactAfter: time.Hour}
}

func openTest(t testing.TB, fs vfs.FS, opt Options) *testStore {
	t.Helper()
	s, err := Open("/data", opt)
	if err != nil {
		t.Fatal(err)
	}
	return &testStore{Store: s, t: t}
}

func (s *testStore) create(db string) {
	s.t.Helper()
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: db}); err != nil {
		s.t.Fatal(err)
	}
}

// write parses and writes lines.
func (s *testStore) write(db, lines string) error {
	return s.writeContext(context.Background(), db, lines)
}

func (s *testStore) writeContext(ctx context.Context, db, lines string) error {
	table, err := s.Table(db)
	if err != nil {
		return err
	}
	var b point.Batch
	if _, err := s.p.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		return err
	}
	return s.Write(ctx, db, "", &b)
}

// read returns everything a database's default policy holds.
func (s *testStore) read(db string) points {
	s.t.Helper()
	out, err := readAll(s.Store, db, false)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func readAll(s *Store, db string, descending bool) (points, error) {
	return readPolicy(s, db, "", descending)
}

func readPolicy(s *Store, db, policy string, descending bool) (points, error) {
	v, err := s.Partial().View(db, policy, model.AllTime)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	return testpoints.Read(v, descending)
}

func diff(got, want points) string {
	var b strings.Builder
	n := 0
	say := func(format string, args ...any) {
		if n++; n <= 10 {
			fmt.Fprintf(&b, format+"\n", args...)
		}
	}
	for k, v := range want {
		if g, ok := got[k]; !ok {
			say("lost: %s = %s", k, v)
		} else if g != v {
			say("wrong: %s = %s, want %s", k, g, v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			say("phantom: %s = %s", k, v)
		}
	}
	if n > 10 {
		fmt.Fprintf(&b, "and %d more\n", n-10)
	}
	return b.String()
}

func (s *testStore) entries() []*shardEntry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*shardEntry
	for _, e := range s.mu.shards {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *shardEntry) int { return int(a.ID()) - int(b.ID()) })
	return out
}
