package tsm

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// TestFetchTail fetches tails of files that are elsewhere. They are what WriteTail writes,
// and little more than a tail is read.
func TestFetchTail(t *testing.T) {
	for name, want := range tailFiles(t) {
		t.Run(name, func(t *testing.T) {
			path := tempFile(t)
			writeSeries(t, path, WriterOptions{}, want)
			whole := openFile(t, path)
			dir := t.TempDir()
			written, fetched := filepath.Join(dir, "written"), filepath.Join(dir, "fetched")
			if err := whole.WriteTail(vfs.OS, written); err != nil {
				t.Fatal(err)
			}
			body := &memoryBody{data: readAll(t, path)}
			size := int64(len(body.data))
			if err := FetchTail(t.Context(), vfs.OS, fetched, body, "objects/x", size); err != nil {
				t.Fatal(err)
			}
			if a, b := readAll(t, written), readAll(t, fetched); !bytes.Equal(a, b) {
				t.Errorf("fetched tail of %d bytes differs from the written one of %d", len(b), len(a))
			}
			if most := int(size) - int(whole.foot.sec.keys) + headerSize + 2*footerBytes; body.bytes > most {
				t.Errorf("%d bytes were read, want at most %d", body.bytes, most)
			}
		})
	}
}

// TestFetchTailOfDamage has ends that are no ends of TSM files. The error names the object,
// and nothing is left.
func TestFetchTailOfDamage(t *testing.T) {
	path := tempFile(t)
	writeSeries(t, path, WriterOptions{}, sampleSeries())
	good := readAll(t, path)
	f := func(what string, change func(b []byte) []byte) {
		t.Helper()
		body := &memoryBody{data: change(bytes.Clone(good))}
		to := filepath.Join(t.TempDir(), "x.tail")
		err := FetchTail(t.Context(), vfs.OS, to, body, "objects/x", int64(len(body.data)))
		var c *binio.CorruptError
		if !errors.As(err, &c) || c.Path != "objects/x" {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := vfs.OS.Stat(to); err == nil {
			t.Errorf("%s: a file is left", what)
		}
	}
	n := len(good)
	f("cut short", func(b []byte) []byte { return b[:n-1] })
	f("a few bytes", func(b []byte) []byte { return b[:20] })
	f("header", func(b []byte) []byte { b[3] ^= 1; return b })
	f("trailer", func(b []byte) []byte { b[n-1] ^= 1; return b })
	f("footer", func(b []byte) []byte { b[n-trailerSize-1] ^= 1; return b })
	f("length of the footer", func(b []byte) []byte { b[n-trailerSize+3] = 0x7f; return b })
	f("length of the footer, less than the file", func(b []byte) []byte {
		b = append(make([]byte, 2<<20), b...)
		b[len(b)-trailerSize+2] = 0x11
		return b
	})
}
