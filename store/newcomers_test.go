package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// fieldsOf returns the fields of a measurement in all shards, as SHOW FIELD
// KEYS has them.
func (s *testStore) fieldsOf(measurement string) string {
	s.t.Helper()
	v, err := s.View("db", "", model.AllTime)
	s.must(err)
	defer v.Release()
	out := ""
	for _, sh := range v.Shards() {
		for _, f := range sh.Fields(measurement) {
			out += fmt.Sprintf("%s %s,", f.Key, f.Type)
		}
	}
	return out
}

// TestRefusedPointsLeaveNoTrace writes a batch whose points are dropped, in part
// or all, or refused by the log, and then the sound points that a trace of it
// would keep out.
func TestRefusedPointsLeaveNoTrace(t *testing.T) {
	long := strings.Repeat("x", column.MaxStringLength+1)
	for name, c := range map[string]struct {
		series, values int // limits
		full           bool
		refused        string // batch
		dropped        int    // -1: all of it, with an error
		fields         string // that show then
		sound          string // batch that is stored whole then
	}{
		"tag time":            {refused: `m,time=x f="s" 1`, dropped: 1, sound: "m,h=a f=1 1"},
		"long string":         {refused: `m,h=a f="s",s="` + long + `" 1`, dropped: 1, sound: "m,h=a f=1,s=1 1"},
		"long string, others": {refused: "m,h=a v=1 1\nm,h=a f=\"s\",s=\"" + long + "\" 1", dropped: 1, fields: "v float,", sound: "m,h=a f=1,s=1 1"},
		"field time":          {refused: "m,h=a time=1 1", dropped: 1, sound: "m,h=a f=1 1"},
		"limit of series":     {series: 1, refused: "m,h=a v=1 1\nm,h=b f=\"s\" 1", dropped: 1, fields: "v float,", sound: "m,h=a f=1 1"},
		"limit of values":     {values: 1, refused: "m,h=a v=1 1\nm,h=b f=\"s\" 1", dropped: 1, fields: "v float,", sound: "m,h=a f=1 1"},
		// The row that the limit drops must not keep out the last one either.
		"limit in the batch":    {series: 1, refused: "m,h=a v=1 1\nm,h=b f=\"s\" 1\nm,h=a f=1 2", dropped: 1, fields: "f float,v float,", sound: "m,h=a f=2 3"},
		"long in the batch":     {refused: "m,h=a f=\"" + long + "\" 1\nm,h=a f=1 2", dropped: 1, fields: "f float,", sound: "m,h=a f=2 3"},
		"conflict in the batch": {refused: "m,h=a f=1,g=1 1\nm,h=a f=\"s\",z=1 2", dropped: 1, fields: "f float,g float,", sound: "m,h=a z=\"s\" 3"},
		// A dropped row takes no room from a sound series.
		"conflict and limit": {series: 2, refused: "m,h=a f=1 1\nm,h=b f=\"s\" 2\nm,h=c f=2 2", dropped: 1, fields: "f float,", sound: "m,h=c f=2 3"},
		"full disk":          {full: true, refused: "m,h=a f=\"s\" 1", dropped: -1, sound: "m,h=a f=1 1"},
		"full disk, series":  {full: true, series: 1, refused: "m,h=b f=\"s\" 1", dropped: -1, sound: "m,h=a f=1 1"},
		"full disk, values":  {full: true, values: 1, refused: "m,h=b f=\"s\" 1", dropped: -1, sound: "m,h=a f=1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfstest.New()
			opt := testOptions(fs)
			opt.MaxSeriesPerDatabase, opt.MaxValuesPerTag = c.series, c.values
			s := openTest(t, fs, opt)
			defer func() { s.must(s.Close()) }()
			s.create("db")
			if c.full {
				// The shard and a segment of the log are there.
				s.create("other")
				s.must(s.write("other", "m,h=a v=1 1"))
				s.must(s.Apply(t.Context(), meta.CreateShardGroups{Database: "db", RetentionPolicy: "autogen", Times: []int64{1}}))
				fs.SetHook(func(op vfstest.Op) error {
					if op.Kind == "write" && strings.HasPrefix(op.Path, "/data/wal/") {
						return &vfstest.ShortWrite{Err: syscall.ENOSPC}
					}
					return nil
				})
			}
			err := s.write("db", c.refused)
			fs.SetHook(nil)
			if c.dropped < 0 {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("on a full disk: %v", err)
				}
			} else if reason, n := dropped(t, err); n != c.dropped {
				t.Fatalf("%d dropped (%s), want %d", n, reason, c.dropped)
			}
			if got := s.fieldsOf("m"); got != c.fields {
				t.Errorf("fields %q, want %q", got, c.fields)
			}
			if err := s.write("db", c.sound); err != nil {
				t.Errorf("the sound points: %v", err)
			}
			fields, points := s.fieldsOf("m"), s.read("db")
			s.must(s.Close())
			s = openTest(t, fs, opt)
			if got := s.fieldsOf("m"); got != fields {
				t.Errorf("after a restart: fields %q, want %q", got, fields)
			}
			if text := diff(s.read("db"), points); text != "" {
				t.Errorf("after a restart: %s", text)
			}
		})
	}
}

// TestTypeNotDecided: while one write has claimed a field's type and is not in
// the log yet, a write with another type waits, holding nothing itself, and goes
// by what became of the first.
func TestTypeNotDecided(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile string // a batch that is written while the other waits
		cancel    bool
		dropped   int
		fields    string
	}{
		"refused":  {fields: "f float,g float,v float,"},
		"applied":  {meanwhile: "m,h=c f=\"s\" 1", dropped: 1, fields: "f string,v float,"},
		"own":      {meanwhile: "m,h=d g=\"s\" 1", dropped: 1, fields: "g string,v float,"},
		"canceled": {cancel: true, fields: "v float,"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfstest.New()
			opt := testOptions(fs)
			opt.MaxSeriesPerDatabase = 2
			s := openTest(t, fs, opt)
			defer func() { s.must(s.Close()) }()
			s.create("db")
			s.must(s.write("db", "m,h=a v=1 1"))
			claim := s.entries()[0].ClaimFields()
			l := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "f", Type: model.String}}}
			if refused, undecided := claim.Add(l, 0); refused != "" || undecided != nil {
				t.Fatal("claim refused")
			}
			if got := s.fieldsOf("m"); got != "v float," {
				t.Errorf("a claim shows: %q", got)
			}
			inner, cancel := context.WithCancel(t.Context())
			defer cancel()
			ctx := &askedContext{Context: inner, asked: make(chan struct{})}
			result := make(chan error)
			go func() {
				own := &testStore{Store: s.Store, t: t}
				result <- own.writeContext(ctx, "db", "m,h=b g=1,f=1 1")
			}()
			<-ctx.asked // it waits
			if c.meanwhile != "" {
				s.must(s.write("db", c.meanwhile))
			}
			if c.cancel {
				cancel()
				if err := <-result; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				claim.TakeBack(0)
			} else {
				claim.TakeBack(0)
				if reason, n := dropped(t, <-result); n != c.dropped {
					t.Errorf("%d dropped (%s), want %d", n, reason, c.dropped)
				}
			}
			if got := s.fieldsOf("m"); got != c.fields {
				t.Errorf("fields %q, want %q", got, c.fields)
			}
			if c.cancel {
				s.must(s.write("db", "m,h=c g=\"s\",f=true 1")) // neither field nor room is held
			}
		})
	}
}

// askedContext tells when somebody begins to wait for its end.
type askedContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *askedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

// TestTypeRace: writers that give one new field two types at once: one type
// wins, every acknowledged point is there, and none of the other type.
func TestTypeRace(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer func() { s.must(s.Close()) }()
	s.create("db")
	want := points{}
	for round := range 60 {
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for w := range errs {
			wg.Go(func() {
				own := &testStore{Store: s.Store, t: t}
				errs[w] = own.write("db", fmt.Sprintf("m,h=%d a%d=%s,b%d=%s %d", w, round, []string{"1", "1i"}[w%2], round, []string{"1", "1i"}[w%2], round))
			})
		}
		wg.Wait()
		won := map[int]bool{}
		for w, err := range errs {
			if _, n := dropped(t, err); n > 0 {
				continue
			}
			won[w%2] = true
			for _, f := range []string{"a", "b"} {
				want[pointKey(fmt.Sprintf("m,h=%d", w), int64(round), fmt.Sprint(f, round))] = []string{"1", "1i"}[w%2]
			}
		}
		if len(won) != 1 {
			t.Fatalf("round %d: types that won: %v", round, won)
		}
	}
	if text := diff(s.read("db"), want); text != "" {
		t.Error(text)
	}
}

// TestRefusedSeries refuses writes of new series on a full disk, two at once that
// bring the same series in objects of their own, beside one that is stored: what
// was refused leaves no series, no id and no memory, and all are stored later.
func TestRefusedSeries(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.write("db", "m,h=a v=1 1"))
	db, err := s.database("db")
	s.must(err)
	var reject atomic.Bool
	fs.SetHook(func(op vfstest.Op) error {
		if reject.Load() && strings.HasPrefix(op.Path, "/data/wal/") && op.Kind == "write" {
			return &vfstest.ShortWrite{Err: syscall.ENOSPC}
		}
		return nil
	})
	table, err := s.Table("db")
	s.must(err)
	parse := func(table *point.Table, text string) *point.Batch {
		b := new(point.Batch)
		_, err := new(lineproto.Parser).Parse(b, table, []byte(text), lineproto.Options{})
		s.must(err)
		return b
	}
	batch := parse(table, "m,h=b v=1 1\nm,h=c v=1 1")
	other := parse(point.NewTable(1), "m,h=b v=2 2\nm,h=d v=2 2")
	reject.Store(true)
	var wg sync.WaitGroup
	for _, b := range []*point.Batch{batch, other} {
		wg.Go(func() {
			if err := s.Write(context.Background(), "db", "", b); !vfs.IsFull(err) {
				t.Errorf("write: %v", err)
			}
		})
	}
	wg.Wait()
	for _, b := range []*point.Batch{batch, other} {
		for _, r := range b.Rows {
			if id := r.Series.ID(); id != 0 {
				t.Errorf("%s has id %d", r.Series.Key(), id)
			}
		}
	}
	pending := s.memory.pending.Load()
	if n, next := db.series.Len(), db.series.NextID(); n != 1 || next != 2 || db.series.FirstClaim() != 0 || pending > 100 {
		t.Errorf("%d series, next %d, first claim %d, %d bytes", n, next, db.series.FirstClaim(), pending)
	}
	reject.Store(false)
	for _, b := range []*point.Batch{other, batch} {
		for s.Write(context.Background(), "db", "", b) != nil { // the log tries again after a moment
			time.Sleep(10 * time.Millisecond)
		}
	}
	if n := len(s.read("db")); n != 5 || db.series.Len() != 4 {
		t.Errorf("%d values of %d series", n, db.series.Len())
	}
}

// TestManyMeasurementsAreReserved: a write reserves what the measurements that it brings
// cost, before it takes the memory, and gives the reservation back.
func TestManyMeasurementsAreReserved(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.CacheBytes = 1 << 20
	s := openTest(t, fs, opt)
	defer func() { s.must(s.Close()) }()
	s.create("db")
	lines := func(measurements, at int) string {
		var b strings.Builder
		for i := range measurements {
			fmt.Fprintf(&b, "m%04d v=1 %d\n", i, at)
		}
		return b.String()
	}
	refused := func(lines string, want error) {
		t.Helper()
		if err := s.write("db", lines); !errors.Is(err, want) || !err.(interface{ Temporary() bool }).Temporary() {
			t.Errorf("%v, want %v", err, want)
		}
		if n := s.memory.reserved.Load(); n != 0 {
			t.Errorf("%d bytes stay reserved", n)
		}
	}
	refused(lines(1000, 1), ErrTooManyMeasurements)
	s.memory.reserved.Add(900 << 10) // other writes
	if err := s.write("db", lines(100, 1)); !errors.Is(err, ErrOverloaded) {
		t.Errorf("beside other writes: %v", err)
	}
	s.memory.reserved.Add(-900 << 10)
	if got := s.fieldsOf("m0000"); got != "" {
		t.Errorf("a refused write left %q", got)
	}
	s.must(s.write("db", lines(100, 1)))
	s.must(s.write("db", strings.Repeat("m0001 v=1 1\n", 2000))) // one measurement, whatever the rows
	refused(lines(4000, 1), ErrTooManyMeasurements)
	if n := s.memory.reserved.Load(); n != 0 {
		t.Errorf("%d bytes stay reserved", n)
	}
}
