package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"tsdbd/exchange/rows"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// ExportRows passes the rows that f chooses of src to w, and returns their number. It
// closes w, or aborts it after an error. Series come in the order in which storage has
// them. progress may be nil.
func ExportRows(ctx context.Context, src Source, w rows.Writer, f Filter, progress func(rows int64)) (n int64, err error) {
	defer vfs.CatchFault(&err)()
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	data := src.Catalog()
	if err := f.Check(data); err != nil {
		return 0, err
	}
	var statements []string
	for _, d := range data.Databases {
		if policies := f.policies(d); len(policies) > 0 {
			statements = append(statements, createStatements(d, policies, "", "")...)
			statements = append(statements, coldStatements(d, policies, "", "")...)
		}
	}
	if err := w.Define(statements); err != nil {
		return 0, err
	}
	x := &rowExporter{ctx: ctx, w: w, filter: f, progress: progress}
	for _, d := range data.Databases {
		for _, rp := range d.RetentionPolicies {
			if f.WantsPolicy(d, rp) {
				if err := x.policy(src, d, rp); err != nil {
					return x.rows, fmt.Errorf("export %s.%s: %w", d.Name, rp.Name, err)
				}
			}
		}
	}
	return x.rows, w.Close()
}

type rowExporter struct {
	ctx      context.Context
	w        rows.Writer
	filter   Filter
	progress func(int64)
	rows     int64
}

// policy exports a retention policy by measurement, and a measurement by shard.
func (x *rowExporter) policy(src Source, d *meta.Database, rp *meta.RetentionPolicy) error {
	view, err := x.filter.View(src, d, rp)
	if err != nil {
		return err
	}
	defer view.Release()
	var names []string
	shards := slices.DeleteFunc(slices.Clone(view.Shards()), func(sh scan.Shard) bool {
		return len(x.filter.Shards) > 0 && !slices.Contains(x.filter.Shards, sh.ID())
	})
	for _, sh := range shards {
		names = append(names, sh.Measurements()...)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	wanted := x.filter.Wanted()
	for _, m := range names {
		if !wanted(m) {
			continue
		}
		all := rows.Table{Database: d.Name, Policy: rp.Name, Measurement: m}
		for _, sh := range shards {
			keys, err := sh.TagKeys(m)
			if err != nil {
				return fmt.Errorf("shard %d: %w", sh.ID(), err)
			}
			all.AllTagKeys = append(all.AllTagKeys, keys...)
			all.AllFields = append(all.AllFields, sh.Fields(m)...)
		}
		slices.Sort(all.AllTagKeys)
		all.AllTagKeys, all.AllFields = slices.Compact(all.AllTagKeys), column.UnionFields(all.AllFields)
		for _, sh := range shards {
			if err := x.table(view, sh, all); err != nil {
				return fmt.Errorf("shard %d: %w", sh.ID(), err)
			}
		}
	}
	return nil
}

// table exports a measurement of a shard.
func (x *rowExporter) table(view scan.View, sh scan.Shard, t rows.Table) (err error) {
	if t.Fields = sh.Fields(t.Measurement); len(t.Fields) == 0 {
		return nil
	}
	if t.TagKeys, err = sh.TagKeys(t.Measurement); err != nil {
		return err
	}
	t.Start = sh.TimeRange().Min
	set, err := sh.Select(x.ctx, t.Measurement, nil)
	if err != nil {
		return err
	}
	names := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		names[i] = f.Key
	}
	c, err := sh.Scan(x.ctx, scan.Request{Measurement: t.Measurement, Series: set, Fields: names, Range: x.filter.Times()})
	if err != nil {
		return err
	}
	defer c.Close()
	run := rows.Run{Fields: t.Fields}
	begun := false
	for {
		id, ok := c.NextSeries()
		if !ok {
			return c.Err()
		}
		if run.Key, err = view.SeriesKey(id); err != nil {
			return err
		}
		for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
			if err := chunkRows(ch, &run); err != nil {
				return err
			}
			if run.Len() == 0 {
				continue
			}
			if !begun {
				begun = true
				if err := x.w.Table(&t); err != nil {
					return err
				}
			}
			for lo := 0; lo < run.Len(); lo += rows.MaxRows {
				part := run
				if run.Len() > rows.MaxRows {
					part.Rows = run.Slice(lo, min(run.Len(), lo+rows.MaxRows), nil)
				}
				if err := x.w.Run(&part); err != nil {
					return err
				}
			}
			x.rows += int64(run.Len())
			if x.progress != nil {
				x.progress(x.rows)
			}
		}
	}
}

// chunkRows sets the rows of run to those of a chunk that have a value.
func chunkRows(ch scan.Chunk, run *rows.Run) (err error) {
	if run.Times, err = ch.Times(); err != nil {
		return err
	}
	run.Cols = run.Cols[:0]
	full := false
	for i := range run.Fields {
		v, err := ch.Column(i)
		if err != nil {
			return err
		}
		col := *v
		if col.Type == model.Unknown {
			col.Nulls(run.Fields[i].Type, run.Len())
		}
		full = full || col.Valid == nil
		run.Cols = append(run.Cols, col)
	}
	hasValue := func(row int) bool {
		return full || slices.ContainsFunc(run.Cols, func(v column.Vector) bool { return v.IsValid(row) })
	}
	for row := range run.Times {
		if !hasValue(row) { // seldom
			own := column.Rows{}
			for i := range run.Fields {
				own.Cols = append(own.Cols, column.Vector{Type: run.Fields[i].Type})
			}
			own.AppendRange(&run.Rows, 0, run.Len())
			own.Keep(hasValue, false)
			run.Rows = own
			return nil
		}
	}
	return nil
}

// ExportRows passes the rows that f chooses at the server to w, as the function of that
// name does.
func (c *Client) ExportRows(ctx context.Context, w rows.Writer, f Filter, progress func(rows int64)) (n int64, err error) {
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	p := f.Params()
	p.Set("format", "rows")
	resp, err := c.Do(ctx, http.MethodGet, PathPrefix+"export", p, http.Header{"Accept-Encoding": {"identity"}}, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != rows.StreamType {
		return 0, fmt.Errorf("export: the server answers %s, not %s: use the tsdbd of the version that the server has", got, rows.StreamType)
	}
	n, err = rows.Decode(resp.Body, &counted{Writer: w, progress: progress})
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body) // trailers come behind it
	}
	if err != nil {
		return n, fmt.Errorf("export: %w", cmp.Or(trailerError(resp), err))
	}
	if told, err := strconv.ParseInt(resp.Trailer.Get(TrailerPoints), 10, 64); err != nil || told != n {
		return n, errors.New("export: the answer has no end")
	}
	return n, w.Close()
}

// trailerError returns why an answer broke off, as far as the server has said it.
func trailerError(resp *http.Response) error {
	if e := resp.Trailer.Get(TrailerError); e != "" {
		return errors.New(e)
	}
	return nil
}

// counted is a Writer that reports the rows that pass it.
type counted struct {
	rows.Writer
	rows     int64
	progress func(int64)
}

// Run implements rows.Writer.
func (c *counted) Run(r *rows.Run) error {
	c.rows += int64(r.Len())
	if c.progress != nil {
		c.progress(c.rows)
	}
	return c.Writer.Run(r)
}
