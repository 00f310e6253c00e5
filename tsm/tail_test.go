package tsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// memoryBody is a body in memory that counts how it is read, and may give wrong bytes.
type memoryBody struct {
	data  []byte
	reads int
	bytes int
	again int
	wrong func(p []byte, off int64) // changes what ReadBody gives
	stay  bool                      // ReadBodyAgain gives it too
	away  error
}

func (m *memoryBody) ReadBody(ctx context.Context, p []byte, off int64) error {
	if err := errors.Join(ctx.Err(), m.away); err != nil {
		return fmt.Errorf("objects/x: %w", err)
	}
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return fmt.Errorf("objects/x: read of %d bytes at %d of %d", len(p), off, len(m.data))
	}
	m.reads++
	m.bytes += len(p)
	copy(p, m.data[off:])
	if m.wrong != nil {
		m.wrong(p, off)
	}
	return nil
}

func (m *memoryBody) Name() string { return "objects/x" }

func (m *memoryBody) Expect(_ context.Context, off int64, n int) error {
	if m.away != nil {
		return fmt.Errorf("objects/x: %w", m.away)
	}
	if off < headerSize || n <= firstBytes || off+int64(n) > int64(len(m.data)) {
		return fmt.Errorf("objects/x: %d bytes at %d of %d are expected", n, off, len(m.data))
	}
	return nil
}

func (m *memoryBody) ReadBodyAgain(ctx context.Context, p []byte, off int64) error {
	m.again++
	if !m.stay {
		defer func(f func([]byte, int64)) { m.wrong = f }(m.wrong)
		m.wrong = nil
	}
	return m.ReadBody(ctx, p, off)
}

// openTail opens the tail of the file at path.
func openTail(t testing.TB, path string) (*Reader, *memoryBody) {
	t.Helper()
	whole := openFile(t, path)
	tail := filepath.Join(t.TempDir(), "x.tail")
	if err := whole.WriteTail(vfs.OS, tail); err != nil {
		t.Fatal(err)
	}
	base := whole.foot.sec.keys
	body := &memoryBody{data: readAll(t, path)[:base:base]}
	r, err := OpenTail(vfs.OS, tail, body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, body
}

// tailFiles are contents with chunks of all kinds: inline, small and large ones, shared
// times, and a head of many columns.
func tailFiles(t testing.TB) map[string][]testSeries {
	rng := newRand(t)
	wide := testSeries{id: 1, key: "wide"}
	var c testChunk
	for i := range 20 {
		c.times = append(c.times, int64(i*i))
	}
	for i := range 1000 {
		wide.fields = append(wide.fields, column.Field{Key: fmt.Sprintf("f%04d", i), Type: model.Integer})
		v := column.Vector{Type: model.Integer}
		for range c.times {
			v.Ints = append(v.Ints, rng.Int64N(100))
		}
		c.cols = append(c.cols, v)
	}
	wide.chunks = []testChunk{c}
	return map[string][]testSeries{
		"golden": goldenSeries(), "sample": sampleSeries(), "few times": scrape(t, 30, 20, 3), "many times": scrape(t, 12, 1000, 40),
		"random": randomSeries(rng, 60), "wide": {wide}, "empty": nil,
	}
}

// A tail gives what the whole file gives, and reads the body for nothing but times and
// values.
func TestTail(t *testing.T) {
	for name, want := range tailFiles(t) {
		t.Run(name, func(t *testing.T) {
			path := tempFile(t)
			writeSeries(t, path, WriterOptions{MinSequence: 3, MaxSequence: 9, Level: 2}, want)
			whole := openFile(t, path)
			r, body := openTail(t, path)
			info := whole.Info()
			info.Path = r.Path()
			if r.Info() != info || !r.Remote() || whole.Remote() {
				t.Errorf("%+v, want %+v", r.Info(), info)
			}
			// What the index has.
			var s, ws Series
			var c, wc Chunk
			for i := range r.Len() {
				key, err := r.Key(i)
				if err == nil {
					err = errors.Join(r.Load(i, &s), whole.Load(i, &ws))
				}
				if n, ok, ferr := r.Find(s.ID); err != nil || ferr != nil || !ok || n != i || key != want[i].key {
					t.Fatalf("series %d: %d, %v, %q, %v, %v", i, n, ok, key, err, ferr)
				}
				for k := range s.Chunks {
					if err := errors.Join(r.Chunk(&s, k, &c), whole.Chunk(&ws, k, &wc)); err != nil {
						t.Fatal(err)
					}
					for f := range s.Fields {
						var got, want scan.Stats
						ok := c.Stats(f, &got)
						if wok := wc.Stats(f, &want); ok != wok || ok && fmt.Sprint(got) != fmt.Sprint(want) {
							t.Fatalf("series %d, chunk %d: %+v, want %+v", i, k, got, want)
						}
						if ok && c.AllValid(f) != wc.AllValid(f) {
							t.Fatalf("series %d, chunk %d: all valid differs", i, k)
						}
					}
					if c.Step() != 0 || c.Len() == 1 {
						if _, err := c.Times(); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if body.reads > 0 {
				t.Errorf("%d reads of the body for what the index has", body.reads)
			}
			if err := compareFile(r, want); err != nil {
				t.Error(err)
			}
			if body.reads == 0 && r.base > headerSize {
				t.Error("the body was not read")
			}
			if err := errors.Join(r.Verify(t.Context()), r.VerifyContent(t.Context())); err != nil {
				t.Error(err)
			}
			copied := tempFile(t)
			copyFileWith(t, r, copied, WriterOptions{MinSequence: 3, MaxSequence: 9, Level: 2})
			if !bytes.Equal(readAll(t, copied), readAll(t, path)) {
				t.Error("a copy of the chunks is not the file")
			}
			again := filepath.Join(t.TempDir(), "again.tail")
			if err := r.WriteTail(vfs.OS, again); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(readAll(t, again), readAll(t, r.Path())) {
				t.Error("a tail of a tail differs")
			}
		})
	}
}

// A column is read alone, and memory goes to the next chunk.
func TestTailReadsColumns(t *testing.T) {
	want := []testSeries{{id: 1, key: "m"}}
	rng := newRand(t)
	var c testChunk
	for i := range 1000 {
		c.times = append(c.times, int64(i))
	}
	for i := range 10 {
		want[0].fields = append(want[0].fields, column.Field{Key: fmt.Sprint("f", i), Type: model.Float})
		c.cols = append(c.cols, column.Vector{Type: model.Float})
		for range c.times {
			c.cols[i].Floats = append(c.cols[i].Floats, rng.Float64())
		}
	}
	want[0].chunks = []testChunk{c}
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, want)
	r, body := openTail(t, path)
	var s Series
	var got Chunk
	if err := errors.Join(r.Load(0, &s), r.Chunk(&s, 0, &got)); err != nil {
		t.Fatal(err)
	}
	v, err := got.Column(7)
	if err != nil || v.Floats[999] != c.cols[7].Floats[999] {
		t.Fatal(err)
	}
	if most := s.Chunks[0].Bytes/10 + 2*firstBytes; body.bytes > most || body.reads != 2 {
		t.Errorf("%d bytes in %d reads for one of ten columns of %d bytes", body.bytes, body.reads, s.Chunks[0].Bytes)
	}
	if allocs := testing.AllocsPerRun(20, func() {
		if err := r.Chunk(&s, 0, &got); err != nil {
			t.Fatal(err)
		}
		if _, err := got.Column(3); err != nil {
			t.Fatal(err)
		}
	}); allocs > 0 && !raceEnabled {
		t.Errorf("%v allocations a chunk", allocs)
	}
}

// A body that cannot be reached is an error that is no damage, at once for all columns of
// a chunk, and over when the body is back. Other files and the index go on.
func TestTailAway(t *testing.T) {
	path := tempFile(t)
	want := scrape(t, 12, 1000, 40)
	writeSeries(t, path, WriterOptions{}, want)
	r, body := openTail(t, path)
	body.away = errors.New("nobody answers")
	var s Series
	var c Chunk
	ctx, cancel := context.WithCancel(t.Context())
	c.Ctx = ctx
	check := func(err error, text string) {
		t.Helper()
		if err == nil || errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), "objects/x") || !strings.Contains(err.Error(), text) {
			t.Errorf("%v", err)
		}
	}
	for i := range r.Len() {
		if err := errors.Join(r.Load(i, &s), r.Chunk(&s, 0, &c)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Times()
		check(err, "nobody answers")
		_, err = c.Column(0)
		check(err, "nobody answers")
	}
	check(r.Verify(t.Context()), "nobody answers")
	check(r.VerifyContent(t.Context()), "nobody answers")
	if body.away = nil; body.reads > 0 {
		t.Errorf("%d reads", body.reads)
	}
	if err := r.Chunk(&s, 0, &c); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err := c.Column(0)
	check(err, "canceled")
	if err := compareFile(r, want); err != nil {
		t.Error(err)
	}
}

// Wrong bytes are read again, past what is kept. If they stay wrong they are damage of the
// object.
func TestTailWrongBytes(t *testing.T) {
	for name, want := range tailFiles(t) {
		t.Run(name, func(t *testing.T) {
			path := tempFile(t)
			writeSeries(t, path, WriterOptions{}, want)
			r, body := openTail(t, path)
			if r.base == headerSize {
				return
			}
			rng := newRand(t)
			body.wrong = func(p []byte, _ int64) {
				if len(p) > 0 {
					p[rng.IntN(len(p))] ^= byte(1 << rng.IntN(8))
				}
			}
			if err := compareFile(r, want); err != nil {
				t.Error(err)
			}
			if body.again == 0 {
				t.Error("no bytes were wrong")
			}
			for range 40 {
				flip := headerSize + rng.Int64N(int64(r.base-headerSize))
				bit := byte(1 << rng.IntN(8))
				body.stay = true
				body.wrong = func(p []byte, off int64) {
					if i := flip - off; i >= 0 && i < int64(len(p)) {
						p[i] ^= bit
					}
				}
				var s Series
				var c Chunk
				for i := range want {
					err := compareSeries(r, i, &want[i], &s, &c)
					if err == nil {
						continue
					}
					if d, ok := errors.AsType[*binio.CorruptError](err); !ok || d.Path != "objects/x" || d.Offset > flip {
						t.Fatalf("bit of byte %d: %v", flip, err)
					}
				}
				for _, err := range []error{r.VerifyContent(t.Context()), r.Verify(t.Context())} {
					if d, ok := errors.AsType[*binio.CorruptError](err); !ok || d.Path != "objects/x" {
						t.Fatalf("bit of byte %d: Verify: %v", flip, err)
					}
				}
			}
		})
	}
}

// Every flipped bit and every cut of a tail is damage of the tail, never data.
func TestTailDamage(t *testing.T) {
	path := tempFile(t)
	want := goldenSeries()
	writeSeries(t, path, WriterOptions{}, want)
	r, body := openTail(t, path)
	sound := readAll(t, r.Path())
	check := func(data []byte, what string, at int) {
		t.Helper()
		r, err := OpenTail(bytesFS{data: data}, "x.tail", body)
		if err == nil {
			defer r.Close()
			if err = r.Verify(t.Context()); err == nil {
				t.Fatalf("%s %d: Verify found nothing", what, at)
			}
			var s Series
			var c Chunk
			for i := range want {
				if i < r.Len() {
					if err := compareSeries(r, i, &want[i], &s, &c); err != nil && !errors.Is(err, binio.ErrCorrupt) {
						t.Fatalf("%s %d: %v", what, at, err)
					}
				}
			}
		}
		if d, ok := errors.AsType[*binio.CorruptError](err); !ok || d.Path != "x.tail" {
			t.Fatalf("%s %d: %v", what, at, err)
		}
	}
	for n := range sound {
		check(sound[:n:n], "cut at", n)
		b := bytes.Clone(sound)
		b[n] ^= 1 << (n % 8)
		check(b, "flip of", n)
	}
	check(append(bytes.Clone(sound), 0), "grown at", len(sound))
	check(readAll(t, path), "a whole file", 0)
	if _, err := Open(vfs.OS, r.Path()); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("a tail opens as a file: %v", err)
	}
	newer := bytes.Clone(sound[:tailHeaderSize-4])
	newer[8] = tailVersion + 1
	newer = append(binary.LittleEndian.AppendUint32(newer, binio.Checksum(newer)), sound[tailHeaderSize:]...)
	if _, err := OpenTail(bytesFS{data: newer}, "x.tail", body); !errors.Is(err, binio.ErrVersion) {
		t.Errorf("a tail of another version: %v", err)
	}
}

// WriteTail does not copy damage, and leaves nothing if it fails.
func TestWriteTailRefuses(t *testing.T) {
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, goldenSeries())
	b := readAll(t, path)
	r := openFile(t, path)
	b[r.foot.sec.entries+30] ^= 4
	bad := filepath.Join(t.TempDir(), "bad.tsm")
	if err := os.WriteFile(bad, b, 0o600); err != nil {
		t.Fatal(err)
	}
	tail := filepath.Join(t.TempDir(), "x.tail")
	if err := openFile(t, bad).WriteTail(vfs.OS, tail); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("damage was written: %v", err)
	}
	for n := 1; ; n++ {
		left := n
		err := r.WriteTail(failFS{FS: vfs.OS, left: &left}, tail)
		if left > 0 {
			if err != nil || n != 6 { // create, header, tail, sync, close
				t.Errorf("%d operations, %v", n-1, err)
			}
			break
		}
		if _, serr := os.Stat(tail); !errors.Is(err, errInjected) || !errors.Is(serr, os.ErrNotExist) {
			t.Errorf("fault %d: %v, and of what is left: %v", n, err, serr)
		}
	}
}

// The tail of small.golden has these bytes, forever.
func TestTailGolden(t *testing.T) {
	const golden = "testdata/small.tail"
	whole := openFile(t, "testdata/small.golden")
	tail := filepath.Join(t.TempDir(), "x.tail")
	if err := whole.WriteTail(vfs.OS, tail); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, readAll(t, tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(readAll(t, tail), readAll(t, golden)) {
		t.Error("the bytes of a tail changed")
	}
	r, err := OpenTail(vfs.OS, golden, &memoryBody{data: readAll(t, "testdata/small.golden")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := compareFile(r, goldenSeries()); err != nil {
		t.Error(err)
	}
}

func TestTailPage(t *testing.T) {
	d := &dumper{data: readAll(t, "testdata/small.tail")}
	d.take(8, "magic")
	d.take(2, "version")
	d.take(2, "features")
	d.u64("base %d")
	d.u64("size %d")
	d.take(headerSize, "header of the TSM file")
	d.u32("CRC32C of the 44 bytes before")
	checkExample(t, "../docs/formats/tail.md", "TailPage", d.out.String())
}

// FuzzTail opens hostile tails over hostile bodies: no panic, and no error but damage.
func FuzzTail(f *testing.F) {
	path := tempFile(f)
	writeSeries(f, path, WriterOptions{}, sampleSeries()[:3])
	whole := openFile(f, path)
	tail := filepath.Join(f.TempDir(), "x.tail")
	if err := whole.WriteTail(vfs.OS, tail); err != nil {
		f.Fatal(err)
	}
	data, sound := readAll(f, path), readAll(f, tail)
	f.Add(sound, uint16(100), []byte{1})
	f.Add([]byte{}, uint16(0), []byte{})
	f.Fuzz(func(t *testing.T, input []byte, at uint16, patch []byte) {
		body := bytes.Clone(data)
		copy(body[int(at)%len(body):], patch)
		for _, b := range [][]byte{input, sound} {
			// What the header says must hold for the checks behind it to be reached.
			if b = bytes.Clone(b); len(b) >= tailHeaderSize {
				binary.LittleEndian.PutUint32(b[tailHeaderSize-4:], binio.Checksum(b[:tailHeaderSize-4]))
			}
			r, err := OpenTail(bytesFS{data: b}, "x.tail", hostileBody{body})
			if err != nil {
				if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, binio.ErrVersion) {
					t.Fatal(err)
				}
				continue
			}
			readAllOf(t, r)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// hostileBody is a body whose reads beyond its end are damage.
type hostileBody struct{ data []byte }

func (h hostileBody) ReadBody(_ context.Context, p []byte, off int64) error {
	if off < 0 || off > int64(len(h.data)) || int64(len(p)) > int64(len(h.data))-off {
		return binio.Corruptf("x", off, "beyond the end")
	}
	copy(p, h.data[off:])
	return nil
}
