package remote

import (
	"math"
	"reflect"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
)

// message builds a protobuf message.
type message []byte

func (m message) number(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) float(field protowire.Number, v float64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), math.Float64bits(v))
}

func (m message) bytes(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

// TestHistogramMessages reads the histograms of a WriteRequest.
func TestHistogramMessages(t *testing.T) {
	f := func(h message, want prom.Histogram) {
		t.Helper()
		series := message(AppendLabel(nil, "__name__", "h")).bytes(4, h)
		calls := 0
		err := EachSeries(message(nil).bytes(1, series), func(labels model.Tags, samples []prom.Sample, got []prom.Histogram) error {
			calls++
			if len(labels) != 1 || len(samples) != 0 || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("%v %v %v %v, want %v %v", labels, samples, got[0].Int, got[0].Float, want.Int, want.Float)
			}
			return nil
		})
		if err != nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	}
	zig := protowire.EncodeZigZag
	span := func(offset int64, length uint64) message {
		return message(nil).number(1, zig(offset)).number(2, length)
	}
	f(message(nil), prom.Histogram{Int: &histogram.Histogram{}})
	integer := message(nil).number(1, 9).float(3, 1.5).number(4, zig(-2)).float(5, 0.25).number(6, 3).
		bytes(8, span(-1, 1)).number(9, zig(2)). // not packed
		bytes(11, span(0, 1)).bytes(11, span(5, 1)).bytes(12, protowire.AppendVarint(protowire.AppendVarint(nil, zig(3)), zig(-2))).
		number(14, 2).number(15, 1000)
	f(integer, prom.Histogram{Time: 1000, Int: &histogram.Histogram{
		CounterResetHint: histogram.NotCounterReset, Schema: -2, ZeroThreshold: 0.25, ZeroCount: 3, Count: 9, Sum: 1.5,
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}, {Offset: 5, Length: 1}}, PositiveBuckets: []int64{3, -2},
		NegativeSpans: []histogram.Span{{Offset: -1, Length: 1}}, NegativeBuckets: []int64{2},
	}})
	packed := message(nil).float(0x10, 1)[2:]
	float := message(nil).float(2, 2.5).float(3, math.Inf(1)).number(4, zig(int64(histogram.CustomBucketsSchema))).float(7, 0).
		bytes(11, span(0, 2)).bytes(13, append(packed[:8:8], packed[:8]...)).float(10, 7).bytes(16, packed[:8]).
		number(14, 3).number(15, math.MaxUint64)
	f(float, prom.Histogram{Time: -1, Float: &histogram.FloatHistogram{
		CounterResetHint: histogram.GaugeType, Schema: histogram.CustomBucketsSchema, Count: 2.5, Sum: math.Inf(1),
		PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []float64{1, 1}, NegativeBuckets: []float64{7}, CustomValues: []float64{1},
	}})
	for _, bad := range []message{
		message(nil).bytes(12, []byte{0x80}), message(nil).bytes(13, []byte{1}), message(nil).bytes(9, []byte{0xff}),
		message(nil).bytes(10, []byte{1}), message(nil).bytes(11, []byte{8}), message(nil).bytes(16, []byte{0}),
	} {
		err := EachSeries(message(nil).bytes(1, message(nil).bytes(4, bad)), func(model.Tags, []prom.Sample, []prom.Histogram) error { return nil })
		if err == nil {
			t.Errorf("%x is accepted", bad)
		}
	}
}
