package meta

import (
	"fmt"
	"testing"
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
		buf, _ = encode(buf[:0], d)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}
