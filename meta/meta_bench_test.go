package meta

import (
	"fmt"
	"testing"

	"tsdbd/internal/proc"
	"tsdbd/internal/vfs"
)

func benchData(b *testing.B, groups int) *Data {
	d := empty()
	for i := range 20 {
		d, _ = Apply(CreateDatabase{Name: fmt.Sprint("db", i)}, d)
	}
	for i := range groups {
		next, err := Apply(CreateShardGroup{Database: "db7", Time: int64(i) * int64(week)}, d)
		if err != nil {
			b.Fatal(err)
		}
		d = next
	}
	return d
}

// What each point of a write may need.
func BenchmarkShardGroupAt(b *testing.B) {
	d := benchData(b, 1000)
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		rp, err := d.RetentionPolicy("db7", "")
		if err != nil || rp.ShardGroupAt(i%1000*int64(week)) == nil {
			b.Fatal("not found")
		}
		i++
	}
}

func BenchmarkEncode(b *testing.B) {
	d := benchData(b, 1000)
	var buf []byte
	for b.Loop() {
		buf, _ = encode(buf[:0], d, 0)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}

// BenchmarkNewShardGroup adds a shard group to a catalog of so many on a real
// disk: each change writes and syncs a record in both copies, or the copies anew.
func BenchmarkNewShardGroup(b *testing.B) {
	for _, groups := range []int{100, 1_000, 17_000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			c, err := Open(vfs.OS, b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			times := make([]int64, groups)
			for i := range times {
				times[i] = int64(i-groups/2) * int64(week)
			}
			for _, cmd := range []Command{CreateDatabase{Name: "db"}, CreateShardGroups{Database: "db", RetentionPolicy: "autogen", Times: times}} {
				if _, err := change(c, cmd); err != nil {
					b.Fatal(err)
				}
			}
			before, at := proc.CPUTime(), groups-groups/2
			for b.Loop() {
				times[0] = int64(at) * int64(week)
				at++
				if _, err := change(c, CreateShardGroups{Database: "db", RetentionPolicy: "autogen", Times: times[:1]}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((proc.CPUTime()-before).Nanoseconds())/float64(b.N), "CPU-ns/op")
		})
	}
}

// BenchmarkApply makes a shard group in memory beside so many.
func BenchmarkApply(b *testing.B) {
	for _, groups := range []int{1_000, 17_000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			d := benchData(b, groups)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Apply(CreateShardGroup{Database: "db7", Time: int64(groups) * int64(week)}, d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApplyBatch makes 600 shard groups, in one change, beside so many.
func BenchmarkApplyBatch(b *testing.B) {
	for _, groups := range []int{1_000, 17_000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			d := benchData(b, groups)
			times := make([]int64, 600)
			for i := range times {
				times[i] = int64(groups+i) * int64(week)
			}
			for b.Loop() {
				if _, err := Apply(CreateShardGroups{Database: "db7", Times: times}, d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
