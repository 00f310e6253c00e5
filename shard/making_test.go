package shard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/shard/plan"
)

// waiting returns the number of moves that wait.
func (b *bench) waiting() int {
	l, _ := b.s.Moves()
	return l.Len()
}

// first returns some of the series, so many at most.
func (b *bench) first(n int) []*point.Series {
	some := b.some()
	return some[:min(n, len(some))]
}

// ordered checks that the files cover ascending ranges of sequences, and that those with the
// same range have no series in common.
func (b *bench) ordered() {
	b.t.Helper()
	files := b.s.mu.set.files
	for i, f := range files[min(1, len(files)):] {
		last := files[i]
		if f.splits(last) {
			for at := range f.reader.Len() {
				id, err := f.reader.ID(at)
				if err != nil {
					b.t.Fatal(err)
				}
				if _, twice, err := last.reader.Find(id); twice || err != nil {
					b.t.Fatalf("series %d is in two files at %d to %d: %v", id, f.MinSequence, f.MaxSequence, err)
				}
			}
		} else if f.MinSequence <= last.MaxSequence {
			b.t.Fatalf("a file of %d to %d is behind one of %d to %d", f.MinSequence, f.MaxSequence, last.MinSequence, last.MaxSequence)
		}
	}
}

// settle flushes what is frozen.
func (b *bench) settle() {
	b.t.Helper()
	if b.pending == nil {
		return
	}
	if err := b.s.Flush(b.t.Context(), b.pending); err != nil {
		b.t.Fatal(err)
	}
	b.pending = nil
}

// TestPortionsAgainstModel makes moves of a few series at a time, among writes, deletes,
// flushes, merges and restarts, and compares scans with a map after each of them. While a merge
// runs, there are writes, deletes, moves and flushes too.
func TestPortionsAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 11))
	meanwhile := 0
	for range max(testseed.Rounds(12), 5) {
		b := newBench(t, r)
		b.options.MergeBytes = 1 + r.Int64N(2<<10)
		change := func(k int) {
			switch {
			case k < 5:
				b.few()
			case k < 6:
				b.delete()
			case k < 8:
				b.move(b.first(1), fmt.Sprint(r.IntN(9)))
			case k < 9:
				b.move(b.first(3), fmt.Sprint("t", r.IntN(3)))
			case b.pending == nil && r.IntN(2) == 0:
				b.pending = b.s.Freeze(b.sequence) // stays frozen for a while
			default:
				b.settle()
				b.flush()
			}
		}
		b.options.Pace = func(context.Context, int) error {
			if r.IntN(4) > 0 {
				var other sync.WaitGroup // has no locks of the merge
				other.Go(func() { change(r.IntN(10)) })
				other.Wait()
				meanwhile++
			}
			return nil
		}
		b.reopen()
		b.addSeries(9)
		for range 40 {
			b.s.few = []int{maxPlaces, 1 + r.IntN(4)}[r.IntN(2)]
			switch k := r.IntN(16); {
			case k < 10:
				change(k)
			case k < 11:
				b.settle()
				for range 4 { // enough for a merge of a warm shard
					b.few()
					b.flush()
				}
			case k < 12:
				b.settle()
				b.reopen()
			default:
				b.s.maxMerge = []int64{b.options.MergeBytes, 1 << 30}[r.IntN(2)]
				if _, err := b.s.Compact(t.Context(), k > 12); err != nil {
					t.Fatal(err)
				}
			}
			b.check()
			b.ordered()
		}
		b.settle()
		b.options.Pace = nil
		b.reopen()
		b.compact(true)
		if moves := b.waiting(); moves > 0 {
			t.Errorf("%d moves still wait", moves)
		}
		b.checks()
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if meanwhile == 0 {
		t.Error("nothing came while a merge ran")
	}
}

// allMoved makes a shard with so many series, each in a file of its own for each of three
// generations, and moves each of them to another one.
func allMoved(t *testing.T, n int) *bench {
	b := fixed(t)
	b.addSeries(n)
	for generation := range int64(3) {
		b.s.maxFile = 1
		for range 2 { // a merge of two flushes splits the series
			for i := range n {
				b.put(i, 800, generation*600, 1)
			}
			b.flush()
		}
		v := b.s.View()
		files := len(v.set.files)
		if err := b.s.merge(t.Context(), v, files-2, files, 1); err != nil {
			t.Fatal(err)
		}
		v.Release()
	}
	for i, sr := range slices.Clone(b.series) {
		b.move([]*point.Series{sr}, fmt.Sprintf("%dto", n-i))
	}
	b.flush()
	b.check()
	return b
}

// TestPortionsAreBounded makes moves of a shard that is much larger than what a merge
// may read. No merge takes more, the files that it has emptied go at once, and after a
// restart the moves are made of the rest.
func TestPortionsAreBounded(t *testing.T) {
	const n = 12
	b := allMoved(t, n)
	before, files := b.s.DiskBytes()
	b.s.maxFile, b.s.maxMerge = plan.MaxFileBytes, before/5
	most, steps := before, 0
	for left := n; left > 0; steps++ {
		if did, err := b.s.Compact(t.Context(), true); err != nil || !did {
			t.Fatalf("%d moves wait and nothing is done: %v", left, err)
		}
		b.check()
		now := b.waiting()
		if now >= left && left-now > n/3 {
			t.Fatalf("%d of %d moves were made by one merge", left-now, left)
		}
		left = now
		bytes, _ := b.s.DiskBytes()
		most = max(most, bytes)
		limit := b.s.maxMerge
		b.options.MergeBytes = limit
		b.reopen()
		b.s.maxFile = plan.MaxFileBytes
		b.check()
		b.ordered()
	}
	if steps < 4 {
		t.Errorf("%d files of %d bytes: moves were made by %d merges", files, before, steps)
	}
	if most > before+2*b.s.maxMerge {
		t.Errorf("%d bytes became up to %d while moves were made", before, most)
	}
	b.compact(true)
	b.checks()

	// Without a manifest, the files say what counts: those of one move are not taken for
	// each other's replacements, though their keys lie between each other.
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.loseManifest()
	b.open()
	b.checks()
}

// TestPortionsAmongWrites makes some moves of a shard that is written to, and the others when
// it rests: until then the files of the first are not merged with what is newer.
func TestPortionsAmongWrites(t *testing.T) {
	b := fixed(t)
	const n = 20
	b.addSeries(n)
	for i := range n {
		b.put(i, 500, 0, 1)
	}
	b.flush()
	bytes, _ := b.s.DiskBytes()
	b.s.maxMerge = bytes / 2
	for i := range n {
		sr := b.series[(i+10)%n] // the last of them, m,h=9, is the last by key
		b.move([]*point.Series{sr}, fmt.Sprint("to", i))
	}
	b.flush()
	if did, err := b.s.Compact(t.Context(), false); err != nil || !did {
		t.Fatal(did, err)
	}
	if moves := b.waiting(); moves == 0 || moves == n {
		t.Fatalf("%d moves wait", moves)
	}
	for range 4 {
		for i := range b.series {
			b.put(i, 20, 100, 1)
		}
		b.flush()
	}
	b.s.maxMerge = plan.MaxMergeBytes
	b.compact(false)
	if moves := b.waiting(); moves == 0 {
		t.Fatal("the shard rests")
	}
	for did := true; did; b.ordered() {
		var err error
		if did, err = b.s.Compact(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if moves := b.waiting(); moves > 0 {
		t.Errorf("%d moves wait", moves)
	}
	b.checks()
}

// TestPortionOfFewSeries moves few series of a large file: it is not written again.
func TestPortionOfFewSeries(t *testing.T) {
	b := fixed(t)
	const n = 40
	b.addSeries(n)
	for i := range n {
		b.put(i, 500, 0, 1)
	}
	b.flush()
	b.compact(true)
	name := b.s.mu.set.files[0].Name
	b.move([]*point.Series{b.series[3]}, "moved")
	b.reopen()
	if did, err := b.s.Compact(t.Context(), true); err != nil || !did {
		t.Fatal(did, err)
	}
	set := b.s.mu.set
	if len(set.files) != 2 || set.files[0].Name != name || set.files[0].Gone.GetCardinality() != 1 || set.files[1].reader.Len() != 1 || set.Moves.Len() != 0 {
		t.Fatalf("%d files, the first is %+v, %d moves wait", len(set.files), set.files[0].File, set.Moves.Len())
	}
	b.checks()

	// The old name is written again, and what has moved is deleted: neither a read in file
	// order nor a merge finds the old rows.
	b.hide(n, model.AllTime)
	b.put(3, 10, 10_000, 1)
	b.reopen()
	b.compact(false) // of what has moved nothing is left
	b.checks()
	if set := b.s.mu.set; len(set.files) != 2 || set.files[0].Name != name {
		t.Fatalf("%d files, the first is %+v", len(set.files), set.files[0].File)
	}
	v := b.s.View()
	all := roaring.New()
	for _, sr := range b.series {
		all.Add(uint32(sr.ID()))
	}
	v.caches = nil // empty
	c, err := v.Scan(t.Context(), scan.Request{Measurement: "m", Series: all, Fields: []string{"f"}, Range: model.TimeRange{Max: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
		found++
	}
	c.Close()
	v.Release()
	if found != n-1 {
		t.Errorf("%d series, want %d", found, n-1)
	}
	b.compact(true)
	if set := b.s.mu.set; len(set.files) != 1 || set.files[0].Gone != nil {
		t.Errorf("%d files, the first is %+v", len(set.files), set.files[0].File)
	}
	b.checks()
}

// rowsOf counts the rows of a series.
func (b *bench) rowsOf(sr *point.Series) (n int, err error) {
	v := b.s.View()
	defer v.Release()
	c, err := v.Scan(b.t.Context(), scan.Request{Measurement: "m", Series: roaring.BitmapOf(uint32(sr.ID())), Fields: []string{"f"}, Range: model.AllTime})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
		for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
			if _, err := ch.Column(0); err != nil {
				return n, err
			}
			n += ch.Len()
		}
	}
	return n, c.Err()
}

// TestMovesOfDamagedFile damages one place after another of the oldest file. The moves are
// made of all series but those whose rows cannot be read; these wait, the log tells so
// once, and other merges and moves go on.
func TestMovesOfDamagedFile(t *testing.T) {
	clean := fixed(t)
	const n = 8
	clean.addSeries(n)
	for i := range n {
		clean.put(i, 2000, 0, 1)
	}
	clean.flush()
	name := testShard + clean.s.mu.set.files[0].Name
	for i := range n {
		clean.put(i, 10, 100_000, 1)
	}
	clean.move(slices.Clone(clean.series[:2]), "two")
	for i := 2; i < n; i++ {
		clean.move([]*point.Series{clean.series[i]}, fmt.Sprint("to", i))
	}
	clean.flush()
	if err := clean.s.Close(); err != nil {
		t.Fatal(err)
	}
	targets := clean.series[n:]
	size := int64(len(clean.fs.Content(name)))
	some, met := 0, 0
	for at := int64(16); at < size; at += size / 40 {
		b := *clean
		b.fs = clean.fs.Clone()
		var log bytes.Buffer
		b.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b.options.MergeBytes = []int64{0, 1}[at&1]
		if err := b.fs.Flip(name, at, 1); err != nil {
			t.Fatal(err)
		}
		b.open()
		if len(b.s.Quarantine().List()) > 0 {
			if err := b.s.Close(); err != nil {
				t.Fatal(err)
			}
			continue // the file did not open
		}
		lost := map[string]bool{}
		for _, sr := range targets {
			if _, err := b.rowsOf(sr); err != nil {
				lost[sr.Key()] = true
			}
		}
		end := func() {
			t.Helper()
			for steps, failed := 0, 0; ; steps++ {
				did, err := b.s.Compact(t.Context(), true)
				if err != nil {
					failed++
				}
				if steps > 60 || failed > 1 {
					t.Fatalf("flip at %d: merges do not end: %v", at, err)
				}
				if !did && err == nil {
					return
				}
			}
		}
		end()
		check := func(more int) {
			t.Helper()
			if moves := b.waiting(); moves != len(lost) {
				t.Errorf("flip at %d: %d moves wait, and %d series cannot be read", at, moves, len(lost))
			}
			for _, sr := range targets {
				rows, err := b.rowsOf(sr)
				if want := 2010 + more; !lost[sr.Key()] && (rows != want || err != nil) || lost[sr.Key()] != (err != nil) {
					t.Errorf("flip at %d: %d rows of %s, want %d: %v, damaged: %v", at, rows, sr.Key(), want, err, lost)
				}
			}
		}
		check(0)
		for _, sr := range targets {
			b.put(slices.Index(b.series, sr), 5, 200_000, 1)
		}
		b.flush()
		end()
		check(5)
		if told := strings.Count(log.String(), "moves blocked"); told != min(len(lost), 1) {
			t.Errorf("flip at %d: told %d times of %d damaged series\n%s", at, told, len(lost), log.String())
		}
		if len(lost) > 0 {
			met++
		}
		if len(lost) > 0 && len(lost) < len(targets) {
			some++
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if some < 10 {
		t.Errorf("%d flips damaged series, %d some of them", met, some)
	}
}
