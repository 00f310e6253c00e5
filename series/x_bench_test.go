package series

import (
	"os"
	"path/filepath"
	"testing"

	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/model"
)

const benchBatch = 10000

func createAll(b testing.TB, f *File, keys []string) []model.SeriesID {
	ids := make([]model.SeriesID, len(keys))
	for i := 0; i < len(keys); i += benchBatch {
		end := min(i+benchBatch, len(keys))
		if err := settle(f, keys[i:end], ids[i:end]); err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

// memoryBytes returns what the series file holds in memory, without the cache, the
// mapped index, and the text of keys not yet synced.
func memoryBytes(f *File) int {
	pages := len(f.mu.pending.pages) + len(f.mu.flushing.pages) + len(f.mu.repaired.pages)
	return f.mu.tail.Bytes() + 8*cap(f.mu.fresh) + 64*len(f.mu.blocks) + pages*(16<<keyPageBits)
}

func BenchmarkSeriesFile(b *testing.B) {
	for _, c := range []struct {
		name string
		keys []string
	}{{"hicard1M", load.HicardKeys(1_000_000)}, {"tsbs200k", load.TSBSKeys(200_000)}} {
		keys := c.keys
		per := func(b *testing.B, unit string) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keys)), unit)
		}
		b.Run(c.name+"/create", func(b *testing.B) {
			for b.Loop() {
				f, err := Open(vfs.OS, b.TempDir(), Options{})
				if err != nil {
					b.Fatal(err)
				}
				createAll(b, f, keys)
			}
			per(b, "ns/key")
		})
		dir := b.TempDir()
		f, err := Open(vfs.OS, dir, Options{Cache: NewCache(1 << 30)})
		if err != nil {
			b.Fatal(err)
		}
		ids := createAll(b, f, keys)
		b.Run(c.name+"/sync", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if i > 0 {
					b.StopTimer()
					f, _ = Open(vfs.OS, b.TempDir(), Options{Cache: NewCache(1 << 30)})
					createAll(b, f, keys)
					dir = f.dir
					b.StartTimer()
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			per(b, "ns/key")
			log, _ := os.Stat(filepath.Join(dir, LogName))
			idx, _ := os.Stat(filepath.Join(dir, IndexName))
			b.ReportMetric(float64(log.Size())/float64(len(keys)), "log-B/key")
			b.ReportMetric(float64(idx.Size())/float64(len(keys)), "idx-B/key")
			b.ReportMetric(float64(memoryBytes(f))/float64(len(keys)), "mem-B/key")
		})
		b.Run(c.name+"/lookup-cached", func(b *testing.B) {
			createAll(b, f, keys) // fills the cache
			i := 0
			for b.Loop() {
				i = (i + 7919) % len(keys)
				if id, ok := f.Lookup(keys[i]); !ok || id != ids[i] {
					b.Fatal(i)
				}
			}
		})
		b.Run(c.name+"/lookup-hot", func(b *testing.B) {
			i := 0
			for b.Loop() {
				i = (i + 7) % 10000
				if id, ok := f.Lookup(keys[i]); !ok || id != ids[i] {
					b.Fatal(i)
				}
			}
		})
		b.Run(c.name+"/lookup-missing", func(b *testing.B) {
			for b.Loop() {
				if _, ok := f.Lookup("m,app=nosuch,host=nosuch"); ok {
					b.Fatal()
				}
			}
		})
		b.Run(c.name+"/create-known-batch", func(b *testing.B) {
			f, err := Open(vfs.OS, dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				createAll(b, f, keys)
			}
			per(b, "ns/key")
			_ = f.Close()
		})
		b.Run(c.name+"/key-uncached", func(b *testing.B) {
			f, err := Open(vfs.OS, dir, Options{Cache: NewCache(1)})
			if err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				i = (i + 7919) % len(keys)
				if _, err := f.Key(ids[i]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/open", func(b *testing.B) {
			for b.Loop() {
				f, err := Open(vfs.OS, dir, Options{})
				if err != nil || f.Len() != len(keys) {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/open-without-index", func(b *testing.B) {
			_ = os.Remove(filepath.Join(dir, IndexName))
			for b.Loop() {
				f, err := Open(vfs.OS, dir, Options{})
				if err != nil || f.Len() != len(keys) {
					b.Fatal(err)
				}
			}
		})
	}
}
