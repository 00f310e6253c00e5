package tsm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
)

// scrape returns series of two targets, which take turns. Those of one have the same
// times, with jitter. Every third series is a text, of values bytes a row.
func scrape(t testing.TB, series, rows, values int) (out []testSeries) {
	rng := newRand(t)
	at := [2]int64{1700000000e9, 1700000000e9 + 700e6}
	times := [2][]int64{}
	for i := range rows {
		for j := range times {
			times[j] = append(times[j], at[j]+int64(i)*3e9+rng.Int64N(40)*1e6)
		}
	}
	for n := range series {
		s := testSeries{id: model.SeriesID(n + 1), key: fmt.Sprintf("m%05d,target=%d", n/2, n%2)}
		v := randomVector(rng, model.Float, rows)
		if n%3 == 0 {
			v = column.Vector{Type: model.String}
			for range rows {
				v.Strings = append(v.Strings, fmt.Sprintf("%0*d", values, rng.Uint64()))
			}
		}
		s.fields = []column.Field{{Key: "value", Type: v.Type}}
		s.chunks = []testChunk{{times: times[n%2], cols: []column.Vector{v}}}
		out = append(out, s)
	}
	return out
}

// timeEncodings returns which series have their own times, and which a reference.
func timeEncodings(t testing.TB, r *Reader) (own, shared []int) {
	t.Helper()
	var s Series
	var c Chunk
	for i := range r.Len() {
		if err := errors.Join(r.Load(i, &s), r.Chunk(&s, 0, &c)); err != nil {
			t.Fatal(err)
		}
		e, err := c.Encodings(nil)
		switch {
		case err != nil:
			t.Fatal(err)
		case e[0].Name == SharedTimes:
			shared = append(shared, i)
		default:
			own = append(own, i)
		}
	}
	return own, shared
}

// Times that series share are written once, whether they are short and lie in the head
// of a chunk, or not.
func TestSharedTimes(t *testing.T) {
	for _, rows := range []int{20, 60, 1000} {
		for _, dense := range []bool{false, true} {
			want := scrape(t, 90, rows, 3)
			path := tempFile(t)
			writeSeries(t, path, WriterOptions{Dense: dense}, want)
			r := openFile(t, path)
			if own, _ := timeEncodings(t, r); !slices.Equal(own, []int{0, 1}) {
				t.Errorf("%d rows: series %v have their own times", rows, own)
			}
			if err := compareFile(r, want); err != nil {
				t.Error(err)
			}
			if err := r.Verify(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}

// A reference leads back 1 MiB at most. What is farther is written again.
func TestSharedTimesAreNear(t *testing.T) {
	want := scrape(t, 40, 500, 900)
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, want)
	r := openFile(t, path)
	own, shared := timeEncodings(t, r)
	if size := r.Info().Size; len(own) < 2*int(size/maxTimesDistance) || len(own) > 4*int(size/maxTimesDistance+1) || len(shared) < 10 {
		t.Errorf("%d bytes: %d series have their own times, %d share", size, len(own), len(shared))
	}
	if err := compareFile(r, want); err != nil {
		t.Error(err)
	}
}

// A copy of chunks without decoding shares again, also from files that do not share
// and when the series with the times is left out.
func TestMergeSharesTimes(t *testing.T) {
	want := scrape(t, 60, 300, 3)
	path, merged := tempFile(t), filepath.Join(t.TempDir(), "merged.tsm")
	writeSeries(t, path, WriterOptions{}, want)
	r := openFile(t, path)
	w, err := Create(vfs.OS, merged, WriterOptions{Dense: true})
	if err != nil {
		t.Fatal(err)
	}
	var s Series
	for i := 4; i < r.Len(); i++ {
		err := errors.Join(r.Load(i, &s), w.Series(want[i].id, want[i].key, want[i].fields), w.AppendEncoded(t.Context(), r, &s, 0))
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	m := openFile(t, merged)
	if own, _ := timeEncodings(t, m); !slices.Equal(own, []int{0, 1}) {
		t.Errorf("series %v have their own times", own)
	}
	if err := compareFile(m, want[4:]); err != nil {
		t.Error(err)
	}
}

// Damage of times fails each series that shares them at the same offset, and no other. A
// copy of one of these fails too.
func TestDamagedSharedTimes(t *testing.T) {
	want := scrape(t, 40, 600, 3)
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, want)
	data := readAll(t, path)
	r := openFile(t, path)
	var s Series
	var c Chunk
	if err := errors.Join(r.Load(0, &s), r.Chunk(&s, 0, &c)); err != nil {
		t.Fatal(err)
	}
	_, at, err := c.timeBlock()
	if err != nil {
		t.Fatal(err)
	}
	data[at+20] ^= 4
	bad, err := Open(bytesFS{data: data}, "x.tsm")
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	for i := range want {
		err := compareSeries(bad, i, &want[i], &s, &c)
		var damage *binio.CorruptError
		if i%2 == 0 && (!errors.As(err, &damage) || damage.Offset != at) || i%2 == 1 && err != nil {
			t.Errorf("series %d: %v, damage is at %d", i, err, at)
		}
	}
	w, err := Create(vfs.OS, filepath.Join(t.TempDir(), "copy.tsm"), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(bad.Load(10, &s), w.Series(1, "m", want[10].fields), w.AppendEncoded(t.Context(), bad, &s, 0))
	if !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("copy: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	err = bad.Verify(context.Background())
	names := make([]string, 0, maxDamagedKeys)
	for i := 0; len(names) < maxDamagedKeys; i += 2 {
		names = append(names, want[i].key)
	}
	found := fmt.Sprintf("corrupt x.tsm at offset %d: tsm: column checksum mismatch, in series %s and %d more",
		at, strings.Join(names, " "), len(want)/2-maxDamagedKeys)
	if err == nil || !strings.Contains(err.Error(), found) || strings.Contains(strings.Replace(err.Error(), found, "", 1), "mismatch") {
		t.Errorf("verify: %v, not %s", err, found)
	}
}

// A flip of a byte of a file with shared times is found.
func TestFlipsOfSharedTimes(t *testing.T) {
	for _, rows := range []int{40, 400} {
		want := scrape(t, 5, rows, 3)
		path := tempFile(t)
		writeSeries(t, path, WriterOptions{}, want)
		data := readAll(t, path)
		for at := 0; at < len(data); at += 3 * testseed.Stride() {
			data[at] ^= 1 << (at % 8)
			checkDamaged(t, data, want, "flip at", at)
			data[at] ^= 1 << (at % 8)
		}
	}
}

// A Chunk keeps the times that it decoded for the next series, and only then.
func TestChunkKeepsTimes(t *testing.T) {
	want := scrape(t, 12, 300, 3)
	regular := want[6].chunks[0]
	regular.times = slices.Clone(regular.times)
	for i := range regular.times {
		regular.times[i] = regular.times[0] + int64(i)*3e9
	}
	want[6].chunks[0] = regular
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, want)
	r := openFile(t, path)
	var s Series
	var c Chunk
	for _, i := range []int{0, 2, 4, 6, 8, 1, 3, 2, 2, 5, 0, 6, 6, 7} {
		if err := compareSeries(r, i, &want[i], &s, &c); err != nil {
			t.Error(err)
		}
	}
}

// References under sound checksums that lead to nonsense are damage.
func TestHostileReferences(t *testing.T) {
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, scrape(t, 6, 40, 3))
	data := readAll(t, path)
	chunks := dataChunks(t, data)
	rng := newRand(t)
	b := make([]byte, len(data))
	for range 4000 {
		copy(b, data)
		c := chunks[2+rng.IntN(4)]
		for range 1 + rng.IntN(3) {
			b[c.off+rng.IntN(min(c.size, 24))] = byte(rng.Uint32())
		}
		seal(b, chunks)
		readEverything(t, b)
	}
}
