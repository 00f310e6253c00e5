package shard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/script"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/series"
)

// TestCursorScripts runs the scripts testdata/cursor*.txt. They show for readers
// what a cursor hands out of files and caches that overlap, and what tombstones,
// flushes, and merges make of it.
//
// The commands:
//
//	shard [cells=N]        begins with an empty shard; caches in parts of N cells
//	write                  applies the lines that follow, as one entry of the log
//	delete SERIES FROM TO  deletes rows, as one entry of the log
//	freeze                 cuts the cache, for a flush that is to come
//	flush                  flushes what was cut, or else the cache
//	merge                  merges all files
//	reopen                 closes and opens the shard: what no file has is gone
//	read [SERIES] [desc] [FROM..TO]
//
// A line that read prints is a chunk: what it is (file: as it lies in a file, cut:
// rows of one, rows: rows in memory), its rows, and in brackets the count of values
// that the statistics of a chunk of a file have for a field.
func TestCursorScripts(t *testing.T) {
	script.Run(t, "testdata/cursor*.txt", func(t *testing.T) func(script.Command) []string {
		return (&cursorScript{t: t}).run
	})
}

// cursorScript is a shard that a script works on.
type cursorScript struct {
	t        *testing.T
	fs       *vfstest.FS
	series   *series.File
	table    *point.Table
	s        *Shard
	cut      *Snapshot
	cells    int
	sequence uint64
}

func (c *cursorScript) ok(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// run carries out a command and returns the lines of its answer.
func (c *cursorScript) run(do script.Command) []string {
	words := do.Args
	switch do.Name {
	case "shard":
		c.fs, c.table, c.cells, c.sequence = vfstest.New(), point.NewTable(1), cacheCells, 0
		if len(words) > 0 {
			n, err := strconv.Atoi(strings.TrimPrefix(words[0], "cells="))
			c.ok(err)
			c.cells = n
		}
		c.ok(c.fs.MkdirAll("/db/shard-1"))
		var err error
		c.series, err = series.Open(c.fs, "/db/series", series.Options{})
		c.ok(err)
		c.open()
	case "write":
		var p lineproto.Parser
		b := point.Batch{Database: 1}
		_, err := p.Parse(&b, c.table, []byte(strings.Join(do.Input, "\n")), lineproto.Options{})
		c.ok(err)
		for _, r := range b.Rows {
			if r.Series.ID() == 0 {
				r.Series.SetID(c.id(r.Series.Key()))
			}
		}
		c.sequence++
		c.s.Apply(c.sequence, b.Rows, b.Values, b.Strings)
	case "delete":
		from, err := strconv.ParseInt(words[1], 10, 64)
		c.ok(err)
		to, err := strconv.ParseInt(words[2], 10, 64)
		c.ok(err)
		c.sequence++
		c.ok(c.s.Delete(c.sequence, roaring.BitmapOf(uint32(c.id(words[0]))), model.TimeRange{Min: from, Max: to}))
	case "freeze":
		c.cut = c.s.Freeze(c.sequence)
	case "flush":
		if c.cut == nil {
			c.cut = c.s.Freeze(c.sequence)
		}
		c.ok(c.s.Flush(c.t.Context(), c.cut))
		c.cut = nil
	case "merge":
		_, err := c.s.Compact(c.t.Context(), true)
		c.ok(err)
	case "reopen":
		c.ok(c.s.Close())
		c.open()
	case "read":
		return c.read(words)
	default:
		c.t.Fatalf("unknown command %q", do.Name)
	}
	return nil
}

func (c *cursorScript) open() {
	var err error
	c.s, err = Open("/db/shard-1", 1, Options{FS: c.fs, Series: c.series, Range: model.AllTime})
	c.ok(err)
	c.s.cells, c.cut = c.cells, nil
}

// id returns the id of a series, which gets one if it has none.
func (c *cursorScript) id(key string) model.SeriesID {
	ids := make([]model.SeriesID, 1)
	c.ok(c.series.Claim([]string{key}, ids))
	c.series.Confirm(ids)
	return ids[0]
}

func (c *cursorScript) read(words []string) (out []string) {
	v := c.s.View()
	defer v.Release()
	req := scan.Request{Measurement: "m", Range: model.AllTime}
	for _, f := range v.Fields("m") {
		req.Fields = append(req.Fields, f.Key)
	}
	for _, w := range words {
		if from, to, ok := strings.Cut(w, ".."); ok {
			_, err := fmt.Sscan(from+" "+to, &req.Range.Min, &req.Range.Max)
			c.ok(err)
		} else if w == "desc" {
			req.Descending = true
		} else {
			req.Series = roaring.BitmapOf(uint32(c.id(w)))
		}
	}
	if req.Series == nil {
		var err error
		req.Series, err = v.Select(context.Background(), "m", nil)
		c.ok(err)
	}
	cur, err := v.Scan(context.Background(), req)
	c.ok(err)
	defer cur.Close()
	for id, ok := cur.NextSeries(); ok; id, ok = cur.NextSeries() {
		keys := ""
		c.ok(c.series.Keys([]model.SeriesID{id}, func(_ int, key string) error { keys = key; return nil }))
		out = append(out, keys)
		for ch := cur.NextChunk(); ch != nil; ch = cur.NextChunk() {
			out = append(out, "  "+c.chunk(ch, req.Fields))
		}
	}
	c.ok(cur.Err())
	if out == nil {
		return []string{"nothing"}
	}
	return out
}

func (c *cursorScript) chunk(ch scan.Chunk, fields []string) string {
	kind := "rows"
	if f, ok := ch.(*fileChunk); ok {
		if kind = "file"; f.cut {
			kind = "cut"
		}
	}
	times, err := ch.Times()
	c.ok(err)
	line := kind + ":"
	counts := ""
	for i, at := range times {
		if line += fmt.Sprintf(" %d", at); i < len(times)-1 && len(times) > 12 && i == 2 {
			line += fmt.Sprintf(" ... %d", times[len(times)-1])
			line += fmt.Sprintf(" (%d rows)", len(times))
			break
		}
		for k, name := range fields {
			v, err := ch.Column(k)
			c.ok(err)
			if v.Type != model.Unknown && v.IsValid(i) {
				line += fmt.Sprintf(" %s=%s", name, cellText(v, i))
			}
		}
	}
	for k, name := range fields {
		var st scan.Stats
		if ch.Stats(k, &st) {
			counts += fmt.Sprintf(" %s:%d", name, st.Count)
		}
	}
	if counts != "" {
		line += " [" + counts[1:] + "]"
	}
	return line
}

func cellText(v *column.Vector, i int) string {
	switch v.Type {
	case model.Float:
		return fmt.Sprint(v.Floats[i])
	case model.Integer:
		return fmt.Sprint(v.Ints[i], "i")
	case model.Unsigned:
		return fmt.Sprint(v.Uints[i], "u")
	case model.Boolean:
		return fmt.Sprint(v.Bools[i])
	}
	return fmt.Sprintf("%q", v.Strings[i])
}
