package exchange

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"
	"golang.org/x/sync/errgroup"

	"tsdbd/internal/vfs"
	"tsdbd/lineproto/wire"
	"tsdbd/meta"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/syntax"
)

// Source is a store to export from.
type Source interface {
	Catalog() *meta.Data
	scan.Storage
}

// ExportOptions say what is exported and how. The zero value exports all.
type ExportOptions struct {
	Filter  Filter
	Gzip    bool
	Workers int // default: the number of CPUs
	// LinesOnly leaves out the headers that tell Import where lines belong and
	// how databases are made.
	LinesOnly bool
	// NewDatabase and NewPolicy stand in the headers instead of the names in
	// the catalog; with a Filter that chooses one database, and one policy.
	NewDatabase, NewPolicy string
	// SkipDefinitions leaves out the statements that make the databases.
	SkipDefinitions bool
	Progress        func(points int64) // called often, by one goroutine at a time
}

// exportBlock is the size at which a worker writes its lines.
const exportBlock = 256 << 10

// Export writes the chosen points of src to w as line protocol with times in
// nanoseconds, and returns their number. Lines of one series come in order of
// time within a shard, and shards in order of time; series come in any order.
// Gzipped output is a file of several members.
func Export(ctx context.Context, src Source, w io.Writer, opt ExportOptions) (int64, error) {
	data := src.Catalog()
	if err := opt.Filter.Check(data); err != nil {
		return 0, err
	}
	if opt.NewDatabase != "" && opt.Filter.Database == "" || opt.NewPolicy != "" && opt.Filter.RetentionPolicy == "" {
		return 0, errors.New("a new name needs the one database, or retention policy, that gets it")
	}
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	x := &exporter{src: src, w: w, opt: opt}
	if !opt.LinesOnly {
		if err := x.text(x.definitions(data)); err != nil {
			return 0, err
		}
	}
	for _, d := range data.Databases {
		for _, rp := range d.RetentionPolicies {
			if opt.Filter.WantsPolicy(d, rp) {
				if err := x.policy(ctx, d, rp); err != nil {
					return x.points, fmt.Errorf("export %s.%s: %w", d.Name, rp.Name, err)
				}
			}
		}
	}
	return x.points, nil
}

type exporter struct {
	src    Source
	opt    ExportOptions
	mu     sync.Mutex // for w and points while workers run
	w      io.Writer
	points int64
}

// text writes headers.
func (x *exporter) text(s string) error {
	b := []byte(s)
	if x.opt.Gzip {
		b = compress(b)
	}
	_, err := x.w.Write(b)
	return err
}

// compress returns b as a gzip member of its own: concatenated, members make a
// file that every gunzip reads.
func compress(b []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func (x *exporter) names(d *meta.Database, rp *meta.RetentionPolicy) (db, policy string) {
	return cmp.Or(x.opt.NewDatabase, d.Name), cmp.Or(x.opt.NewPolicy, rp.Name)
}

// ExportTitle begins the first line of an export.
const ExportTitle = "TSDBD EXPORT:"

// definitions returns the statements that make the chosen databases.
func (x *exporter) definitions(data *meta.Data) string {
	var b strings.Builder
	t := x.opt.Filter.Times()
	fmt.Fprintf(&b, "# "+ExportTitle+" %s - %s\n", timestamp(t.Min), timestamp(t.Max))
	if !x.opt.SkipDefinitions {
		b.WriteString("# DDL\n")
		for _, d := range data.Databases {
			policies := x.opt.Filter.policies(d)
			for _, s := range append(createStatements(d, policies, x.opt.NewDatabase, x.opt.NewPolicy), coldStatements(d, policies, x.opt.NewDatabase, x.opt.NewPolicy)...) {
				b.WriteString(s + "\n")
			}
		}
	}
	b.WriteString("# DML\n")
	return b.String()
}

// createStatements returns the statements that make a database with these
// policies; the first becomes the default. It leaves out limits of write times,
// which would reject what is restored.
func createStatements(d *meta.Database, policies []*meta.RetentionPolicy, newDB, newRP string) []string {
	db := QuoteIdent(cmp.Or(newDB, d.Name))
	var out []string
	for i, rp := range policies {
		name := QuoteIdent(cmp.Or(newRP, rp.Name))
		duration := "INF"
		if rp.Duration > 0 {
			duration = durationText(rp.Duration)
		}
		def := fmt.Sprintf("DURATION %s REPLICATION %d SHARD DURATION %s", duration, max(rp.ReplicaN, 1), durationText(rp.ShardGroupDuration))
		if i == 0 {
			out = append(out, fmt.Sprintf("CREATE DATABASE %s WITH %s NAME %s", db, def, name))
		} else {
			out = append(out, fmt.Sprintf("CREATE RETENTION POLICY %s ON %s %s", name, db, def))
		}
	}
	return out
}

// coldStatements returns the statements that give the policies which have an age of their own for
// the cold store that age. InfluxDB, which reads exports as well, refuses them and reads on.
func coldStatements(d *meta.Database, policies []*meta.RetentionPolicy, newDB, newRP string) (out []string) {
	for _, rp := range policies {
		if rp.ColdAfter != 0 {
			st := syntax.AlterRetentionPolicy{
				AlterRetentionPolicyStatement: &influxql.AlterRetentionPolicyStatement{Name: cmp.Or(newRP, rp.Name), Database: cmp.Or(newDB, d.Name)},
				Cold:                          rp.ColdAfter,
			}
			out = append(out, st.String())
		}
	}
	return out
}

// durationText returns a duration as InfluxQL reads it.
func durationText(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dns", int64(d))
}

// QuoteIdent quotes a name for InfluxQL, also one that needs no quotes.
func QuoteIdent(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func timestamp(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }

// policy exports a retention policy, shard by shard in order of time.
func (x *exporter) policy(ctx context.Context, d *meta.Database, rp *meta.RetentionPolicy) error {
	view, err := x.opt.Filter.View(x.src, d, rp)
	if err != nil {
		return err
	}
	defer view.Release()
	if !x.opt.LinesOnly {
		db, policy := x.names(d, rp)
		if strings.ContainsAny(db+policy, "\r\n") {
			return errors.New("a name with a line break cannot be written in a header")
		}
		if err := x.text(fmt.Sprintf("# CONTEXT-DATABASE:%s\n# CONTEXT-RETENTION-POLICY:%s\n", db, policy)); err != nil {
			return err
		}
		for _, note := range scan.Notes(view, x.opt.Filter.Times()) {
			if err := x.text("# " + note + "\n"); err != nil {
				return err
			}
		}
	}
	for _, sh := range view.Shards() {
		if len(x.opt.Filter.Shards) > 0 && !slices.Contains(x.opt.Filter.Shards, sh.ID()) {
			continue
		}
		if err := x.shard(ctx, view, sh); err != nil {
			return fmt.Errorf("shard %d: %w", sh.ID(), err)
		}
	}
	return nil
}

// task is a part of a measurement's series in one shard.
type task struct {
	measurement string
	fields      []column.Field
	set         *roaring.Bitmap
}

// taskSeries is how many series one task has at most.
const taskSeries = 4096

// shard cuts the series of a shard into tasks for several workers.
func (x *exporter) shard(ctx context.Context, view scan.View, sh scan.Shard) (err error) {
	defer vfs.CatchFault(&err)()
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(x.opt.Workers)
	defer func() { err = cmp.Or(workers.Wait(), err) }()
	wanted := x.opt.Filter.Wanted()
	for _, m := range sh.Measurements() {
		if !wanted(m) {
			continue
		}
		set, err := sh.Select(ctx, m, nil)
		if err != nil {
			return err
		}
		it := set.ManyIterator()
		var ids [taskSeries]uint32
		for n := it.NextMany(ids[:]); n > 0; n = it.NextMany(ids[:]) {
			if err := ctx.Err(); err != nil {
				return err
			}
			t := &task{m, sh.Fields(m), roaring.BitmapOf(ids[:n]...)}
			workers.Go(func() error { return x.lines(ctx, view, sh, t) })
		}
	}
	return nil
}

// lines writes a task's points in blocks of whole lines.
func (x *exporter) lines(ctx context.Context, view scan.View, sh scan.Shard, t *task) (err error) {
	defer vfs.CatchFault(&err)()
	names := make([]string, len(t.fields))
	prefixes := make([]string, len(t.fields))
	for i, f := range t.fields {
		names[i], prefixes[i] = f.Key, wire.FieldPrefix(f.Key)
	}
	c, err := sh.Scan(ctx, scan.Request{Measurement: t.measurement, Series: t.set, Fields: names, Range: x.opt.Filter.Times()})
	if err != nil {
		return err
	}
	defer c.Close()
	var b []byte
	points := int64(0)
	flush := func() error {
		out := b
		if x.opt.Gzip && len(b) > 0 {
			out = compress(b)
		}
		err := x.write(ctx, out, points)
		b, points = b[:0], 0
		return err
	}
	var series []byte
	cols := make([]column.Vector, len(names))
	for {
		id, ok := c.NextSeries()
		if !ok {
			break
		}
		key, err := view.SeriesKey(id)
		if err != nil {
			return err
		}
		series = wire.AppendSeries(series[:0], key)
		for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
			times, err := ch.Times()
			if err != nil {
				return err
			}
			for i := range cols {
				v, err := ch.Column(i)
				if err != nil {
					return err
				}
				cols[i] = *v
			}
			for row, at := range times {
				start := len(b)
				if b = wire.AppendRow(b, series, prefixes, cols, row, at); len(b) == start {
					continue
				}
				points++
				if len(b) >= exportBlock {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
	}
	if err := c.Err(); err != nil {
		return err
	}
	return flush()
}

// write writes a block of lines.
func (x *exporter) write(ctx context.Context, block []byte, points int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err // of another worker
	}
	if _, err := x.w.Write(block); err != nil {
		return err
	}
	x.points += points
	if x.opt.Progress != nil {
		x.opt.Progress(x.points)
	}
	return nil
}
