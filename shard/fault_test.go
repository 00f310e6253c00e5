package shard

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/series"
)

// readRows counts the rows of a shard on the disk of the operating system.
func readRows(s *Shard) (n int, err error) {
	defer vfs.CatchFault(&err)()
	v := s.View()
	defer v.Release()
	set, err := v.Select(context.Background(), "m", nil)
	if err != nil {
		return 0, err
	}
	c, err := v.Scan(context.Background(), scan.Request{Measurement: "m", Series: set, Fields: []string{"f"}, Range: model.AllTime})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
		for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
			if _, err := ch.Times(); err != nil {
				return 0, err
			}
			if _, err := ch.Column(0); err != nil {
				return 0, err
			}
			n += ch.Len()
		}
	}
	return n, c.Err()
}

// onDisk opens a copy of the shard in a directory of the disk.
func (b *bench) onDisk() (s *Shard, dir string, stop func()) {
	b.t.Helper()
	dir = b.t.TempDir()
	for _, name := range b.fs.Files() {
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b.fs.Content(name), 0o600)); err != nil {
			b.t.Fatal(err)
		}
	}
	sf, err := series.Open(vfs.OS, dir+"/db/series", series.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	if s, err = Open(dir+"/db/shard-1", 1, Options{Series: sf, Range: model.AllTime}); err != nil {
		b.t.Fatal(err)
	}
	return s, dir, func() {
		if err := errors.Join(s.Close(), sf.Close()); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestFlippedWhileMapped flips bits of a mapped file that queries have read before, as a disk
// does whose pages are read anew. A merge names the file, or writes what it writes otherwise:
// damage never gets a checksum of its own.
func TestFlippedWhileMapped(t *testing.T) {
	b := fixed(t)
	for round := range 4 {
		for series := range b.series {
			b.put(series, 1, int64(round)*10, 1)
		}
		b.flush()
	}
	if err := errors.Join(b.s.Close(), b.sf.Sync()); err != nil {
		t.Fatal(err)
	}
	// merged returns what one merge makes of a copy, one of whose bytes is flipped.
	const victim = "/db/shard-1/00000001.tsm"
	merged := func(at int64) (files map[string]string, err error) {
		s, dir, stop := b.onDisk()
		defer stop()
		if n, err := readRows(s); n != 16 || err != nil {
			t.Fatalf("%d rows, %v", n, err)
		}
		if at >= 0 {
			f, err := os.OpenFile(dir+victim, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte{b.fs.Content(victim)[at] ^ 4}, at); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
		if did, err := s.Compact(context.Background(), true); !did || err != nil {
			return nil, err
		}
		files = map[string]string{}
		for _, f := range s.mu.set.files {
			content, err := os.ReadFile(f.reader.Path())
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(f.reader.Path())] = string(content)
		}
		return files, nil
	}
	want, err := merged(-1)
	if err != nil || len(want) != 1 {
		t.Fatalf("%d files, %v", len(want), err)
	}
	refused := 0
	for at := range int64(len(b.fs.Content(victim))) {
		switch got, err := merged(at); {
		case errors.Is(err, binio.ErrCorrupt) && strings.Contains(err.Error(), "00000001.tsm"):
			refused++
		case err != nil:
			t.Errorf("byte %d: %v", at, err)
		case !maps.Equal(got, want):
			t.Errorf("byte %d: the merge has other content", at)
		}
	}
	if refused == 0 {
		t.Error("no flip was found")
	}
}

// TestUnreadablePages makes pages of mapped files of an open shard unreadable,
// as a disk does, by cutting the files. Reads, merges and deletes must end with
// an error that names the file, or be right, and merges must not meet it again
// and again.
func TestUnreadablePages(t *testing.T) {
	b := fixed(t)
	for round := range 3 {
		for series := range b.series {
			b.put(series, 3000, int64(round)*4000, 1)
		}
		b.flush()
	}
	if err := b.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.sf.Sync(); err != nil {
		t.Fatal(err)
	}
	const want = 3 * 4 * 3000
	page := int64(os.Getpagesize())
	cases, failed := 0, 0
	for _, victim := range b.fs.Files() {
		if ext := filepath.Ext(victim); ext != ".tsm" && ext != ".tsi" {
			continue
		}
		size := int64(len(b.fs.Content(victim)))
		for at := int64(0); at < size; at += max(page, size/5/page*page) {
			cases++
			s, dir, stop := b.onDisk()
			if err := os.Truncate(dir+victim, at); err != nil {
				t.Fatal(err)
			}
			base := filepath.Base(victim)
			named := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), base) {
					t.Errorf("%s cut to %d: %s: %v", base, at, what, err)
				}
			}
			n, err := readRows(s)
			if err != nil {
				failed++
				named("read", err)
			} else if n != want {
				t.Errorf("%s cut to %d: %d rows, want %d", base, at, n, want)
			}
			errs := 0
			for steps := 0; ; steps++ {
				did, err := s.Compact(context.Background(), true)
				if err != nil {
					errs++
					named("merge", err)
				}
				if !did && err == nil {
					break
				}
				if steps > 10 || errs > 2 {
					t.Fatalf("%s cut to %d: merges do not end", base, at)
				}
			}
			if err := s.Delete(b.sequence+1, roaring.BitmapOf(1), model.TimeRange{Min: 5, Max: 10}); err != nil {
				named("delete", err)
			}
			stop()
		}
	}
	t.Logf("%d files cut, %d reads failed", cases, failed)
	if failed == 0 {
		t.Error("no read met an unreadable page")
	}
}
