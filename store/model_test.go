package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/column"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/scan"
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
	table, err := s.Table(db)
	if err != nil {
		return err
	}
	var b column.Batch
	if _, err := s.p.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		return err
	}
	return s.Write(context.Background(), db, "", &b)
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
	out := points{}
	v, err := s.View(db, "", model.AllTime)
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
			set, err := sh.Select(m, nil)
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

// driver makes random operations against a store and keeps the oracle.
type driver struct {
	s    *testStore
	r    *rand.Rand
	want points
	// unsure are values whose operation was cut off: either state is right.
	maybe map[string][]string
	gone  map[string]bool // keys of maybe whose absence is right too
	n     int
	// ddl adds drops of the database and of shard groups.
	ddl   bool
	hosts int // 6 if less
	// ever holds every value that a key was given, if not nil.
	ever map[string][]string
}

const week = 7 * 24 * int64(time.Hour)

// lines makes a batch and what it means: some weeks, few series, overlapping
// times, all types.
func (d *driver) lines() (string, points) {
	var b strings.Builder
	mean := points{}
	for range 1 + d.r.IntN(30) {
		host := d.r.IntN(max(d.hosts, 6))
		series := fmt.Sprintf("m,host=h%d", host)
		t := int64(d.r.IntN(3))*week + int64(d.r.IntN(200))*int64(time.Second)
		d.n++
		fields := []string{}
		set := func(field, text, read string) {
			fields = append(fields, field+"="+text)
			mean[pointKey(series, t, field)] = read
		}
		if d.r.IntN(4) > 0 {
			set("f", fmt.Sprint(float64(d.n)/4), fmt.Sprint(float64(d.n)/4))
		}
		if d.r.IntN(3) == 0 {
			set("i", fmt.Sprintf("%di", d.n), fmt.Sprintf("%di", d.n))
		}
		if d.r.IntN(4) == 0 || len(fields) == 0 {
			set("s", fmt.Sprintf("%q", fmt.Sprint("v", d.n)), fmt.Sprintf("%q", fmt.Sprint("v", d.n)))
		}
		fmt.Fprintf(&b, "%s %s %d\n", series, strings.Join(fields, ","), t)
	}
	return b.String(), mean
}

// step runs one operation. An error means that it was cut off.
func (d *driver) step() error {
	if d.ddl && d.r.IntN(25) == 0 {
		if d.r.IntN(3) == 0 {
			return d.dropDatabase()
		}
		return d.expire()
	}
	switch k := d.r.IntN(20); {
	case k < 12:
		text, mean := d.lines()
		if d.ever != nil {
			for key, v := range mean {
				d.ever[key] = append(d.ever[key], v)
			}
		}
		err := d.s.write("db", text)
		for key, v := range mean {
			if err == nil {
				d.want[key] = v
			} else {
				d.maybe[key] = append(d.maybe[key], v)
			}
		}
		return err
	case k < 15:
		host := fmt.Sprintf("h%d", d.r.IntN(6))
		lo := int64(d.r.IntN(3))*week + int64(d.r.IntN(200))*int64(time.Second)
		times := model.TimeRange{Min: lo, Max: lo + int64(d.r.IntN(100))*int64(time.Second)}
		if d.r.IntN(3) == 0 {
			times = model.AllTime
		}
		err := d.s.Delete(context.Background(), scan.DeleteRequest{
			Database: "db", Range: times,
			Where: func(string, []column.Field) (*model.TagExpr, error) {
				return &model.TagExpr{Op: model.TagEqual, Key: "host", Value: host}, nil
			},
		})
		for key := range d.want {
			var series, field string
			var t int64
			if _, serr := fmt.Sscanf(key, "%s %d %s", &series, &t, &field); serr != nil {
				panic(serr)
			}
			if series == "m,host="+host && times.Contains(t) {
				if err == nil {
					delete(d.want, key)
				} else {
					d.gone[key] = true
				}
			}
		}
		return err
	case k < 18:
		d.s.flushSome(d.r)
	default:
		d.s.compactSome(d.r)
	}
	return nil
}

// forget takes the keys that match out of the oracle, for sure or perhaps.
func (d *driver) forget(sure bool, match func(t int64) bool) {
	for key := range d.want {
		var t int64
		if _, err := fmt.Sscanf(strings.Fields(key)[1], "%d", &t); err != nil {
			panic(err)
		}
		if !match(t) {
			continue
		}
		if sure {
			delete(d.want, key)
		} else {
			d.gone[key] = true
		}
	}
}

// dropDatabase drops the database and makes it again.
func (d *driver) dropDatabase() error {
	err := d.s.Apply(context.Background(), meta.DropDatabase{Name: "db"})
	d.forget(err == nil, func(int64) bool { return true })
	if err != nil {
		return err
	}
	return d.s.Apply(context.Background(), meta.CreateDatabase{Name: "db"})
}

// expire drops a shard group as retention does.
func (d *driver) expire() error {
	entries := d.s.entries()
	if len(entries) == 0 {
		return nil
	}
	id := entries[d.r.IntN(len(entries))].ID()
	at, ok := d.s.Catalog().Shard(id)
	if !ok {
		return errors.New("shard not in the catalog")
	}
	times := at.Group.TimeRange()
	_, err := d.s.catalog.Apply(meta.DropShardGroup{Database: "db", RetentionPolicy: "autogen", ID: at.Group.ID})
	d.forget(err == nil, times.Contains)
	if err != nil {
		return err
	}
	return d.s.expireShards([]uint64{id})
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

func (s *testStore) flushSome(r *rand.Rand) {
	for _, e := range s.entries() {
		if r.IntN(2) == 0 {
			s.flush(context.Background(), e)
		}
	}
}

func (s *testStore) compactSome(r *rand.Rand) {
	for _, e := range s.entries() {
		if r.IntN(2) == 0 {
			_, _ = e.Compact(context.Background(), r.IntN(2) == 0)
		}
	}
}

// check compares the store with the oracle; values that were cut off may be
// there or not, and are known from then on.
func (d *driver) check(s *testStore) error {
	if d.ddl && s.Catalog().Database("db") == nil {
		s.create("db") // cut off between drop and creation
	}
	got, err := readAll(s.Store, "db", false)
	if err != nil {
		return err
	}
	back, err := readAll(s.Store, "db", true)
	if err != nil {
		return err
	}
	if text := diff(back, got); text != "" {
		return errors.New("descending differs:\n" + text)
	}
	for key, values := range d.maybe {
		if v, ok := got[key]; ok && slices.Contains(values, v) {
			d.want[key] = v
		}
	}
	for key := range d.gone {
		if _, ok := got[key]; !ok {
			delete(d.want, key)
		}
	}
	d.maybe, d.gone = map[string][]string{}, map[string]bool{}
	if text := diff(got, d.want); text != "" {
		return errors.New(text)
	}
	return nil
}
