package store

import (
	"fmt"
	"strings"
	"testing"

	"tsdbd/internal/vfs/vfstest"
)

// BenchmarkManyShards measures a one-row write, a look for a flush and a round
// of compactions with nothing to do in a store of 1,000 shards.
func BenchmarkManyShards(b *testing.B) {
	fs := vfstest.New()
	s := openTest(b, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "m,h=a v=1 %d\n", int64(i)*week)
	}
	s.must(s.write("db", lines.String()))
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			s.must(s.write("db", "m,h=a v=1 1"))
		}
	})
	b.Run("flush-tick", func(b *testing.B) {
		for b.Loop() {
			s.nextFlush()
		}
	})
	b.Run("compact-tick", func(b *testing.B) {
		for b.Loop() {
			s.compactOnce(b.Context())
		}
	})
}
