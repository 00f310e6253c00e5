package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/tsm"
)

// put applies rows of one series with the field f, at from, from+step ...
func (b *bench) put(series, n int, from, step int64) {
	var batch point.Batch
	b.sequence++
	for i := range n {
		b.row(&batch, b.series[series], from+int64(i)*step, 2)
	}
	b.s.Apply(b.sequence, batch.Rows, batch.Values, batch.Strings)
}

func (b *bench) flush() {
	b.t.Helper()
	if snap := b.s.Freeze(b.sequence); snap != nil {
		if err := b.s.Flush(context.Background(), snap); err != nil {
			b.t.Fatal(err)
		}
	}
}

// hide deletes rows of a series.
func (b *bench) hide(series int, times model.TimeRange) {
	b.t.Helper()
	b.sequence++
	id := b.series[series].ID()
	if err := b.s.Delete(b.sequence, roaring.BitmapOf(uint32(id)), times); err != nil {
		b.t.Fatal(err)
	}
	for at := range b.want.rows[id] {
		if times.Contains(at) {
			delete(b.want.rows[id], at)
		}
	}
}

// compact merges until nothing is left to do and returns the number of steps.
func (b *bench) compact(cold bool) int {
	b.t.Helper()
	for n := 0; ; n++ {
		did, err := b.s.Compact(context.Background(), cold)
		if err != nil {
			b.t.Fatal(err)
		}
		if !did {
			return n
		}
		if n > 100 {
			b.t.Fatal("compaction does not end")
		}
	}
}

func (b *bench) reopen() {
	b.t.Helper()
	b.flush()
	if err := b.s.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

// loseManifest removes both copies.
func (b *bench) loseManifest() {
	b.t.Helper()
	for _, name := range manifest.Names {
		if err := b.fs.Remove("/db/shard-1/" + name); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) checks() {
	b.t.Helper()
	for range 20 {
		b.check()
	}
}

func fixed(t *testing.T) *bench {
	b := newBench(t, rand.New(rand.NewPCG(1, 1)))
	b.s.maxFile, b.s.cells = plan.MaxFileBytes, cacheCells
	return b
}

// TestMergeSplits has a merge write a file per series: reads, walks in file
// order, restarts, tombstones, later merges and a lost manifest must not tell
// them from one file.
func TestMergeSplits(t *testing.T) {
	b := fixed(t)
	b.s.maxFile = 1
	for round := range 3 {
		for series := range b.series {
			b.put(series, 1500, int64(round)*700, 1)
		}
		b.flush()
	}
	b.compact(true)
	v := b.s.View()
	if n := len(v.set.files); n != len(b.series) {
		t.Fatalf("%d files, want one per series", n)
	}
	for _, f := range v.set.files {
		if !f.splits(v.set.files[0]) || f.reader.Len() != 1 {
			t.Fatalf("file %s covers %d to %d and has %d series", f.Name, f.MinSequence, f.MaxSequence, f.reader.Len())
		}
	}
	set := roaring.New()
	for _, sr := range b.series {
		set.Add(uint32(sr.ID()))
	}
	v.caches = nil // empty
	cur, err := v.Scan(context.Background(), scan.Request{Measurement: "m", Series: set, Fields: []string{"f"}, Range: model.AllTime})
	if err != nil {
		t.Fatal(err)
	}
	if cur.(*cursor).walk.byID != nil {
		t.Error("files that split the series are not walked in their order")
	}
	found := 0
	for _, ok := cur.NextSeries(); ok; _, ok = cur.NextSeries() {
		found++
	}
	if found != len(b.series) {
		t.Errorf("%d series, want %d", found, len(b.series))
	}
	v.Release()
	b.checks()
	b.reopen()
	b.checks()

	b.s.maxFile = 1
	b.hide(1, model.TimeRange{Min: 0, Max: 1500})
	b.checks()
	b.reopen()
	b.compact(true)
	b.checks()
	if bytes, _ := b.s.DiskBytes(); bytes == 0 || len(b.s.mu.set.Tombstones) != 0 {
		t.Errorf("%d tombstones left", len(b.s.mu.set.Tombstones))
	}
	b.put(2, 900, 100, 3)
	b.flush()
	b.compact(true)
	b.checks()

	// The manifest is lost.
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.loseManifest()
	b.open()
	b.checks()
}

// TestManifestLostInMerge loses the manifest while a merge has written some of
// its files: what it read still counts.
func TestManifestLostInMerge(t *testing.T) {
	for keep := range 5 {
		b := fixed(t)
		for round := range 3 {
			for series := range b.series {
				b.put(series, 500, int64(round)*300, 1)
			}
			b.flush()
		}
		b.s.maxFile = 1
		v := b.s.View()
		rec := manifest.File{Level: 1, MinSequence: v.set.files[0].MinSequence, MaxSequence: v.set.files[2].MaxSequence}
		m := newMerger(context.Background(), b.s, v, 0, 3, rec)
		records, err := m.run()
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records[keep:] {
			if err := b.fs.Remove("/db/shard-1/" + rec.Name); err != nil {
				t.Fatal(err)
			}
		}
		v.Release()
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		b.loseManifest()
		b.open()
		b.checks()
		want := 3 + keep
		if keep == 4 {
			want = 4 // the merge is whole
		}
		if n := len(b.s.mu.set.files); n != want {
			t.Errorf("%d of 4 files of the merge there: %d files count, want %d", keep, n, want)
		}
		b.put(3, 100, 200, 1)
		b.flush()
		b.compact(true)
		b.checks()
	}
}

// TestTombstonesSettle deletes nothing, over and over, and a little, over and
// over: neither may keep merges busy or tombstones pile up.
func TestTombstonesSettle(t *testing.T) {
	b := fixed(t)
	for series := range b.series {
		b.put(series, 3000, 0, 10)
	}
	b.flush()
	before := b.s.counters.Written()
	for i := range 200 {
		b.hide(i%4, model.TimeRange{Min: 101, Max: 109}) // between two rows
		b.flush()
		b.compact(false)
		if n := len(b.s.mu.set.Tombstones); n > warmTombstones {
			t.Fatalf("%d tombstones that hide nothing", n)
		}
	}
	if n := b.s.counters.Written() - before; n != 0 {
		t.Errorf("%d bytes written to delete nothing", n)
	}
	size, _ := b.s.DiskBytes()
	for i := range 300 {
		b.hide(i%4, model.TimeRange{Min: int64(i) * 20, Max: int64(i) * 20})
		b.compact(false)
		if n := len(b.s.mu.set.Tombstones); n > plan.MaxTombstones+1 {
			t.Fatalf("%d tombstones", n)
		}
	}
	if n := b.s.counters.Written() - before; n > 8*size {
		t.Errorf("%d bytes written to delete 300 rows from %d", n, size)
	}
	b.checks()
	b.hide(0, model.AllTime)
	b.hide(1, model.AllTime)
	before = b.s.counters.Merges[0].Load()
	b.compact(false)
	if n := b.s.counters.Merges[0].Load() - before; n != 1 {
		t.Errorf("%d merges after half of the rows were deleted, want 1", n)
	}
	if after, _ := b.s.DiskBytes(); after > size*2/3 {
		t.Errorf("%d bytes of %d left", after, size)
	}
	b.checks()
}

// TestDamagedFileIsLeftAlone damages a chunk of one of many files: one merge
// fails, the others go on around the file, and nothing is tried again.
func TestDamagedFileIsLeftAlone(t *testing.T) {
	b := fixed(t)
	for round := range 9 {
		for series := range b.series {
			b.put(series, 700, int64(round)*1000, 1)
		}
		b.flush()
	}
	v := b.s.View()
	hurt := v.set.files[4]
	path := hurt.reader.Path()
	v.Release()
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := vfs.ReadFile(b.fs, path)
	if err != nil {
		t.Fatal(err)
	}
	content[100] ^= 1 // in a chunk
	f, err := b.fs.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	b.open()
	failed, steps := 0, 0
	for ; steps < 100; steps++ {
		did, err := b.s.Compact(context.Background(), true)
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			failed++
			continue
		}
		if !did {
			break
		}
	}
	if failed != 1 || steps > 10 {
		t.Errorf("%d merges failed in %d steps, want 1", failed, steps)
	}
	if _, err := b.fs.Stat(path); err != nil {
		t.Errorf("the damaged file: %v", err)
	}
	left := 0
	for _, name := range b.fs.Files() {
		if strings.HasSuffix(name, ".tsm") {
			left++
		}
	}
	if n := len(b.s.mu.set.files); left != n {
		t.Errorf("%d files on disk, %d count", left, n)
	}
	if q := b.s.CompactionQueue(true); q != 0 {
		t.Errorf("%d files queued", q)
	}
	if d := b.s.Damaged(); len(d) != 1 || d[0].Path != path {
		t.Errorf("damaged: %v", d)
	}
	// A read that meets the damage marks the file as well: no merge fails then.
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	if _, err := readRows(b.s); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("read: %v", err)
	}
	if d := b.s.Damaged(); len(d) != 1 || d[0].Path != path {
		t.Errorf("damaged after a read: %v", d)
	}
	if _, err := b.s.Compact(context.Background(), true); err != nil {
		t.Errorf("merge: %v", err)
	}
}

// TestMergeStops ends merges at many points: nothing more is written and no file
// is left behind; and closes the shard in the middle of one.
func TestMergeStops(t *testing.T) {
	b := fixed(t)
	for round := range 4 {
		for series := range b.series {
			b.put(series, 20_000, int64(round), 4)
		}
		b.flush()
	}
	files := b.fs.Files()
	for stop := range 12 {
		ctx, cancel := context.WithCancel(context.Background())
		calls := 0
		b.s.pace = func(ctx context.Context, _ int) error {
			if calls++; calls > stop {
				cancel()
			}
			return ctx.Err()
		}
		written := 0
		b.fs.SetHook(func(op vfstest.Op) error {
			if op.Kind == "write" && ctx.Err() != nil {
				written += op.Size
			}
			return nil
		})
		_, err := b.s.Compact(ctx, true)
		b.fs.SetHook(nil)
		cancel()
		if err == nil {
			if stop < 4 {
				t.Fatalf("merge paused %d times only", calls)
			}
			break
		}
		if !errors.Is(err, context.Canceled) || calls != stop+1 || written > 0 {
			t.Errorf("stopped with %v, paused %d times more, wrote %d bytes", err, calls-stop-1, written)
		}
		if left := b.fs.Files(); !slices.Equal(left, files) {
			t.Fatalf("files %v, were %v", left, files)
		}
	}
	b.put(0, 10, 0, 1)
	b.flush()
	entered := make(chan struct{}, 1)
	b.s.pace = func(ctx context.Context, _ int) error {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-ctx.Done() // as one that waits for its turn
		return ctx.Err()
	}
	done := make(chan error)
	go func() {
		_, err := b.s.Compact(context.Background(), true)
		done <- err
	}()
	<-entered
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLongText flushes and merges texts of up to 1 MiB: chunks are cut by
// bytes, and a merge holds a few chunks.
func TestLongText(t *testing.T) {
	b := fixed(t)
	fields := []column.Field{{Key: "s", Type: model.String}}
	layout := b.table.Layout("m", fields)
	text := []byte(strings.Repeat("abcdefgh", 1<<17))
	want := map[int64]int{}
	for round := range 4 {
		var batch point.Batch
		b.sequence++
		for i := range 40 {
			n := len(text) - i*1000 - round
			at := int64(4*i + round)
			want[at] = n
			batch.Rows = append(batch.Rows, point.Row{Series: b.series[0], Layout: layout, Time: at, First: uint32(len(batch.Values))})
			batch.Values = append(batch.Values, column.StringWord(len(batch.Strings), n))
			batch.Strings = append(batch.Strings, text[:n]...)
		}
		b.s.Apply(b.sequence, batch.Rows, batch.Values, batch.Strings)
		b.flush()
	}
	check := func() {
		t.Helper()
		v := b.s.View()
		defer v.Release()
		for i := range v.set.files {
			src := v.set.source(t.Context(), i)
			if err := src.load(0); err != nil {
				t.Fatal(err)
			}
			for _, e := range src.series.Chunks {
				if e.Rows > 5 {
					t.Errorf("chunk of %d rows of a megabyte", e.Rows)
				}
			}
		}
		charged, largest := int64(0), int64(0)
		req := scan.Request{Measurement: "m", Series: roaring.BitmapOf(uint32(b.series[0].ID())), Fields: []string{"s"}, Range: model.AllTime}
		req.Charge = func(n int64) error {
			charged += n
			largest = max(largest, charged)
			return nil
		}
		cur, err := v.Scan(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, ok := cur.NextSeries(); ok; _, ok = cur.NextSeries() {
			for ch := cur.NextChunk(); ch != nil; ch = cur.NextChunk() {
				ts, _ := ch.Times()
				col, err := ch.Column(0)
				if err != nil {
					t.Fatal(err)
				}
				held := int64(0)
				for _, text := range col.Strings {
					held += int64(len(text))
				}
				if charged < held {
					t.Errorf("%d bytes are charged for %d", charged, held)
				}
				for i, at := range ts {
					if len(col.Strings[i]) != want[at] {
						t.Fatalf("text of %d bytes at %d, want %d", len(col.Strings[i]), at, want[at])
					}
					rows++
				}
			}
		}
		if rows != len(want) || cur.Err() != nil {
			t.Fatalf("%d rows, want %d: %v", rows, len(want), cur.Err())
		}
		if cur.Close(); charged != 0 || largest > 2*clusterPieces*tsm.ChunkText {
			t.Errorf("%d bytes are charged after Close, %d at most", charged, largest)
		}
		// A charge that is refused ends the walk.
		refused := errors.New("too much")
		req.Charge = func(int64) error { return refused }
		if cur, err = v.Scan(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		err = nil
		for _, ok := cur.NextSeries(); ok && err == nil; _, ok = cur.NextSeries() {
			for ch := cur.NextChunk(); ch != nil && err == nil; ch = cur.NextChunk() {
				_, err = ch.Column(0)
			}
		}
		if err = errors.Join(err, cur.Err()); !errors.Is(err, refused) {
			t.Errorf("a charge was refused: %v", err)
		}
	}
	check()
	b.compact(true)
	check()
}

// TestMergeMemory merges a series of a million rows in files whose chunks
// overlap throughout: what is in memory does not grow with the series.
func TestMergeMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a million rows")
	}
	b := fixed(t)
	const files, rows = 4, 250_000
	layout := b.table.Layout("m", []column.Field{{Key: "f", Type: model.Float}})
	for k := range files {
		for from := 0; from < rows; from += 50_000 {
			var batch point.Batch
			b.sequence++
			for i := range 50_000 {
				batch.Rows = append(batch.Rows, point.Row{Series: b.series[0], Layout: layout, Time: int64((from+i)*files + k), First: uint32(i)})
				batch.Values = append(batch.Values, uint64(i*7919))
			}
			b.s.Apply(b.sequence, batch.Rows, batch.Values, nil)
		}
		b.flush()
	}
	var m runtime.MemStats
	heap := func() uint64 {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, calls := heap(), uint64(0), 0
	b.s.pace = func(context.Context, int) error {
		if calls++; calls%4 == 0 {
			most = max(most, heap())
		}
		return nil
	}
	b.compact(true)
	grown := int64(most) - int64(before)
	t.Logf("%d pauses, %d KiB more in use", calls, grown>>10)
	// The test's file system keeps what is written in memory, too.
	if written := b.s.counters.Written(); calls < 20 || grown-written > 6<<20 {
		t.Errorf("%d pauses; merging %d rows took %d bytes of memory, of which %d are the file", calls, files*rows, grown, written)
	}
	if info := b.s.mu.set.files[0].reader.Info(); len(b.s.mu.set.files) != 1 || info.Rows != files*rows {
		t.Errorf("%d files, %d rows", len(b.s.mu.set.files), info.Rows)
	}
}

// BenchmarkNewestCached reads the newest row of series with 100,000 rows in a
// cache, walking backwards and forwards.
func BenchmarkNewestCached(b *testing.B) {
	h := newBench(&testing.T{}, rand.New(rand.NewPCG(1, 1)))
	fields := []column.Field{{Key: "f", Type: model.Float}}
	layout := h.table.Layout("m", fields)
	for from := range 1000 {
		var batch point.Batch
		h.sequence++
		for _, sr := range h.series {
			for i := range 100 {
				batch.Rows = append(batch.Rows, point.Row{Series: sr, Layout: layout, Time: int64(from*100 + i), First: uint32(len(batch.Values))})
				batch.Values = append(batch.Values, uint64(i))
			}
		}
		h.s.Apply(h.sequence, batch.Rows, batch.Values, nil)
	}
	set := roaring.New()
	for _, sr := range h.series {
		set.Add(uint32(sr.ID()))
	}
	for _, descending := range []bool{true, false} {
		b.Run(fmt.Sprintf("descending=%v", descending), func(b *testing.B) {
			for b.Loop() {
				v := h.s.View()
				c, err := v.Scan(context.Background(), scan.Request{Measurement: "m", Series: set, Fields: []string{"f"}, Range: model.AllTime, Descending: descending})
				if err != nil {
					b.Fatal(err)
				}
				for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
					c.NextChunk()
				}
				v.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(h.series)), "ns/series")
		})
	}
}

// TestMergeFaults fails every file operation of a merge that writes several
// files: the rows stay readable, no file is left behind, no reader is lost, and
// the merge works when tried again.
func TestMergeFaults(t *testing.T) {
	for n := 1; ; n++ {
		b := fixed(t)
		for round := range 3 {
			for series := range b.series {
				b.put(series, 300, int64(round)*200, 1)
			}
			b.flush()
		}
		b.s.maxFile = 1
		before := b.fs.Files()
		start, hit := b.fs.Ops(), false
		b.fs.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				hit = true
				return errors.New("input/output error")
			}
			return nil
		})
		did, err := b.s.Compact(context.Background(), true)
		b.fs.SetHook(nil)
		if !hit {
			if err != nil || !did || n < 20 {
				t.Fatalf("%d operations: %v", n, err)
			}
			t.Logf("%d operations", n-1)
			return
		}
		b.checks()
		if err != nil && !did {
			now := b.fs.Files()
			extra := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(before, name) })
			if len(extra) > 0 && len(b.s.maybeNamed) == 0 {
				t.Errorf("operation %d failed (%v): left behind %v", n, err, extra)
			}
		}
		b.compact(true)
		b.checks()
		if files := len(b.s.mu.set.files); files != len(b.series) {
			t.Errorf("operation %d: %d files after the second try", n, files)
		}
		b.reopen()
		b.checks()
		left := 0
		for _, name := range b.fs.Files() {
			if strings.HasSuffix(name, ".tsm") {
				left++
			}
		}
		if left != len(b.series) {
			t.Errorf("operation %d: %d files on disk, %d count", n, left, len(b.series))
		}
	}
}
