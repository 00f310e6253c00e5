package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
)

// points is the oracle: what a database must hold, by series key, time, field.
type points map[string]string

func pointKey(series string, t int64, field string) string {
	return fmt.Sprintf("%s %d %s", series, t, field)
}

// testStore is a store with a helper's ways of writing and reading.
type testStore struct {
	*Store
	t testing.TB
	p lineproto.Parser
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
	out := points{}
	v, err := s.Partial().View(db, policy, model.AllTime)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	for _, sh := range v.Shards() {
		for _, m := range sh.Measurements() {
			fields := sh.Fields(m)
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.Key
			}
			set, err := sh.Select(context.Background(), m, nil)
			if err != nil {
				return nil, err
			}
			c, err := sh.Scan(context.Background(), scan.Request{Measurement: m, Series: set, Fields: names, Range: model.AllTime, Descending: descending})
			if err != nil {
				return nil, err
			}
			for {
				id, ok := c.NextSeries()
				if !ok {
					break
				}
				key, err := v.SeriesKey(id)
				if err != nil {
					return nil, err
				}
				for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
					ts, err := ch.Times()
					if err != nil {
						return nil, err
					}
					for i, f := range fields {
						col, err := ch.Column(i)
						if err != nil {
							return nil, err
						}
						if slices.ContainsFunc(col.Floats, math.IsNaN) && !ch.MayHaveNaN(i) {
							return nil, fmt.Errorf("%s of %s: a NaN is not announced", f.Key, key)
						}
						for row, t := range ts {
							if col.IsValid(row) {
								k := pointKey(key, t, f.Key)
								if _, twice := out[k]; twice {
									return nil, fmt.Errorf("%s comes twice", k)
								}
								out[k] = valueText(col, row)
							}
						}
					}
				}
			}
			if err := c.Err(); err != nil {
				return nil, err
			}
			c.Close()
		}
	}
	return out, nil
}

func valueText(v *column.Vector, i int) string {
	switch v.Type {
	case model.Float:
		if x := v.Floats[i]; x-x != 0 {
			return fmt.Sprintf("0x%016x", math.Float64bits(x))
		}
		return fmt.Sprint(v.Floats[i])
	case model.Integer:
		return fmt.Sprintf("%di", v.Ints[i])
	case model.Unsigned:
		return fmt.Sprintf("%du", v.Uints[i])
	case model.String:
		return fmt.Sprintf("%q", v.Strings[i])
	}
	return fmt.Sprint(v.Bools[i])
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
