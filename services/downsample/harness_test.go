package downsample

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/downsample"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/query/syntax"
	"tsdbd/store"
)

// harness is a store on a disk in memory, with an executor, a service and a clock.
type harness struct {
	t        testing.TB
	fs       *vfstest.FS
	store    *store.Store
	executor *query.Executor
	service  *Service
	now      time.Time
	rows     int                                      // Options.Rows
	use      downsample.Use                           // of the executor
	rewrite  bool                                     // statements may take downsamples
	notes    []string                                 // messages of the latest answer
	written  int                                      // rows that the service has written
	fail     func(measurement string, n int) error    // of writes of the service
	failAt   func(measurement string, at int64) error // of rows of the service
	memory   *admission.Memory
	lost     []scan.Loss // of the policy raw
}

// damaged is a store that has lost points.
type damaged struct {
	*store.Store
	h *harness
}

func (d damaged) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := d.Store.View(db, rp, r)
	if err != nil || rp != "raw" {
		return v, err
	}
	return scan.Whole(damagedView{v, d.h.lost}, r)
}

type damagedView struct {
	scan.View
	lost []scan.Loss
}

func (v damagedView) Losses() []scan.Loss { return v.lost }

func newHarness(t testing.TB) *harness {
	h := &harness{t: t}
	h.begin()
	return h
}

// begin begins with an empty disk.
func (h *harness) begin() {
	h.fs, h.now = vfstest.New(), time.Unix(0, 0).UTC()
	h.open()
	h.t.Cleanup(func() { _ = h.store.Close() })
}

// open opens the store as it is on the disk.
func (h *harness) open() {
	h.t.Helper()
	clock := func() time.Time { return h.now }
	var err error
	h.store, err = store.Open("data", store.Options{
		FS: h.fs, Now: clock, RetentionInterval: -1, SegmentBytes: 32 << 10, FlushBytes: 4 << 10, CloseFlush: -1,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.executor = query.New(query.Options{
		Storage: damaged{h.store, h}, Admin: h.store, Now: clock, UseDownsamples: h.use, CompleteUntil: h.store.Touched().Until,
		Downsamples: func() map[uint64]show.Progress { return h.service.Progress() },
	})
	h.service = New(Options{
		Catalog: h.store.Catalog, Storage: damaged{h.store, h}, Marks: h.store.Touched(), Applied: h.store.Applied, Now: clock, Rows: h.rows,
		Logger: slog.New(slog.DiscardHandler),
		Execute: func(ctx context.Context, db string, q *influxql.Query, rows func(*result.Series) error) error {
			return h.execute(ctx, db, q, rows)
		},
		Write: h.write, Delete: h.store.Delete,
		Complete: func(ctx context.Context, cmd meta.CompleteWindows) error { return h.store.Apply(ctx, cmd) },
		Memory:   h.memory,
	})
}

// everyTime lets the next round visit all downsamples.
func (s *Service) everyTime() {
	for _, t := range s.tasks {
		t.next = time.Time{}
	}
}

// crash kills the server, and maybe the power with it, and starts it again.
func (h *harness) crash(keep float64) {
	h.t.Helper()
	after := h.fs.CrashLocked(rand.New(rand.NewPCG(1, 2)), keep)
	_ = h.store.Close()
	h.fs = after
	h.open()
}

func (h *harness) execute(ctx context.Context, db string, q *influxql.Query, rows func(*result.Series) error) error {
	var failed error
	err := h.executor.Execute(ctx, q, query.ExecuteOptions{Database: db, ChunkSize: 7, SourceOnly: !h.rewrite, Hints: true}, func(r *result.Result) error {
		failed = errors.Join(failed, r.Err)
		for _, m := range r.Messages {
			h.notes = append(h.notes, m.Text)
		}
		for _, s := range r.Series {
			if err := rows(s); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, failed)
}

// write stores rows as the server does.
func (h *harness) write(ctx context.Context, batches []*result.IntoBatch) error {
	table, err := h.store.Table("d")
	if err != nil {
		return err
	}
	var b point.Batch
	rows := point.NewBuilder(table, &b)
	for _, in := range batches {
		if h.fail != nil {
			if err := h.fail(in.Measurement, len(in.Times)); err != nil {
				return err
			}
		}
		for _, at := range in.Times {
			if h.failAt != nil {
				if err := h.failAt(in.Measurement, at); err != nil {
					return err
				}
			}
		}
		h.written += len(in.Times)
		for i, at := range in.Times {
			for k := range in.Columns {
				v, key := &in.Columns[k], in.Fields[k]
				if !v.IsValid(i) {
					continue
				}
				switch v.Type {
				case model.Float:
					rows.Float(key, v.Floats[i])
				case model.Integer:
					rows.Integer(key, v.Ints[i])
				case model.Unsigned:
					rows.Unsigned(key, v.Uints[i])
				case model.Boolean:
					rows.Boolean(key, v.Bools[i])
				case model.String:
					rows.String(key, v.Strings[i])
				}
			}
			_ = rows.Series(in.Measurement, in.Tags)
			if err := rows.Row(at); err != nil {
				return err
			}
		}
	}
	b.Frees = batches[0].Frees
	return h.store.Write(ctx, "d", batches[0].RetentionPolicy, &b)
}

// load writes line protocol with times in seconds.
func (h *harness) load(policy, lines string) error {
	table, err := h.store.Table("d")
	if err != nil {
		return err
	}
	var b point.Batch
	var p lineproto.Parser
	if _, err := p.Parse(&b, table, []byte(lines), lineproto.Options{Unit: 1e9}); err != nil {
		return err
	}
	return h.store.Write(context.Background(), "d", policy, &b)
}

// ask runs statements and returns their answer as text.
func (h *harness) ask(text string) string {
	q, err := syntax.Parse(text, nil)
	if err != nil {
		return "ERR: " + err.Error()
	}
	var b strings.Builder
	err = h.execute(context.Background(), "d", q, func(s *result.Series) error {
		writeTable(&b, s)
		return nil
	})
	if err != nil {
		return "ERR: " + err.Error()
	}
	return b.String()
}

// must runs statements that succeed.
func (h *harness) must(text string) {
	h.t.Helper()
	if got := h.ask(text); strings.HasPrefix(got, "ERR") {
		h.t.Fatalf("%s: %s", text, got)
	}
}

// settle lets the service compute until nothing is waiting.
func (h *harness) settle() error {
	for range 1000 {
		h.service.everyTime()
		h.service.round(context.Background())
		waiting := int64(0)
		for _, progress := range h.service.Progress() {
			if progress.Err != "" {
				return errors.New(progress.Err)
			}
			waiting += progress.Waiting
		}
		if waiting == 0 {
			return nil
		}
	}
	return errors.New("windows are waiting without end")
}

// writeTable writes a table in lines: tags, columns, rows; times as times of day.
func writeTable(b *strings.Builder, s *result.Series) {
	b.WriteString(s.Name)
	for _, t := range s.Tags {
		if t.Value != "" {
			fmt.Fprintf(b, ",%s=%s", t.Key, t.Value)
		}
	}
	b.WriteString("\n")
	for i := range s.Rows {
		var cells []string
		for k := range s.Columns {
			v := &s.Values[k]
			switch {
			case k == s.Time:
				cells = append(cells, time.Unix(0, v.Ints[i]).UTC().Format("2006-01-02T15:04:05Z"))
			case v.Type == model.Unknown || !v.IsValid(i):
			default:
				cells = append(cells, s.Columns[k]+"="+cellText(v, i))
			}
		}
		b.WriteString("  " + strings.Join(cells, " ") + "\n")
	}
}

func cellText(v *column.Vector, i int) string {
	switch v.Type {
	case model.Float:
		return strconv.FormatFloat(v.Floats[i], 'g', -1, 64)
	case model.Integer:
		return strconv.FormatInt(v.Ints[i], 10)
	case model.Unsigned:
		return strconv.FormatUint(v.Uints[i], 10)
	case model.Boolean:
		return strconv.FormatBool(v.Bools[i])
	}
	return strconv.Quote(v.Strings[i])
}

// contents returns the rows of a statement by series and time.
func (h *harness) contents(text string) map[string]string {
	h.t.Helper()
	q, err := syntax.Parse(text, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]string{}
	err = h.execute(context.Background(), "d", q, func(s *result.Series) error {
		one := *s
		for i := range s.Rows {
			one.Rows = 1
			one.Values = nil
			for k := range s.Values {
				one.Values = append(one.Values, s.Values[k].Slice(i, i+1))
			}
			var b strings.Builder
			writeTable(&b, &one)
			head, row, _ := strings.Cut(b.String(), "\n")
			at, cells, some := strings.Cut(strings.TrimSpace(row), " ")
			if some {
				list := strings.Fields(cells)
				slices.Sort(list)
				out[head+" "+at] = strings.Join(list, " ")
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatalf("%s: %v", text, err)
	}
	return out
}
