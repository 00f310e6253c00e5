package tsm

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// bytesFS is a file system of one file in memory, mapped as it is.
type bytesFS struct {
	vfs.FS
	data []byte
}

type bytesFile struct {
	vfs.File
	data []byte
}

func (fs bytesFS) Open(string) (vfs.File, error) { return bytesFile{data: fs.data}, nil }
func (f bytesFile) Close() error                 { return nil }
func (f bytesFile) Size() (int64, error)         { return int64(len(f.data)), nil }
func (f bytesFile) Map(n int64) ([]byte, func() error, error) {
	return f.data[:n:n], func() error { return nil }, nil
}

// sampleSeries is a small file's content with everything in it: several
// series, inline and data chunks, all types, nulls, large columns, groups.
func sampleSeries() []testSeries {
	rng := rand.New(rand.NewPCG(11, 11))
	var out []testSeries
	full := []column.Field{
		{Key: "bool", Type: model.Boolean},
		{Key: "float", Type: model.Float},
		{Key: "int", Type: model.Integer},
		{Key: "string", Type: model.String},
		{Key: "uint", Type: model.Unsigned},
	}
	at := int64(1700000000e9)
	vector := func(t model.FieldType, rows int) column.Vector {
		v := randomVector(rng, t, rows)
		for i := range v.Strings {
			v.Strings[i] = strings.Repeat("s", rng.IntN(4))
		}
		return v
	}
	for i, rows := range [][]int{{1}, {3, 40}, {300}, {1, 1, 2}} {
		s := testSeries{id: model.SeriesID(40 - 3*i), key: "m,host=" + string(rune('a'+i)), fields: full}
		t := at
		for _, n := range rows {
			c := testChunk{times: randomTimes(rng, t, n)}
			t = c.times[n-1]
			for _, f := range full {
				c.cols = append(c.cols, vector(f.Type, n))
			}
			s.chunks = append(s.chunks, c)
		}
		out = append(out, s)
	}
	for i := range 70 { // a second group
		out = append(out, testSeries{
			id: model.SeriesID(100 + i), key: "n,host=" + string(rune('A'+i)), fields: full[2:3],
			chunks: []testChunk{{times: []int64{at}, cols: []column.Vector{{Type: model.Integer, Ints: []int64{int64(i)}}}}},
		})
	}
	return out
}

// checkDamaged opens data and fails on anything but the right rows or damage
// reported as such.
func checkDamaged(t *testing.T, data []byte, series []testSeries, what string, at int) {
	t.Helper()
	check := func(err error) bool {
		if errors.As(err, new(wrongData)) {
			t.Fatalf("%s %d: wrong data: %v", what, at, err)
		}
		if !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("%s %d: %v is not a corruption error", what, at, err)
		}
		var c *binio.CorruptError
		if !errors.As(err, &c) || c.Path != "x.tsm" || c.Offset < 0 || c.Offset > int64(len(data)) {
			t.Fatalf("%s %d: error without place: %v", what, at, err)
		}
		return true
	}
	r, err := Open(bytesFS{data: data}, "x.tsm")
	if err != nil {
		check(err)
		return
	}
	defer r.Close()
	var s Series
	var c Chunk
	if r.Len() != len(series) {
		t.Fatalf("%s %d: %d series", what, at, r.Len())
	}
	for i := range series {
		if err := compareSeries(r, i, &series[i], &s, &c); err != nil {
			check(err)
		}
	}
	if err := r.Verify(context.Background()); err == nil {
		t.Fatalf("%s %d: Verify found nothing", what, at)
	} else {
		check(err)
	}
}

func TestEveryFlip(t *testing.T) {
	series := sampleSeries()
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, series)
	data := readAll(t, path)
	step := testseed.Stride()
	for at := 0; at < len(data); at += step {
		for _, mask := range []byte{0xff, 1 << (at % 8)} {
			data[at] ^= mask
			checkDamaged(t, data, series, "flip at", at)
			data[at] ^= mask
		}
	}
	t.Logf("flipped %d bytes twice", len(data)/step)
}

func TestEveryCut(t *testing.T) {
	series := sampleSeries()
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, series)
	data := readAll(t, path)
	for n := range data {
		if _, err := Open(bytesFS{data: data[:n]}, "x.tsm"); !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
		if _, err := Open(bytesFS{data: data[n+1:]}, "x.tsm"); !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("cut by %d bytes: %v", n+1, err)
		}
	}
	for _, n := range []int{1, 8, 16, 512} {
		for _, fill := range []byte{0, 0xff} {
			long := append(append([]byte(nil), data...), make([]byte, n)...)
			for i := len(data); i < len(long); i++ {
				long[i] = fill
			}
			if _, err := Open(bytesFS{data: long}, "x.tsm"); !errors.Is(err, binio.ErrCorrupt) {
				t.Fatalf("%d bytes appended: %v", n, err)
			}
		}
	}
}

// A sound file of a later version or with unknown features is not damage.
func TestUnknownVersion(t *testing.T) {
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, sampleSeries())
	data := readAll(t, path)
	for _, c := range []struct {
		at    int
		value byte
	}{{8, 0}, {8, Version + 1}, {9, 1}, {10, 1}} {
		b := append([]byte(nil), data...)
		at := c.at
		b[at] = c.value
		binary.LittleEndian.PutUint32(b[12:], binio.Checksum(b[:12]))
		_, err := Open(bytesFS{data: b}, "x.tsm")
		if !errors.Is(err, binio.ErrVersion) || errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("header byte %d: %v", at, err)
		}
	}
}

// A mapped file that shrinks raises a fault that Verify turns into an error.
func TestShrunkenFile(t *testing.T) {
	path := tempFile(t)
	writeShort(t, path, 3000)
	r := openFile(t, path)
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(context.Background()); !errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("verify: %v", err)
	}
}

// Verify goes on after damage and lists all of it.
func TestVerifyListsDamage(t *testing.T) {
	path := tempFile(t)
	writeWide(t, path, 100, 50)
	data := readAll(t, path)
	chunks := dataChunks(t, data)
	for _, i := range []int{0, 40, 99} {
		data[chunks[i].off+6] ^= 1
	}
	r, err := Open(bytesFS{data: data}, "x.tsm")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Verify(context.Background())
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 3 {
		t.Fatalf("verify: %v", err)
	}
	for k, i := range []int{0, 40, 99} {
		var c *binio.CorruptError
		if !errors.As(joined.Unwrap()[k], &c) || c.Offset != int64(chunks[i].off) {
			t.Errorf("damage %d: %v, want offset %d", k, joined.Unwrap()[k], chunks[i].off)
		}
	}
}

func TestVerifyStopsWithContext(t *testing.T) {
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, sampleSeries())
	r := openFile(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("verify: %v", err)
	}
}

// chunkAt is the place of a body in the data section.
type chunkAt struct{ off, size int }

func dataChunks(tb testing.TB, data []byte) (out []chunkAt) {
	r, err := Open(bytesFS{data: data}, "x.tsm")
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	var s Series
	for i := range r.Len() {
		if err := r.Load(i, &s); err != nil {
			tb.Fatal(err)
		}
		for _, c := range s.Chunks {
			if !c.inline {
				out = append(out, chunkAt{int(c.off), c.Bytes})
			}
		}
	}
	return out
}

// seal recomputes all checksums of a patched file, so that what lies behind
// them is reached.
func seal(b []byte, chunks []chunkAt) {
	le := binary.LittleEndian
	if len(b) < headerSize+trailerSize {
		return
	}
	le.PutUint32(b[12:], binio.Checksum(b[:12]))
	for _, c := range chunks {
		body := b[c.off : c.off+c.size]
		n, start := binio.Uvarint(body, 4)
		if start < 0 || n > uint64(len(body)-start) {
			continue
		}
		end := start + int(n)
		le.PutUint32(body, binio.Checksum(body[4:end]))
		for off, cols := start, 0; cols < 8 && off >= 0; cols++ {
			var w uint64
			w, off = binio.Uvarint(body[:end], off)
			if size := int(w >> 1); off >= 0 && w>>1 < 1<<20 && size >= smallColumn && end+4+size <= len(body) {
				le.PutUint32(body[end:], binio.Checksum(body[end+4:end+4+size]))
				end += 4 + size
			}
		}
	}
	end := len(b) - trailerSize
	length := uint64(le.Uint32(b[end:]))
	if length < 16*8 || length > uint64(end-headerSize) {
		return
	}
	start := end - int(length)
	keys, sums := le.Uint64(b[start+9*8:]), le.Uint64(b[start+16*8:])
	if keys <= sums && sums <= uint64(start) {
		for at := keys; at < sums; at += blockSize {
			if slot := sums + (at-keys)/blockSize*4; slot+4 <= uint64(start) {
				le.PutUint32(b[slot:], binio.Checksum(b[at:min(at+blockSize, sums)]))
			}
		}
		if length >= 17*8+16 {
			le.PutUint32(b[start+17*8+8:], binio.Checksum(b[sums:start]))
		}
	}
	le.PutUint32(b[end+4:], binio.Checksum(b[start:end+4]))
}

// readEverything walks a file whose content is hostile: it must not panic, nor
// return anything but corruption errors.
func readEverything(t *testing.T, data []byte) {
	r, err := Open(bytesFS{data: data}, "x.tsm")
	if err != nil {
		if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, binio.ErrVersion) {
			t.Fatalf("open: %v", err)
		}
		return
	}
	defer r.Close()
	readAllOf(t, r)
}

// readAllOf reads everything of a reader whose content is hostile.
func readAllOf(t *testing.T, r *Reader) {
	check := func(err error) {
		if err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("not a corruption error: %v", err)
		}
	}
	check(r.Verify(context.Background()))
	var s Series
	var c Chunk
	var keys KeyCursor
	keys.Reset(r)
	for i := range min(r.Len(), 300) {
		_, err := keys.Key(i)
		check(err)
		id, err := r.ID(i)
		check(err)
		_, _, err = r.Find(id)
		check(err)
		_, _, err = r.Find(id + 1)
		check(err)
		if err := r.Load(i, &s); err != nil {
			check(err)
			continue
		}
		for k := range min(len(s.Chunks), 20) {
			check(r.Chunk(&s, k, &c))
			_, err := c.Times()
			check(err)
			for f := range min(len(s.Fields), 20) {
				_, err := c.Column(f)
				check(err)
				_ = s.Stats(k, f, new(scan.Stats))
			}
		}
	}
}

// Random patches under valid checksums: decoders face hostile content.
func TestHostileContent(t *testing.T) {
	rng := newRand(t)
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, sampleSeries())
	data := readAll(t, path)
	chunks := dataChunks(t, data)
	b := make([]byte, len(data))
	for range 6000 {
		copy(b, data)
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(b))
			switch rng.IntN(3) {
			case 0:
				b[at] = byte(rng.Uint32())
			case 1:
				b[at] ^= 1 << rng.IntN(8)
			case 2:
				copy(b[at:], b[rng.IntN(len(b)-8):][:8])
			}
		}
		seal(b, chunks)
		readEverything(t, b)
	}
}

func FuzzOpen(f *testing.F) {
	path := tempFile(f)
	writeSeries(f, path, WriterOptions{}, sampleSeries()[:3])
	f.Add(readAll(f, path))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		readEverything(t, data)
		b := append([]byte(nil), data...)
		seal(b, nil)
		readEverything(t, b)
	})
}

// FuzzPatched puts the input over a sound file and seals it.
func FuzzPatched(f *testing.F) {
	path := tempFile(f)
	writeSeries(f, path, WriterOptions{}, sampleSeries())
	data := readAll(f, path)
	chunks := dataChunks(f, data)
	f.Add(uint16(100), []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add(uint16(len(data)-100), []byte{0})
	f.Add(uint16(len(data)-250), []byte{1, 2, 3})
	b := make([]byte, len(data))
	f.Fuzz(func(t *testing.T, at uint16, patch []byte) {
		copy(b, data)
		copy(b[int(at)%len(b):], patch)
		seal(b, chunks)
		readEverything(t, b)
	})
}
