package scrub

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/store"
)

// TestLogWhileWritten reads a log slowly: whenever its reader has met the end and goes on
// behind it, there are new entries. The segment is sound.
func TestLogWhileWritten(t *testing.T) {
	h := openHome(t, store.Options{SegmentBytes: 16 << 20, LogBytes: 256 << 20, FlushBytes: 256 << 20, FlushIdle: time.Hour})
	random := rand.New(rand.NewPCG(testseed.Of(t), 1))
	points, begin, rotations := 0, int64(0), uint64(0)
	// upTo writes until the newest segment has so many bytes.
	upTo := func(bytes int64) {
		for {
			log := h.Figures().Log
			if log.Rotations != rotations {
				rotations, begin = log.Rotations, int64(log.BytesWritten)
			}
			if int64(log.BytesWritten)-begin >= bytes {
				return
			}
			var text strings.Builder
			for range 1000 {
				fmt.Fprintf(&text, "%016x", random.Uint64())
			}
			points++
			h.ok(h.write("db", fmt.Sprintf("m s=%q %d", text.String(), points)))
		}
	}
	for st, err := os.Stat(h.file("wal/*.wal")); err != nil || st.Size() < 16<<20; st, err = os.Stat(h.file("wal/*.wal")) {
		upTo(0)
		upTo(int64(h.Figures().Log.BytesWritten) - begin + 1) // one more
	}
	upTo(3 << 20)
	before := h.Figures().Log.Rotations
	s := New(Options{Store: h.Store, Dir: h.dir, Log: true, FS: &behindFS{FS: vfs.OS, upTo: upTo}, Sleep: func(context.Context, time.Duration) {}})
	s.check(t.Context(), job{Part: Part{Log: true}, whole: true})
	if st := s.Status(); len(st.Damage) > 0 || len(st.Problems) > 0 {
		t.Errorf("%+v", st)
	}
	if h.Figures().Log.Rotations != before {
		t.Error("the segment was closed meanwhile")
	}
}

// behindFS has a log grow beyond the place of a large read behind its first, once each time
// that the log is opened.
type behindFS struct {
	vfs.FS
	upTo func(bytes int64)
}

func (f *behindFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".wal") {
		return file, err
	}
	return &behindFile{File: file, upTo: f.upTo}, nil
}

type behindFile struct {
	vfs.File
	upTo  func(bytes int64)
	reads int
}

func (f *behindFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if len(b) >= 3<<20 && bytes.Equal(b[len(b)-1000:], make([]byte, 1000)) { // the end of the log is before that of what was read
		if f.reads++; f.reads == 2 {
			f.upTo(off + 1<<19)
			return f.File.ReadAt(b, off)
		}
	}
	return n, err
}
