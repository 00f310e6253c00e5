package raftlog

import (
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs"
	"tsdbd/wal"
	walentry "tsdbd/wal/entry"
)

// fill writes entries of some bytes, so many in a batch, and returns the last index.
func fill(b *testing.B, s *Store, batches, count, size int) uint64 {
	b.Helper()
	data := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	next, _ := s.LastIndex()
	logs := make([]*raft.Log, count)
	for range batches {
		for i := range logs {
			next++
			logs[i] = &raft.Log{Index: next, Term: 1, Data: data}
		}
		if err := s.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
		if next%4096 < uint64(count) { // bounds the disk that a long run takes
			if err := s.SetBase(next, 1, next, 64<<20); err != nil {
				b.Fatal(err)
			}
		}
	}
	return next
}

func benchLog(b *testing.B) (dir string, s *Store) {
	b.Helper()
	dir = b.TempDir() + "/log"
	if err := Create(vfs.OS, dir, Base{}); err != nil {
		b.Fatal(err)
	}
	s, err := Open(vfs.OS, dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return dir, s
}

// BenchmarkStoreLogs compares a batch with an entry of the same size in the log of a store.
func BenchmarkStoreLogs(b *testing.B) {
	b.Run("16x64KiB", func(b *testing.B) {
		_, s := benchLog(b)
		b.SetBytes(1 << 20)
		fill(b, s, b.N, 16, 64<<10)
	})
	b.Run("1x300B", func(b *testing.B) {
		_, s := benchLog(b)
		fill(b, s, b.N, 1, 300)
	})
	for name, size := range map[string]int{"wal-1MiB": 1 << 20, "wal-300B": 300} {
		b.Run(name, func(b *testing.B) {
			l, err := wal.Open(b.TempDir()+"/wal", wal.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Replay(func(*walentry.Entry) error { return nil }); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			e := &walentry.Entry{Command: make([]byte, size)}
			b.ResetTimer()
			for i := range b.N {
				if err := l.Append(e); err != nil {
					b.Fatal(err)
				}
				if i%64 == 0 {
					if err := l.Trim(e.Sequence); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.StopTimer()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkGetLog(b *testing.B) {
	for name, size := range map[string]int{"64KiB": 64 << 10, "300B": 300} {
		b.Run(name, func(b *testing.B) {
			_, s := benchLog(b)
			last := fill(b, s, 16, 64, size)
			first, _ := s.FirstIndex()
			b.SetBytes(int64(size))
			b.ResetTimer()
			for i := range b.N {
				if err := s.GetLog(first+uint64(i)%(last-first+1), new(raft.Log)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	dir, s := benchLog(b)
	fill(b, s, 128, 16, 64<<10)
	b.SetBytes(s.Stats().Bytes)
	b.ResetTimer()
	for range b.N {
		s, err := Open(vfs.OS, dir, Options{})
		if err != nil || len(s.Damage()) > 0 {
			b.Fatal(err, s.Damage())
		}
		if err := s.closeFiles(s.segments); err != nil {
			b.Fatal(err)
		}
	}
}
