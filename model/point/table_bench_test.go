package point

import (
	"fmt"
	"math/rand"
	"testing"
)

// million is a table of a million series and their keys, which are 85 bytes
// long.
func million() (*Table, [][]byte) {
	table := NewTable(1)
	keys := make([][]byte, 1_000_000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "cpu,datacenter=eu-central-1a,hostname=host_%d,os=Ubuntu15.10,region=eu-central-1", i)
		table.Insert(keys[i], string(keys[i]))
	}
	return table, keys
}

func BenchmarkTableFind(b *testing.B) {
	table, keys := million()
	bytes := 0
	for _, k := range keys {
		bytes += len(k)
	}
	rand.New(rand.NewSource(1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i := 0; b.Loop(); i++ {
		if n, _ := table.Find(keys[i%len(keys)]); n == 0 {
			b.Fatal("lost")
		}
	}
	b.ReportMetric(float64(table.Bytes()-int64(bytes))/float64(table.mu.series), "bytes/series")
}

func BenchmarkTableInsert(b *testing.B) {
	var table *Table
	var key []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1_000_000 == 0 {
			table = NewTable(1)
		}
		key = fmt.Appendf(key[:0], "cpu,datacenter=eu-central-1a,hostname=host_%d,os=Ubuntu15.10,region=eu-central-1", i%1_000_000)
		table.Insert(key, string(key))
	}
}

// BenchmarkTableTrim trims a table of a million series.
func BenchmarkTableTrim(b *testing.B) {
	table, _ := million()
	for b.Loop() {
		if table.Trim().mu.series < 800_000 {
			b.Fatal("lost")
		}
	}
}
