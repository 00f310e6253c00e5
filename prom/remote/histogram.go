package remote

import (
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/prom"
)

// parseHistogram reads a Histogram message. A message whose count is an
// integer, or that has no count, has an integer histogram.
func parseHistogram(b message) (prom.Histogram, error) {
	var common histogram.Histogram
	var count, zeroCount float64
	var positive, negative []float64
	float := false
	var h prom.Histogram
	var m member
	for {
		more, err := b.next(&m)
		if err != nil {
			return h, err
		}
		if !more {
			break
		}
		switch m.field {
		case 1:
			common.Count, float = m.num, false
		case 2:
			count, float = math.Float64frombits(m.num), true
		case 3:
			common.Sum = math.Float64frombits(m.num)
		case 4:
			common.Schema = int32(protowire.DecodeZigZag(m.num))
		case 5:
			common.ZeroThreshold = math.Float64frombits(m.num)
		case 6:
			common.ZeroCount = m.num
		case 7:
			zeroCount = math.Float64frombits(m.num)
		case 8:
			common.NegativeSpans, err = appendSpan(common.NegativeSpans, m.data)
		case 9:
			common.NegativeBuckets, err = appendDeltas(common.NegativeBuckets, m.num, m.data)
		case 10:
			negative, err = appendFloats(negative, m.num, m.data)
		case 11:
			common.PositiveSpans, err = appendSpan(common.PositiveSpans, m.data)
		case 12:
			common.PositiveBuckets, err = appendDeltas(common.PositiveBuckets, m.num, m.data)
		case 13:
			positive, err = appendFloats(positive, m.num, m.data)
		case 14:
			common.CounterResetHint = histogram.CounterResetHint(m.num & 3)
		case 15:
			h.Time = int64(m.num)
		case 16:
			common.CustomValues, err = appendFloats(common.CustomValues, m.num, m.data)
		case 17: // of version 2.0
			h.Start = int64(m.num)
		}
		if err != nil {
			return h, err
		}
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

func appendSpan(dst []histogram.Span, b message) ([]histogram.Span, error) {
	var s histogram.Span
	var m member
	for {
		more, err := b.next(&m)
		switch {
		case !more:
			return append(dst, s), err
		case m.field == 1:
			s.Offset = int32(protowire.DecodeZigZag(m.num))
		case m.field == 2:
			s.Length = uint32(m.num)
		}
	}
}

// appendDeltas appends the numbers of a repeated member, which come packed in data
// or one by one.
func appendDeltas(dst []int64, num uint64, data []byte) ([]int64, error) {
	if data == nil {
		return append(dst, protowire.DecodeZigZag(num)), nil
	}
	for len(data) > 0 {
		v, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return dst, errProtobuf
		}
		dst, data = append(dst, protowire.DecodeZigZag(v)), data[n:]
	}
	return dst, nil
}

// appendFloats is appendDeltas for floats.
func appendFloats(dst []float64, num uint64, data []byte) ([]float64, error) {
	if data == nil {
		return append(dst, math.Float64frombits(num)), nil
	}
	for len(data) > 0 {
		v, n := protowire.ConsumeFixed64(data)
		if n < 0 {
			return dst, errProtobuf
		}
		dst, data = append(dst, math.Float64frombits(v)), data[n:]
	}
	return dst, nil
}
