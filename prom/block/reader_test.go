package block_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/block"
)

// sample is a value or a histogram at a time in milliseconds.
type sample struct {
	t, start int64
	v        float64
	h        *histogram.Histogram
}

// series has a chunk for each list of samples.
type series struct {
	labels  labels.Labels
	chunks  [][]sample
	deleted tombstones.Intervals
}

// write writes a block with Prometheus' own writers.
func write(t *testing.T, dir string, meta map[string]any, list []series) {
	t.Helper()
	slices.SortFunc(list, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(filepath.Join(dir, "chunks"), 0o700))
	data, err := chunks.NewWriter(filepath.Join(dir, "chunks"))
	check(err)
	names, err := index.NewWriter(context.Background(), filepath.Join(dir, "index"))
	check(err)
	var symbols []string
	for _, s := range list {
		s.labels.Range(func(l labels.Label) { symbols = append(symbols, l.Name, l.Value) })
	}
	slices.Sort(symbols)
	for _, s := range slices.Compact(symbols) {
		check(names.AddSymbol(s))
	}
	stones := tombstones.NewMemTombstones()
	samples, first, last := 0, int64(math.MaxInt64), int64(math.MinInt64)
	for i, s := range list {
		var metas []chunks.Meta
		for _, part := range s.chunks {
			metas = append(metas, chunks.Meta{Chunk: chunk(t, part), MinTime: part[0].t, MaxTime: part[len(part)-1].t})
			samples += len(part)
			first, last = min(first, part[0].t), max(last, part[len(part)-1].t)
		}
		check(data.WriteChunks(metas...))
		check(names.AddSeries(storage.SeriesRef(i), s.labels, metas...))
	}
	check(data.Close())
	check(names.Close())
	read, err := index.NewFileReader(filepath.Join(dir, "index"), index.DecodePostingsRaw)
	check(err)
	postings, err := read.Postings(context.Background(), "", "")
	check(err)
	for i := 0; postings.Next(); i++ {
		stones.AddInterval(postings.At(), list[i].deleted...)
	}
	check(read.Close())
	_, err = tombstones.WriteFile(slog.New(slog.DiscardHandler), dir, stones)
	check(err)
	all := map[string]any{
		"ulid": "01BKGTZQ1SYQJTR4PB43C8PD98", "version": 1, "minTime": first, "maxTime": last + 1,
		"stats": map[string]any{"numSamples": samples, "numSeries": len(list)},
	}
	for k, v := range meta {
		all[k] = v
	}
	text, err := json.Marshal(all)
	check(err)
	check(os.WriteFile(filepath.Join(dir, "meta.json"), text, 0o600))
}

func chunk(t *testing.T, part []sample) chunkenc.Chunk {
	t.Helper()
	var c chunkenc.Chunk = chunkenc.NewXORChunk()
	switch {
	case part[0].h != nil:
		c = chunkenc.NewHistogramChunk()
	case part[0].start != 0:
		c = chunkenc.NewXOR2Chunk()
	}
	app, err := c.Appender()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range part {
		if s.h == nil {
			app.Append(s.start, s.t, s.v)
		} else if _, _, app, err = app.AppendHistogram(nil, s.start, s.t, s.h, true); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func floats(from, step int64, values ...float64) (out []sample) {
	for i, v := range values {
		out = append(out, sample{t: from + int64(i)*step, v: v})
	}
	return out
}

// told collects what a reader leaves out.
type told struct {
	refused, damaged []string
}

func (l *told) options() block.Options {
	return block.Options{
		Range: model.AllTime,
		Refused: func(series string, samples int, reason string) {
			l.refused = append(l.refused, fmt.Sprintf("%s: %d: %s", series, samples, reason))
		},
		Damaged: func(err error) { l.damaged = append(l.damaged, err.Error()) },
	}
}

// lines reads a block in parts of n series and returns its rows as line protocol.
func lines(t *testing.T, dir string, opt block.Options, n int) []string {
	t.Helper()
	d, err := block.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, b := range d.Blocks {
		r, err := block.Open(b, opt)
		if err != nil {
			t.Fatal(err)
		}
		for done := int64(0); done < b.Series; done += int64(n) {
			if err := r.Part(n); err != nil {
				t.Fatal(err)
			}
			in, err := rows.Lines(t.Context(), r, "d", "rp")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.Split(strings.TrimSpace(string(text)), "\n")[2:]...)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// same fails if two lists of lines differ.
func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRows: what Prometheus can store comes as rows in the mapping of package prom.
func TestRows(t *testing.T) {
	dir := t.TempDir()
	h := &histogram.Histogram{Count: 3, Sum: 4, Schema: 1, ZeroThreshold: 0.001, ZeroCount: 1, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{2}}
	write(t, dir, nil, []series{
		{labels: labels.FromStrings("__name__", "up", "job", "a b"), chunks: [][]sample{
			floats(1000, 500, 1, math.Inf(-1), math.Float64frombits(value.StaleNaN)), floats(4000, 1000, 0.1),
		}},
		{labels: labels.FromStrings("__name__", "up", "job", "b"), chunks: [][]sample{floats(1000, 1000, 1, 2, 3, 4, 5)}, deleted: tombstones.Intervals{{Mint: 0, Maxt: 1000}, {Mint: 3000, Maxt: 4000}}},
		{labels: labels.FromStrings("__name__", "lat"), chunks: [][]sample{floats(1000, 1, 7), {{t: 2000, h: h}}, {{t: 3000, start: 500, v: 8}}}},
		{labels: labels.FromStrings("job", "nameless"), chunks: [][]sample{floats(-5, 1, 1)}},
	})
	text, err := prom.StoredHistogram(nil, &prom.Histogram{Int: h})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"lat,__name__=lat value=7 1000000000",
		`lat,__name__=lat __histogram__="` + string(text) + `" 2000000000`,
		"lat,__name__=lat __start__=500i,value=8 3000000000",
		`up,__name__=up,job=a\ b value=1 1000000000`,
		`up,__name__=up,job=a\ b value=0xfff0000000000000 1500000000`,
		`up,__name__=up,job=a\ b value=0x7ff0000000000002 2000000000`,
		`up,__name__=up,job=a\ b value=0.1 4000000000`,
		"up,__name__=up,job=b value=2 2000000000",
		"up,__name__=up,job=b value=5 5000000000",
		"prom_metric_not_specified,job=nameless value=1 -5000000",
	}
	var l told
	for _, n := range []int{1, 2, 3, 100} {
		same(t, lines(t, dir, l.options(), n), want...)
	}
	if l.refused != nil || l.damaged != nil {
		t.Errorf("refused %v, damaged %v", l.refused, l.damaged)
	}

	opt := l.options()
	opt.Range = model.TimeRange{Min: 2_000_000_000, Max: 4_000_000_000}
	for _, text := range []string{`up{job!="b"}`, `{job="nameless"}`} {
		s, err := block.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		opt.Match = append(opt.Match, s)
	}
	same(t, lines(t, dir, opt, 100), want[5:7]...)
}

// TestRefused: what cannot be stored is told, and the rest is read.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, nil, []series{
		{labels: labels.FromStrings("__name__", "m", "a", "x\ny"), chunks: [][]sample{floats(1, 1, 1, 2), floats(3, 1, 3)}},
		{labels: labels.FromStrings("__name__", "m", "a", "z"), chunks: [][]sample{{{t: math.MinInt64 + 5, v: 1}, {t: 5, v: 2}}}},
	})
	var l told
	same(t, lines(t, dir, l.options(), 9), "m,__name__=m,a=z value=2 5000000")
	if len(l.refused) != 2 || !strings.Contains(l.refused[0], `a="x\ny"}: 3: `) || !strings.Contains(l.refused[1], "out of range") || l.damaged != nil {
		t.Errorf("refused %q, damaged %q", l.refused, l.damaged)
	}
}

// TestDamage flips each byte of a block, and cuts its files: no read panics, and a row
// that is read is one that was written.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, nil, []series{
		{labels: labels.FromStrings("__name__", "m", "a", "1"), chunks: [][]sample{floats(1000, 1000, 1, 2, 3), floats(4000, 1000, 4)}},
		{labels: labels.FromStrings("__name__", "m", "a", "2"), chunks: [][]sample{floats(1000, 1000, 5, 6)}, deleted: tombstones.Intervals{{Mint: 2000, Maxt: 2000}}},
	})
	var l told
	good := lines(t, dir, l.options(), 9)
	read := func(name string, at int) (got []string, told told) {
		d, err := block.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := block.Open(d.Blocks[0], told.options())
		if err != nil {
			return nil, told
		}
		defer r.Close()
		if err := r.Part(9); err != nil {
			return nil, told
		}
		in, err := rows.Lines(t.Context(), r, "d", "rp")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		got = strings.Split(strings.TrimSpace(string(text)), "\n")[2:]
		for _, line := range got {
			if !slices.Contains(good, line) {
				t.Errorf("%s, byte %d: row %s was not written", name, at, line)
			}
		}
		if len(got) < len(good) && err == nil && told.damaged == nil && told.refused == nil {
			t.Errorf("%s, byte %d: %d of %d rows, and no word of it", name, at, len(got), len(good))
		}
		return got, told
	}
	for _, name := range []string{"chunks/000001", "tombstones", "index"} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		put := func(b []byte) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for at := range whole {
			b := slices.Clone(whole)
			b[at] ^= 0x41
			put(b)
			read(name, at)
			put(whole[:at])
			read(name+" cut", at)
		}
		put(whole)
	}

	// One chunk of four is damaged: its file and offset are told, the others are read.
	path := filepath.Join(dir, "chunks/000001")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[12] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	got, found := read("a chunk", 12)
	same(t, got, good[3:]...)
	if want := path + `: offset 8: series {__name__="m", a="1"}: checksum mismatch`; len(found.damaged) != 1 || !strings.HasPrefix(found.damaged[0], want) {
		t.Errorf("damage %q, want %s", found.damaged, want)
	}
}

// TestList: what of a directory is read, and what not.
func TestList(t *testing.T) {
	one := []series{{labels: labels.FromStrings("__name__", "m"), chunks: [][]sample{floats(1000, 1, 1)}}}
	later := []series{{labels: labels.FromStrings("__name__", "m"), chunks: [][]sample{floats(9000, 1, 1)}}}
	id := func(n int) string { return fmt.Sprintf("01BKGTZQ1SYQJTR4PB43C8PD%02d", n) }
	dir := t.TempDir()
	write(t, filepath.Join(dir, id(3)), map[string]any{"ulid": id(3)}, later)
	write(t, filepath.Join(dir, id(4)), map[string]any{"ulid": id(4)}, one)
	write(t, filepath.Join(dir, id(5)), map[string]any{"ulid": id(5), "compaction": map[string]any{"deletable": true}}, one)
	write(t, filepath.Join(dir, id(6)), map[string]any{"ulid": id(6)}, one)
	write(t, filepath.Join(dir, id(7)), map[string]any{"ulid": id(7), "compaction": map[string]any{"parents": []any{map[string]any{"ulid": id(6)}}}}, one)
	for _, name := range []string{id(8) + ".tmp-for-creation", "wal", id(9)} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"wal/00000001", id(9) + "/index", "lock"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := block.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, b := range d.Blocks {
		ids = append(ids, b.ID)
	}
	same(t, ids, id(4), id(7), id(3))
	if b := d.Blocks[2]; b.Range != (model.TimeRange{Min: 9_000_000_000, Max: 9_000_000_000}) || b.Series != 1 || b.Samples != 1 || b.Bytes < 100 {
		t.Errorf("block %+v", b)
	}
	if notes := strings.Join(d.Notes, "\n"); len(d.Notes) != 3 || !strings.Contains(notes, "creation is not whole") || !strings.Contains(notes, "wal is not read") || !strings.Contains(notes, "half a block") {
		t.Errorf("notes\n%s", notes)
	}
	if d, err := block.List(filepath.Join(dir, id(3))); err != nil || len(d.Blocks) != 1 {
		t.Errorf("a single block: %+v, %v", d, err)
	}

	for want, make := range map[string]func(dir string) error{
		"no block of Prometheus: give": func(string) error { return nil },
		"no whole block: ":             func(dir string) error { return os.Mkdir(filepath.Join(dir, "x.tmp-for-deletion"), 0o700) },
		"version 2; versions": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "meta.json"), []byte(`{"ulid":"x","version":2}`), 0o600)
		},
		"is not that of a block": func(dir string) error { return os.WriteFile(filepath.Join(dir, "meta.json"), []byte(`{}`), 0o600) },
		"unexpected end of JSON": func(dir string) error { return os.WriteFile(filepath.Join(dir, "meta.json"), []byte(`{`), 0o600) },
	} {
		dir := t.TempDir()
		if err := make(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := block.List(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := block.List(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
