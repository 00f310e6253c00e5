package remote

import (
	"math"
	"reflect"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/prom"
)

// build is a protobuf message in the making.
type build []byte

func (m build) number(field protowire.Number, v uint64) build {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m build) float(field protowire.Number, v float64) build {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), math.Float64bits(v))
}

func (m build) bytes(field protowire.Number, b []byte) build {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

// TestHistogramMessages reads histograms of both versions.
func TestHistogramMessages(t *testing.T) {
	f := func(h build, want prom.Histogram) {
		t.Helper()
		if got, err := parseHistogram(h); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v %v %v, want %v %v", got.Int, got.Float, err, want.Int, want.Float)
		}
	}
	zig := protowire.EncodeZigZag
	span := func(offset int64, length uint64) build {
		return build(nil).number(1, zig(offset)).number(2, length)
	}
	f(build(nil), prom.Histogram{Int: &histogram.Histogram{}})
	integer := build(nil).number(1, 9).float(3, 1.5).number(4, zig(-2)).float(5, 0.25).number(6, 3).
		bytes(8, span(-1, 1)).number(9, zig(2)). // not packed
		bytes(11, span(0, 1)).bytes(11, span(5, 1)).bytes(12, protowire.AppendVarint(protowire.AppendVarint(nil, zig(3)), zig(-2))).
		number(14, 2).number(15, 1000)
	f(integer, prom.Histogram{Time: 1000, Int: &histogram.Histogram{
		CounterResetHint: histogram.NotCounterReset, Schema: -2, ZeroThreshold: 0.25, ZeroCount: 3, Count: 9, Sum: 1.5,
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}, {Offset: 5, Length: 1}}, PositiveBuckets: []int64{3, -2},
		NegativeSpans: []histogram.Span{{Offset: -1, Length: 1}}, NegativeBuckets: []int64{2},
	}})
	packed := build(nil).float(0x10, 1)[2:]
	float := build(nil).float(2, 2.5).float(3, math.Inf(1)).number(4, zig(int64(histogram.CustomBucketsSchema))).float(7, 0).
		bytes(11, span(0, 2)).bytes(13, append(packed[:8:8], packed[:8]...)).float(10, 7).bytes(16, packed[:8]).
		number(14, 3).number(15, math.MaxUint64).number(17, 500)
	f(float, prom.Histogram{Time: -1, Start: 500, Float: &histogram.FloatHistogram{
		CounterResetHint: histogram.GaugeType, Schema: histogram.CustomBucketsSchema, Count: 2.5, Sum: math.Inf(1),
		PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []float64{1, 1}, NegativeBuckets: []float64{7}, CustomValues: []float64{1},
	}})
	for _, bad := range []build{
		build(nil).bytes(12, []byte{0x80}), build(nil).bytes(13, []byte{1}), build(nil).bytes(9, []byte{0xff}),
		build(nil).bytes(10, []byte{1}), build(nil).bytes(11, []byte{8}), build(nil).bytes(16, []byte{0}),
	} {
		if _, err := parseHistogram(bad); err == nil {
			t.Errorf("%x is accepted", bad)
		}
	}
}
