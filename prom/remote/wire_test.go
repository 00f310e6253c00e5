package remote

import (
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
)

// FuzzPrometheusMessages holds that no bytes make the readers of remote write
// and read panic, and that what they accept stays within the message.
func FuzzPrometheusMessages(f *testing.F) {
	series := AppendLabel(nil, "__name__", "up")
	series = AppendLabel(series, "job", "node")
	series = AppendSample(series, prom.Sample{Value: 1.5, Time: 1000})
	series = AppendSample(series, prom.Sample{Value: math.Inf(1), Time: -1})
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), series))
	histogram := message(nil).number(1, 2).number(15, 3).bytes(11, message(nil).number(2, 1)).number(12, 4)
	f.Add([]byte(message(nil).bytes(1, message(series).bytes(4, histogram))))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{0x0b, 0x0b, 0x0c})
	f.Add([]byte{0x0a, 0x04, 0x08, 0x01, 0x10, 0x02})
	f.Fuzz(func(t *testing.T, b []byte) {
		table := point.NewTable(1)
		batch := &point.Batch{}
		p := prom.Rows{Builder: point.NewBuilder(table, batch)}
		samples := 0
		err := EachSeries(b, func(l model.Tags, s []prom.Sample, h []prom.Histogram) error {
			samples += len(s) + len(h)
			return p.Add(l, s, h)
		})
		if err == nil && len(batch.Rows)+p.Refused > samples {
			t.Errorf("%d rows and %d refused of %d samples", len(batch.Rows), p.Refused, samples)
		}
		if len(batch.Values) != len(batch.Rows) || samples > len(b) {
			t.Errorf("%d samples of %d bytes, %d rows, %d values", samples, len(b), len(batch.Rows), len(batch.Values))
		}
		queries, err := ParseReadRequest(b)
		if err == nil {
			for i := range queries {
				_, _ = queries[i].Statement("db", "") // any error, no panic
			}
		}
	})
}
