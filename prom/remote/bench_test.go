package remote

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model/point"
	"tsdbd/prom"
)

// scrapes returns requests as Prometheus sends them: one sample of each of 2,000 series of a
// few targets, with ten labels, in both versions.
func scrapes(requests int) (first, second [][]byte) {
	const series = 2000
	for n := range requests {
		var one, two []byte
		refs := map[string]uint64{"": 0}
		symbols := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), nil)
		ref := func(s string) uint64 {
			if _, ok := refs[s]; !ok {
				refs[s] = uint64(len(refs))
				symbols = protowire.AppendString(protowire.AppendTag(symbols, 4, protowire.BytesType), s)
			}
			return refs[s]
		}
		for i := range series {
			target := n*4 + i/500
			s := prom.Sample{Value: float64(i), Time: 1451606400000 + int64(n)*15_000}
			var labels, packed []byte
			for _, l := range [][2]string{
				{"__name__", fmt.Sprintf("node_network_receive_bytes_%d_total", i%500/8)},
				{"cluster", "eu-west-1"},
				{"container", "node-exporter"},
				{"device", fmt.Sprintf("eth%d", i%8)},
				{"endpoint", "https"},
				{"instance", fmt.Sprintf("10.0.%d.%d:9100", target/250, target%250)},
				{"job", "node-exporter"},
				{"namespace", "monitoring"},
				{"pod", fmt.Sprintf("node-exporter-%05d", target)},
				{"service", "kube-prometheus-stack-prometheus-node-exporter"},
			} {
				labels = AppendLabel(labels, l[0], l[1])
				packed = protowire.AppendVarint(protowire.AppendVarint(packed, ref(l[0])), ref(l[1]))
			}
			packed = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), packed)
			one = protowire.AppendBytes(protowire.AppendTag(one, 1, protowire.BytesType), AppendSample(labels, s))
			two = protowire.AppendBytes(protowire.AppendTag(two, 5, protowire.BytesType), AppendSample(packed, s))
		}
		first, second = append(first, one), append(second, append(symbols, two...))
	}
	return first, second
}

// BenchmarkWrite reads requests of 100,000 series, which are known or new.
func BenchmarkWrite(b *testing.B) {
	first, second := scrapes(50)
	for _, version := range []struct {
		name     string
		requests [][]byte
		read     func([]byte, *prom.Rows) (Written, error)
	}{{"1.0", first, Write}, {"2.0", second, Write2}} {
		for _, known := range []bool{true, false} {
			b.Run(fmt.Sprintf("version=%s/known=%v", version.name, known), func(b *testing.B) {
				batch := new(point.Batch)
				table := point.NewTable(1)
				read := func(i int) {
					if !known && i%len(version.requests) == 0 {
						table = point.NewTable(1)
					}
					batch.Reset()
					rows := prom.Rows{Builder: point.NewBuilder(table, batch)}
					if _, err := version.read(version.requests[i%len(version.requests)], &rows); err != nil || len(batch.Rows) != 2000 {
						b.Fatal(len(batch.Rows), err)
					}
				}
				for i := range 2 * len(version.requests) {
					read(i)
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					read(i)
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
			})
		}
	}
}
