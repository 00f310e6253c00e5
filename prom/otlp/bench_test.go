package otlp

import (
	"context"
	"fmt"
	"testing"

	points "tsdbd/model/point"
	"tsdbd/prom"
)

// BenchmarkRequest translates requests of 1,000 data points with five attributes each.
func BenchmarkRequest(b *testing.B) {
	text := func(key, value string) []byte {
		return field(7, message(field(1, key), field(2, field(1, value))))
	}
	var numbers, histograms []byte
	for i := range 1000 {
		attributes := message(text("http.request.method", "GET"), text("http.route", fmt.Sprintf("/api/v%d", i)), text("server.address", "10.0.0.1"), text("server.port", "8080"), text("url.scheme", "https"))
		head := message(field(2, uint64(1_700_000_000_000_000_000)), field(3, uint64(1_700_000_060_000_000_000)))
		numbers = append(numbers, field(1, message(head, field(4, uint64(0x3ff8000000000000)), attributes))...)
		data := message(head, field(4, uint64(45)), field(5, uint64(0x4000000000000000)))
		for j := range 10 {
			data = message(data, field(6, uint64(j)))
			if j > 0 {
				data = message(data, field(7, 0x3ff0000000000000+uint64(j)<<50))
			}
		}
		for _, f := range [][]byte{text("http.request.method", "GET"), text("http.route", fmt.Sprintf("/api/v%d", i))} {
			data = message(data, field(9, f[2:]))
		}
		histograms = append(histograms, field(1, data)...)
	}
	f := func(name string, metric []byte) {
		resource := message(field(1, message(field(1, "service.name"), field(2, field(1, "shop")))), field(1, message(field(1, "host.name"), field(2, field(1, "h")))))
		body := field(1, message(field(1, resource), field(2, field(2, metric))))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			var batch points.Batch
			table := points.NewTable(1)
			rows := 0
			for b.Loop() {
				batch.Reset()
				result, err := Request(context.Background(), body, Options{}, Sink{Rows: &prom.Rows{Builder: points.NewBuilder(table, &batch)}})
				if err != nil || result.Rejected > 0 {
					b.Fatal(err, result.Message())
				}
				rows = len(batch.Rows)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
		})
	}
	f("gauge", message(field(1, "http.server.active_requests"), field(gauge, numbers)))
	f("histogram", message(field(1, "http.server.request.duration"), field(3, "s"), field(histogram, message(histograms, field(2, cumulative)))))
}
