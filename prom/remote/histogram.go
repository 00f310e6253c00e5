package remote

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/prom"
	"tsdbd/prom/proto"
)

// parseHistogram reads a Histogram message. A message whose count is an
// integer, or that has no count, has an integer histogram.
func parseHistogram(b []byte) (prom.Histogram, error) {
	var common histogram.Histogram
	var count, zeroCount float64
	var positive, negative []float64
	float := false
	var h prom.Histogram
	m := proto.Read(b)
	for m.Next() {
		var err error
		switch m.Field {
		case 1:
			common.Count, float = m.Num, false
		case 2:
			count, float = math.Float64frombits(m.Num), true
		case 3:
			common.Sum = math.Float64frombits(m.Num)
		case 4:
			common.Schema = int32(protowire.DecodeZigZag(m.Num))
		case 5:
			common.ZeroThreshold = math.Float64frombits(m.Num)
		case 6:
			common.ZeroCount = m.Num
		case 7:
			zeroCount = math.Float64frombits(m.Num)
		case 8:
			common.NegativeSpans, err = appendSpan(common.NegativeSpans, m.Data)
		case 9:
			common.NegativeBuckets, err = appendDeltas(common.NegativeBuckets, &m.Member)
		case 10:
			negative, err = appendFloats(negative, &m.Member)
		case 11:
			common.PositiveSpans, err = appendSpan(common.PositiveSpans, m.Data)
		case 12:
			common.PositiveBuckets, err = appendDeltas(common.PositiveBuckets, &m.Member)
		case 13:
			positive, err = appendFloats(positive, &m.Member)
		case 14:
			common.CounterResetHint = histogram.CounterResetHint(m.Num & 3)
		case 15:
			h.Time = int64(m.Num)
		case 16:
			common.CustomValues, err = appendFloats(common.CustomValues, &m.Member)
		case 17: // of version 2.0
			h.Start = int64(m.Num)
		}
		if err != nil {
			return h, err
		}
	}
	if m.Err != nil {
		return h, m.Err
	}
	if !float {
		h.Int = &common
		return h, nil
	}
	h.Float = &histogram.FloatHistogram{
		CounterResetHint: common.CounterResetHint, Schema: common.Schema, ZeroThreshold: common.ZeroThreshold,
		ZeroCount: zeroCount, Count: count, Sum: common.Sum,
		PositiveSpans: common.PositiveSpans, PositiveBuckets: positive,
		NegativeSpans: common.NegativeSpans, NegativeBuckets: negative,
		CustomValues: common.CustomValues,
	}
	return h, nil
}

func appendSpan(dst []histogram.Span, b []byte) ([]histogram.Span, error) {
	var s histogram.Span
	r := proto.Read(b)
	for r.Next() {
		switch r.Field {
		case 1:
			s.Offset = int32(protowire.DecodeZigZag(r.Num))
		case 2:
			s.Length = uint32(r.Num)
		}
	}
	return append(dst, s), r.Err
}

// appendDeltas appends the numbers of a repeated member.
func appendDeltas(dst []int64, m *proto.Member) ([]int64, error) {
	return proto.AppendVarints(dst, m, math.MaxInt, protowire.DecodeZigZag)
}

// appendFloats appends the floats of a repeated member.
func appendFloats(dst []float64, m *proto.Member) ([]float64, error) {
	return proto.AppendFixed(dst, m, math.MaxInt, math.Float64frombits)
}
