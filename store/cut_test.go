package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/store/content"
)

// sums returns the sums of what the store has now.
func (s *testStore) sums() *content.Sums {
	s.t.Helper()
	c, err := s.Cut()
	s.must(err)
	defer c.Release()
	out, err := c.Sum(context.Background())
	s.must(err)
	return out
}

// values returns how many points the sums have, and those of the oracle.
func values(of *content.Sums, want points) (have, oracle int) {
	for _, s := range of.Shards {
		have += int(s.Values)
	}
	for key := range want {
		if !strings.HasPrefix(key, userKey("")) {
			oracle++
		}
	}
	return have, oracle
}

// TestCutStays takes cuts between the operations of a driver and sums them up much
// later: they have what the store had when they were taken.
func TestCutStays(t *testing.T) {
	type taken struct {
		cut  *content.Cut
		want *content.Sums
	}
	for run := range 6 {
		r := rand.New(rand.NewPCG(testseed.Of(t), uint64(run)))
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		d := newDriver(s, r)
		d.ddl = true
		var cuts []taken
		settle := func() {
			for _, c := range cuts {
				got, err := c.cut.Sum(t.Context())
				s.must(err)
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("run %d: %v", run, differences(got, c.want))
				}
				c.cut.Release()
			}
			cuts = nil
		}
		for range 120 {
			op := d.next()
			if op.name == "restart" {
				continue
			}
			s.must(op.run())
			d.want = op.after
			if r.IntN(5) == 0 {
				c, err := s.Cut()
				s.must(err)
				cuts = append(cuts, taken{c, s.sums()})
				if have, want := values(cuts[len(cuts)-1].want, d.want); have != want {
					t.Fatalf("the sum has %d points, the oracle %d", have, want)
				}
			}
			if r.IntN(12) == 0 {
				settle()
			}
		}
		settle()
		s.must(s.Close())
		if _, err := s.Cut(); err != ErrClosed {
			t.Errorf("cut of a closed store: %v", err)
		}
	}
}

// TestContentSums: equal points have equal sums, however they came and wherever they
// lie, and no point may differ.
func TestContentSums(t *testing.T) {
	stores := func(then func(s *testStore), lines ...string) *content.Sums {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		defer func() { s.must(s.Close()) }()
		s.create("db")
		for _, l := range lines {
			s.must(s.write("db", l))
		}
		if then != nil {
			then(s)
		}
		return s.sums()
	}
	flush := func(s *testStore) { s.flushAll(t.Context()) }
	want := stores(nil, "m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 2")
	for name, got := range map[string]*content.Sums{
		"in files":    stores(flush, "m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 2"),
		"in parts":    stores(flush, "m,h=b f=1 2", "m,h=a f=1,i=2i 1", "m,h=a b=true,s=\"x\" 1"),
		"overwritten": stores(nil, "m,h=b f=7 2\nm,h=a f=3 1", "m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 2"),
		"deleted": stores(func(s *testStore) {
			flush(s)
			s.deleteAll("db")
			s.must(s.write("db", "m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 2"))
		}, "m,h=a f=9 9"),
	} {
		if !reflect.DeepEqual(got.Shards, want.Shards) {
			t.Errorf("%s: %+v, want %+v", name, got.Shards, want.Shards)
		}
	}
	for _, lines := range []string{
		"m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 3",  // a time
		"m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=c f=1 2",  // a series
		"m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b g=1 2",  // a field
		"m,h=a f=1,i=2,s=\"x\",b=true 1\nm,h=b f=1 2",   // a type
		"m,h=a f=1,i=3i,s=\"x\",b=true 1\nm,h=b f=1 2",  // an integer
		"m,h=a f=1,i=2i,s=\"y\",b=true 1\nm,h=b f=1 2",  // a text
		"m,h=a f=1,i=2i,s=\"x\",b=false 1\nm,h=b f=1 2", // a boolean
		"m,h=a f=-1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 2", // a float
		"m,h=a i=2i,s=\"x\",b=true 1\nm,h=b f=1 2",      // a point less
		"m,h=b f=1,i=2i,s=\"x\",b=true 1\nm,h=a f=1 2",  // values of other series
		"m,h=a f=1,i=2i,s=\"x\",b=true 2\nm,h=b f=1 1",  // values at other times
		"m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 2 \nm,h=b f=1 1",
	} {
		got := stores(nil, lines)
		if got.Catalog != want.Catalog {
			t.Errorf("%q: the catalog is the same", lines)
		}
		if d := differences(got, want); len(d) != 1 || d[0].Shard != 1 || d[0].Database != "db" || d[0].RetentionPolicy != "autogen" || d[0].Sums["a"] == d[0].Sums["b"] {
			t.Errorf("%q: %v", lines, d)
		}
	}
	other := stores(func(s *testStore) { s.create("more") }, "m,h=a f=1,i=2i,s=\"x\",b=true 1\nm,h=b f=1 2")
	other.Sequence = want.Sequence
	if d := differences(other, want); len(d) != 1 || d[0].Shard != 0 || d[0].Database != "" {
		t.Errorf("another catalog: %v", d)
	}
	empty := stores(nil)
	empty.Sequence, empty.Catalog = want.Sequence, want.Catalog
	if d := differences(want, empty); len(d) != 1 || d[0].Shard != 1 || d[0].Sums["a"] == "" || d[0].Sums["b"] != "" {
		t.Errorf("a shard less: %v", d)
	}
}

// differences says what differs between the sums of two stores.
func differences(a, b *content.Sums) []content.Difference {
	if a.Sequence != b.Sequence {
		return []content.Difference{{Sums: map[string]string{"a": fmt.Sprint("at ", a.Sequence), "b": fmt.Sprint("at ", b.Sequence)}}}
	}
	return content.Differences(map[string]*content.Sums{"a": a, "b": b})
}
