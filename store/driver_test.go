package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/series"
	"tsdbd/shard"
	"tsdbd/shard/build"
	"tsdbd/shard/manifest"
	"tsdbd/store/layout"
	"tsdbd/store/move"
)

// operation is a step of a driver and what the store holds once it is done.
// Cut off by a crash, all of it is done or nothing.
type operation struct {
	name  string
	after points
	run   func() error
}

// driver makes random operations against a store and keeps the oracle.
type driver struct {
	s    *testStore
	opt  Options
	r    *rand.Rand
	want points
	// maybe are values whose operation was cut off: either state is right.
	maybe map[string][]string
	gone  map[string]bool // keys whose absence is right too
	n     int
	// ddl adds users, drops of the database and of shard groups, backups and
	// restarts.
	ddl   bool
	hosts int // driverHosts if less
	// ever holds every value that a time was given, if not nil. Its series and field may
	// have got any name since.
	ever  map[int64][]string
	moves bool // many
	// clock is the store's, if retention is on: it drops the weeks before base.
	clock *atomic.Int64
	base  int64
}

const week = 7 * 24 * int64(time.Hour)

// origin is the beginning of a shard group.
var origin = time.Unix(0, week).UTC().Truncate(time.Duration(week)).UnixNano()

// keptWeeks is how long the policy of a driver with a clock keeps data.
const keptWeeks = 4

func newDriver(s *testStore, r *rand.Rand) *driver {
	return &driver{s: s, opt: s.opt, r: r, want: points{}, maybe: map[string][]string{}, gone: map[string]bool{}}
}

// openRetaining opens a store with a driver whose clock and retention policy
// are on.
func openRetaining(t testing.TB, fs vfs.FS, r *rand.Rand) *driver {
	clock := new(atomic.Int64)
	clock.Store(origin + keptWeeks*week + 1)
	opt := testOptions(fs)
	opt.MergeBytes = []int64{0, 1, 2 << 10}[r.IntN(3)] // 1: moves are made of few series at a time
	opt.RetentionInterval = time.Millisecond
	if r.IntN(2) == 0 {
		opt.MaxSeriesPerDatabase = driverHosts // or there are moves
	}
	opt.Now = func() time.Time { return time.Unix(0, clock.Load()) }
	d := newDriver(openTest(t, fs, opt), r)
	d.clock, d.ddl = clock, true
	if err := d.create(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *driver) create() error {
	cmd := meta.CreateDatabase{Name: "db"}
	if d.clock != nil {
		keep := time.Duration(keptWeeks * week)
		cmd.Policy = &meta.RetentionPolicySpec{Name: "weeks", Duration: &keep}
	}
	return d.s.Apply(context.Background(), cmd)
}

// parseKey takes the key of a value apart; ok is false for another key.
func parseKey(key string) (series string, t int64, ok bool) {
	var field string
	n, err := fmt.Sscanf(key, "%s %d %s", &series, &t, &field)
	return series, t, n == 3 && err == nil
}

// without returns what is left of the values when those that match are gone.
func (d *driver) without(match func(series string, t int64) bool) points {
	after := points{}
	for key, v := range d.want {
		if series, t, ok := parseKey(key); !ok || !match(series, t) {
			after[key] = v
		}
	}
	return after
}

// step runs one operation. An error means that it was cut off.
func (d *driver) step() error {
	op := d.next()
	err := op.run()
	if err == nil {
		d.want = op.after
		return nil
	}
	for key, v := range op.after {
		if d.want[key] != v {
			d.maybe[key] = append(d.maybe[key], v)
		}
	}
	for key := range d.want {
		if _, stays := op.after[key]; !stays {
			d.gone[key] = true
		}
	}
	return fmt.Errorf("%s: %w", op.name, err)
}

// next chooses an operation.
func (d *driver) next() operation {
	if d.ddl {
		switch k := d.r.IntN(100); {
		case k < 2:
			return d.dropDatabase()
		case k < 5:
			return d.expire()
		case k < 8:
			return d.user()
		case k < 10:
			return d.backup()
		case k < 12:
			return operation{"restart", d.want, d.restart}
		case k < 18 && d.opt.OpenLog == nil:
			return d.build()
		}
	}
	if d.moves && d.r.IntN(3) == 0 {
		return d.beside(d.move())
	}
	switch k := d.r.IntN(20); {
	case k < 2 && d.opt.MaxSeriesPerDatabase == 0:
		return d.beside(d.scrape())
	case k < 12:
		return d.beside(d.write())
	case k < 14:
		return d.beside(d.delete())
	case k < 15 && d.opt.MaxSeriesPerDatabase == 0: // else rows of any series may have no room
		return d.beside(d.move())
	case k < 15:
		return d.beside(d.delete())
	case k < 18:
		return operation{"flush", d.want, func() error { d.s.flushSome(d.r); return nil }}
	}
	return operation{"compact", d.want, func() error { d.s.compactSome(d.r); return nil }}
}

// beside runs a write or delete, now and then, between the cut of a flush and
// its files, or while files are merged.
func (d *driver) beside(op operation) operation {
	if !d.ddl {
		return op
	}
	run := op.run
	switch d.r.IntN(6) {
	case 0:
		op.name += " in a flush"
		op.run = func() error {
			entries := d.s.entries()
			for _, e := range entries {
				d.s.flushing.Lock() // the store flushes by itself too
				if e.tries.pending == nil {
					snap := d.s.freeze(e)
					d.s.mu.Lock()
					e.tries.pending = snap
					d.s.mu.Unlock()
				}
				d.s.flushing.Unlock()
			}
			err := run()
			for _, e := range entries {
				d.s.flush(context.Background(), e)
			}
			return err
		}
	case 1:
		op.name += " in a merge"
		op.run = func() error {
			seed := d.r.Uint64()
			done := make(chan struct{})
			go func() {
				defer close(done)
				d.s.compactSome(rand.New(rand.NewPCG(seed, 1)))
			}()
			err := run()
			<-done
			return err
		}
	}
	return op
}

// time returns a time in one of the weeks that are kept.
func (d *driver) time() int64 {
	return d.start(d.base+int64(d.r.IntN(3))) + int64(1+d.r.IntN(200))*int64(time.Second)
}

// start returns the beginning of a week, which is that of a shard.
func (d *driver) start(n int64) int64 { return origin + n*week }

// write writes a batch: some weeks and so some shards, few series, overlapping
// times, all types, and at times rows that are refused.
func (d *driver) write() operation {
	var b strings.Builder
	after := maps.Clone(d.want)
	refused := 0
	for range 1 + d.r.IntN(30) {
		host := d.r.IntN(max(d.hosts, driverHosts))
		series := fmt.Sprintf("m,host=h%d", host)
		t := d.time()
		d.n++
		if d.ddl && d.r.IntN(40) == 0 {
			switch {
			case d.clock != nil && d.r.IntN(2) == 0:
				fmt.Fprintf(&b, "%s f=%d %d\n", series, d.n, d.start(d.base)-int64(time.Hour))
				refused++
				continue
			case d.r.IntN(2) == 0 && d.isFull():
				fmt.Fprintf(&b, "m,host=more%d f=1 %d\n", d.n, t)
				refused++
				continue
			case d.hasFloat(t):
				fmt.Fprintf(&b, "%s f=\"%d\" %d\n", series, d.n, t)
				refused++
				continue
			}
		}
		fields := []string{}
		set := func(field, text string) {
			fields = append(fields, field+"="+text)
			after[pointKey(series, t, field)] = text
			if d.ever != nil {
				d.ever[t] = append(d.ever[t], text)
			}
		}
		switch d.r.IntN(16) {
		case 0, 1, 2:
		case 3: // an infinity
			set("f", fmt.Sprintf("0x%016x", 0x7ff<<52|uint64(d.n&1)<<63))
		case 4: // a NaN, each with other bits
			set("f", fmt.Sprintf("0x%016x", 0x7ff<<52|uint64(d.n&1)<<63|uint64(d.n&2)<<50|uint64(d.n)))
		default:
			set("f", fmt.Sprint(float64(d.n)/4))
		}
		if d.r.IntN(3) == 0 {
			set("i", fmt.Sprintf("%di", d.n))
		}
		if d.r.IntN(4) == 0 || len(fields) == 0 {
			set("s", fmt.Sprintf("%q", fmt.Sprint("v", d.n)))
		}
		fmt.Fprintf(&b, "%s %s %d\n", series, strings.Join(fields, ","), t)
	}
	return operation{"write", after, func() error {
		err := d.s.write("db", b.String())
		var partial *point.PartialWriteError
		switch {
		case refused > 0 && err == nil:
			return fmt.Errorf("%d rows should have been refused", refused)
		case refused > 0 && errors.As(err, &partial):
			if partial.Dropped != refused {
				return fmt.Errorf("want %d rows refused: %w", refused, err)
			}
			return nil
		}
		return err
	}}
}

// scrape writes a batch as an agent does, whose series have all the same irregular times: a
// flush writes these once.
func (d *driver) scrape() operation {
	var b strings.Builder
	after := maps.Clone(d.want)
	t := d.time()
	for range 8 + d.r.IntN(24) {
		t += int64(time.Second) + d.r.Int64N(int64(time.Second))
		for host := range driverHosts {
			d.n++
			series, text := fmt.Sprintf("q,host=h%d", host), fmt.Sprint(float64(d.n)/4)
			after[pointKey(series, t, "f")] = text
			if d.ever != nil {
				d.ever[t] = append(d.ever[t], text)
			}
			fmt.Fprintf(&b, "%s f=%s %d\n", series, text, t)
		}
	}
	return operation{"scrape", after, func() error { return d.s.write("db", b.String()) }}
}

// build gives a shard that has nothing finished files, if the store takes them.
func (d *driver) build() operation {
	week := d.base + int64(d.r.IntN(3))
	after := maps.Clone(d.want)
	type row struct {
		at   int64
		f    float64
		i    int64
		both bool // else f alone
	}
	hosts := map[string][]row{}
	for host := range driverHosts {
		if d.r.IntN(2) == 0 {
			continue
		}
		series := fmt.Sprintf("m,host=h%d", host)
		at := d.start(week)
		for range 1 + d.r.IntN(3)*d.r.IntN(20) {
			at += int64(1+d.r.IntN(9)) * int64(time.Second)
			d.n++
			r := row{at, float64(d.n) / 4, int64(d.n), d.r.IntN(2) == 0}
			hosts[series] = append(hosts[series], r)
			after[pointKey(series, at, "f")] = fmt.Sprint(r.f)
			if r.both {
				after[pointKey(series, at, "i")] = fmt.Sprintf("%di", r.i)
			}
		}
	}
	for key := range d.want {
		if _, at, ok := parseKey(key); ok && (at-origin)/int64(7*24*time.Hour) == week {
			return operation{"build for a shard that has points", d.want, func() error {
				if b, err := d.s.buildAt(d.start(week)); !errors.Is(err, shard.ErrNotEmpty) {
					return fmt.Errorf("builder %v, %w", b, err)
				}
				return nil
			}}
		}
	}
	abort := d.r.IntN(4) == 0
	if abort {
		after = maps.Clone(d.want)
	}
	return operation{"build", after, func() error {
		b, err := d.s.buildAt(d.start(week))
		if errors.Is(err, shard.ErrNotEmpty) { // deleted, and not merged away
			clear(after)
			maps.Copy(after, d.want)
			return nil
		}
		if err != nil {
			return err
		}
		fields := []column.Field{{Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}}
		for _, series := range slices.Sorted(maps.Keys(hosts)) {
			if refused, err := b.Builder.Series(series, fields); len(refused) > 0 || err != nil {
				return fmt.Errorf("refused %v, %w", refused, err)
			}
			for _, r := range hosts[series] {
				rows := column.Rows{Times: []int64{r.at}, Cols: []column.Vector{{Type: model.Float, Floats: []float64{r.f}}, {Type: model.Integer, Ints: []int64{r.i}}}}
				if !r.both {
					rows.Cols[1].Valid = column.NewBitmap(1)
				}
				if err := b.Append(&rows); err != nil {
					return err
				}
			}
		}
		if abort {
			return b.Abort()
		}
		files, err := b.Finish()
		if err != nil {
			return errors.Join(err, b.Abort())
		}
		return d.s.Adopt(b.shard, files)
	}}
}

// building is a builder with the shard that it is for.
type building struct {
	*build.Builder
	shard uint64
}

// buildAt begins the files of the shard that holds a time.
func (s *testStore) buildAt(at int64) (*building, error) {
	for {
		rp := s.Catalog().Database("db").RetentionPolicies[0]
		g := rp.ShardGroupAt(at)
		if g == nil {
			if err := s.Apply(context.Background(), meta.CreateShardGroups{Database: "db", RetentionPolicy: rp.Name, Times: []int64{at}}); err != nil {
				return nil, err
			}
			continue
		}
		b, err := s.Build(g.Shards[0].ID)
		return &building{b, g.Shards[0].ID}, err
	}
}

// driverHosts is how many series a driver writes, if not told otherwise.
const driverHosts = 6

// isFull reports whether the database is sure to have as many series as it may.
func (d *driver) isFull() bool {
	hosts := map[string]bool{}
	for key := range d.want {
		if series, _, ok := parseKey(key); ok {
			hosts[series] = true
		}
	}
	return d.opt.MaxSeriesPerDatabase > 0 && len(hosts) >= d.opt.MaxSeriesPerDatabase
}

// hasFloat reports whether the field f is sure to be a float in the week of t.
func (d *driver) hasFloat(t int64) bool {
	for key := range d.want {
		if series, at, ok := parseKey(key); ok && strings.HasPrefix(series, "m,") && strings.HasSuffix(key, " f") && (at-origin)/week == (t-origin)/week {
			return true
		}
	}
	return false
}

// delete removes a range of times, or all, of a series, or drops the
// measurement.
func (d *driver) delete() operation {
	host := fmt.Sprintf("h%d", d.r.IntN(6))
	lo := d.time()
	times := model.TimeRange{Min: lo, Max: lo + int64(d.r.IntN(100))*int64(time.Second)}
	if d.r.IntN(3) == 0 {
		times = model.AllTime
	}
	req := scan.DeleteRequest{Database: "db", Range: times, Where: func(string, []column.Field) (*model.TagExpr, error) {
		return &model.TagExpr{Op: model.TagEqual, Key: "host", Value: host}, nil
	}}
	if d.ddl && d.r.IntN(10) == 0 {
		req = scan.DeleteRequest{Database: "db", Range: model.AllTime, Measurement: func(m string) bool { return m == "m" }}
	}
	after := d.without(func(series string, t int64) bool {
		measurement, tags := model.ParseSeriesKey(series, nil)
		return (req.Where == nil && measurement == "m" || req.Where != nil && tags.Get("host") == host) && req.Range.Contains(t)
	})
	return operation{"delete", after, func() error { return d.s.Delete(context.Background(), req) }}
}

// move gives some series another name, or a field. One that cannot be is refused, and
// changes nothing.
func (d *driver) move() operation {
	from := []string{"m", "m", "m", "n", "q"}[d.r.IntN(5)]
	host := fmt.Sprintf("h%d", d.r.IntN(6))
	c := model.Change{Measurement: from, To: from}
	req := scan.MoveRequest{Database: "db"}
	where := true
	switch d.r.IntN(8) {
	case 0, 1:
		where = false
		if c.To = "n"; from != "m" {
			c.To = "m"
		}
	case 2:
		c.Set = model.Tags{{Key: "host", Value: fmt.Sprintf("h%d", d.r.IntN(6))}}
	case 3:
		c.Set = model.Tags{{Key: "rack", Value: fmt.Sprint("r", d.r.IntN(2))}, {Key: "zone", Value: "z"}}
	case 4:
		c.Drop = []string{"rack"}
	case 5:
		where = false
		c.RenameTag = model.Rename{From: "rack", To: "zone"}
	default:
		where = false
		c.RenameField = model.Rename{From: "i", To: "j"}
		if d.r.IntN(2) == 0 {
			c.RenameField = model.Rename{From: "j", To: "i"}
		}
	}
	if where = where && d.r.IntN(3) > 0; where {
		req.Where = func(string, []column.Field) (*model.TagExpr, error) {
			return &model.TagExpr{Op: model.TagEqual, Key: "host", Value: host}, nil
		}
	}
	req.Change = c
	after := d.moved(&c, func(tags model.Tags) bool { return !where || tags.Get("host") == host })
	return operation{fmt.Sprintf("move %+v", c), after, func() error {
		_, err := d.s.Move(context.Background(), req)
		if err == nil || !moveRefused(err) {
			return err
		}
		clear(after)
		maps.Copy(after, d.want)
		return nil
	}}
}

// moveRefused reports whether a move was refused for the names that there are.
func moveRefused(err error) bool {
	return errors.Is(err, move.ErrNotFound) || strings.Contains(err.Error(), "already")
}

// moved returns the points after a change of the series that are wanted.
func (d *driver) moved(c *model.Change, wanted func(tags model.Tags) bool) points {
	after := points{}
	var keys []string
	for key, v := range d.want {
		series, _, ok := parseKey(key)
		measurement, tags := model.ParseSeriesKey(series, nil)
		if to, _ := c.AppendKey(nil, series, nil); ok && measurement == c.Measurement && wanted(tags) && (c.Fields() || string(to) != series) {
			keys = append(keys, key)
		} else {
			after[key] = v
		}
	}
	for _, key := range slices.Sorted(slices.Values(keys)) { // of equal names the last wins
		var field string
		series, t, _ := parseKey(key)
		if _, err := fmt.Sscanf(key, "%s %d %s", &series, &t, &field); err != nil {
			panic(err)
		}
		if field == c.RenameField.From {
			field = c.RenameField.To
		}
		to, _ := c.AppendKey(nil, series, nil)
		after[pointKey(string(to), t, field)] = d.want[key]
	}
	return after
}

// dropDatabase drops the database and makes it again.
func (d *driver) dropDatabase() operation {
	after := d.without(func(string, int64) bool { return true })
	return operation{"drop database", after, func() error {
		if err := d.s.Apply(context.Background(), meta.DropDatabase{Name: "db"}); err != nil {
			return err
		}
		return d.create()
	}}
}

// expire lets the oldest week pass and waits until retention has dropped it;
// without a clock it drops any shard as retention does.
func (d *driver) expire() operation {
	if d.clock == nil {
		return d.dropShard()
	}
	end := d.start(d.base + 1)
	after := d.without(func(_ string, t int64) bool { return t < end })
	return operation{"expire", after, func() error {
		d.base++
		d.clock.Add(week)
		deadline := time.Now().Add(time.Minute)
		for d.holdsBefore(end) {
			if time.Now().After(deadline) {
				return errors.New("an expired shard group was not dropped")
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	}}
}

// holdsBefore reports whether the store has a shard that ends by then.
func (d *driver) holdsBefore(end int64) bool {
	for _, g := range d.s.Catalog().Database("db").RetentionPolicies[0].ShardGroups {
		if g.End <= end {
			return true
		}
	}
	d.s.mu.RLock()
	defer d.s.mu.RUnlock()
	for _, e := range d.s.mu.shards {
		if e.TimeRange().Max < end {
			return true
		}
	}
	return len(d.s.mu.dropped.shards) > 0
}

func (d *driver) dropShard() operation {
	entries := d.s.entries()
	if len(entries) == 0 {
		return operation{"drop no shard", d.want, func() error { return nil }}
	}
	id := entries[d.r.IntN(len(entries))].ID()
	at, _ := d.s.Catalog().Shard(id)
	after := d.without(func(_ string, t int64) bool { return at.Group.TimeRange().Contains(t) })
	return operation{"drop shard", after, func() error {
		return d.s.Apply(context.Background(), meta.DropShardGroup{Database: "db", RetentionPolicy: "autogen", ID: at.Group.ID})
	}}
}

// user makes or drops a user, which is a key of the oracle.
func (d *driver) user() operation {
	name := fmt.Sprint("u", d.r.IntN(3))
	after := maps.Clone(d.want)
	var cmd meta.Command
	if _, ok := d.want[userKey(name)]; ok {
		delete(after, userKey(name))
		cmd = meta.DropUser{Name: name}
	} else {
		after[userKey(name)] = ""
		cmd = meta.CreateUser{Name: name, Hash: "$2a$10$" + strings.Repeat("x", 53)}
	}
	return operation{"user", after, func() error { return d.s.Apply(context.Background(), cmd) }}
}

func userKey(name string) string { return "user " + name }

// backup takes a backup, opens it and compares it.
func (d *driver) backup() operation {
	return operation{"backup", d.want, func() error {
		set, err := d.s.Backup(context.Background(), nil)
		if err != nil {
			return err
		}
		defer set.Release()
		fs, err := copyOf(set, d.s.fs)
		if err != nil {
			return err
		}
		s, err := Open("/data", testOptions(fs))
		if err != nil {
			return err
		}
		got, err := state(s)
		if err = errors.Join(err, s.Close()); err != nil {
			return err
		}
		if text := diff(got, d.want); text != "" {
			return errors.New("differs:\n" + text)
		}
		return nil
	}}
}

// copyOf makes a file system of a backup set.
func copyOf(set *BackupSet, from vfs.FS) (*vfstest.FS, error) {
	fs := vfstest.New()
	if err := meta.Create(fs, "/data/meta", set.Catalog); err != nil {
		return nil, err
	}
	for _, l := range set.Series {
		b := make([]byte, l.Size)
		if _, err := l.File.ReadAt(b, 0); err != nil {
			return nil, err
		}
		if err := fs.Put(path.Join("/data", layout.DatabaseDir(l.Database), "series", series.LogName), b); err != nil {
			return nil, err
		}
	}
	for _, e := range set.Shards {
		files := map[string][]byte{manifest.Name: e.Encoded}
		for _, f := range slices.Concat(e.Manifest.TSM, e.Manifest.TSI) {
			b, err := vfs.ReadFile(from, path.Join(e.Dir, f.Name))
			if err != nil {
				return nil, err
			}
			files[f.Name] = b
		}
		for name, b := range files {
			if err := fs.Put(path.Join(e.Dir, name), b); err != nil {
				return nil, err
			}
		}
	}
	return fs, nil
}

// restart closes the store and opens it again.
func (d *driver) restart() error {
	if err := d.s.Close(); err != nil {
		return err
	}
	s, err := Open("/data", d.opt)
	if err != nil {
		return err
	}
	d.s.Store = s
	return nil
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

// state returns everything a store holds of the oracle.
func state(s *Store) (points, error) {
	got := points{}
	if s.Catalog().Database("db") != nil {
		var err error
		if got, err = readAll(s, "db", false); err != nil {
			return nil, err
		}
		back, err := readAll(s, "db", true)
		if err != nil {
			return nil, err
		}
		if text := diff(back, got); text != "" {
			return nil, errors.New("descending differs:\n" + text)
		}
	}
	for _, u := range s.Catalog().Users {
		got[userKey(u.Name)] = ""
	}
	return got, nil
}

// check compares the store with the oracle; values that were cut off may be
// there or not, and are known from then on.
func (d *driver) check(s *testStore) error {
	got, err := state(s.Store)
	if err != nil {
		return err
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
