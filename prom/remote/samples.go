package remote

import (
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/prom"
)

// maxResponse bounds a ReadResponse.
const maxResponse = 256 << 20

// ErrTooLarge ends a ReadResponse that no client could take.
var ErrTooLarge = errors.New("answer is too large, ask for a shorter range or fewer series")

// Samples is a ReadResponse in the making. It is held in memory, because a message
// begins with its length.
type Samples struct {
	charge  func(bytes int64) error
	message []byte
	result  []byte // series of the present query
	series  []byte // the present series
	query   int
}

// NewSamples returns a ReadResponse. It calls charge with the bytes that it holds
// before it holds more, and ends with the error of charge.
func NewSamples(charge func(bytes int64) error) *Samples { return &Samples{charge: charge} }

// hold charges for n more bytes at the end of one of the parts of s.
func (s *Samples) hold(part *[]byte, n int) error {
	need := len(*part) + n
	if need <= cap(*part) {
		return nil
	}
	grown := max(need, cap(*part)+cap(*part)/2, 4<<10)
	others := cap(s.message) + cap(s.result) + cap(s.series)
	if others-cap(*part)+need > maxResponse {
		return ErrTooLarge
	}
	if err := s.charge(int64(others + grown)); err != nil {
		return err
	}
	b := make([]byte, len(*part), grown)
	copy(b, *part)
	*part = b
	return nil
}

// Add adds a series to the result of a query. The numbers of queries ascend.
func (s *Samples) Add(query int, series storage.Series) error {
	if err := s.next(query); err != nil {
		return err
	}
	s.series = s.series[:0]
	err := series.Labels().Validate(func(l labels.Label) error {
		if err := s.hold(&s.series, maxLabel+len(l.Name)+len(l.Value)); err != nil {
			return err
		}
		s.series = AppendLabel(s.series, l.Name, l.Value)
		return nil
	})
	if err != nil {
		return err
	}
	it := series.Iterator(nil)
	n := 0
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		n++
		if err := s.sample(kind, it); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil || n == 0 {
		return err
	}
	return s.wrap(&s.result, s.series)
}

// sample adds the present sample of an iterator.
func (s *Samples) sample(kind chunkenc.ValueType, it chunkenc.Iterator) error {
	var h prom.Histogram
	switch kind {
	case chunkenc.ValFloat:
		if err := s.hold(&s.series, maxSample); err != nil {
			return err
		}
		t, v := it.At()
		s.series = AppendSample(s.series, prom.Sample{Value: v, Time: t})
		return nil
	case chunkenc.ValHistogram:
		h.Time, h.Int = it.AtHistogram(nil)
	case chunkenc.ValFloatHistogram:
		h.Time, h.Float = it.AtFloatHistogram(nil)
	default:
		return fmt.Errorf("a sample of the unknown type %s", kind)
	}
	b := appendHistogram(nil, &h)
	if err := s.hold(&s.series, maxHead+len(b)); err != nil {
		return err
	}
	s.series = appendMessage(s.series, 4, b)
	return nil
}

// wrap appends a message as member 1 of a part.
func (s *Samples) wrap(part *[]byte, b []byte) error {
	if err := s.hold(part, maxHead+len(b)); err != nil {
		return err
	}
	*part = appendMessage(*part, 1, b)
	return nil
}

// next completes the results of the queries before one.
func (s *Samples) next(query int) error {
	for ; s.query < query; s.query++ {
		if err := s.wrap(&s.message, s.result); err != nil {
			return err
		}
		s.result = s.result[:0]
	}
	return nil
}

// Finish returns the message with the results of n queries.
func (s *Samples) Finish(n int) ([]byte, error) {
	err := s.next(n)
	s.series, s.result = nil, nil
	return s.message, err
}

// maxHead is the largest size of the tag and the length of a member, maxLabel that of a
// label without its texts, and maxSample that of a sample.
const (
	maxHead   = 1 + 5
	maxLabel  = 3 * maxHead
	maxSample = 1 + 1 + 1 + 8 + 1 + 10
)

// appendMessage appends a message as a member of another.
func appendMessage(dst []byte, field protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), b)
}

// AppendLabel appends a label as a member of a time series of version 1.0.
func AppendLabel(dst []byte, name, value string) []byte {
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(len(value))
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 1, protowire.BytesType), uint64(size))
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), name)
	return protowire.AppendString(protowire.AppendTag(dst, 2, protowire.BytesType), value)
}

// AppendSample appends a sample as a member of a time series of version 1.0, which has
// no start timestamps.
func AppendSample(dst []byte, s prom.Sample) []byte {
	size := protowire.SizeTag(1) + protowire.SizeFixed64() + protowire.SizeTag(2) + protowire.SizeVarint(uint64(s.Time))
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.BytesType), uint64(size))
	dst = appendFloat(dst, 1, s.Value)
	return appendNumber(dst, 2, uint64(s.Time))
}

func appendNumber(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func appendFloat(dst []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), math.Float64bits(v))
}

// appendHistogram appends the Histogram message of version 1.0.
func appendHistogram(dst []byte, h *prom.Histogram) []byte {
	i, f := h.Int, h.Float
	if i == nil { // what is the same in both
		i = &histogram.Histogram{
			CounterResetHint: f.CounterResetHint, Schema: f.Schema, ZeroThreshold: f.ZeroThreshold, Sum: f.Sum,
			PositiveSpans: f.PositiveSpans, NegativeSpans: f.NegativeSpans, CustomValues: f.CustomValues,
		}
		dst = appendFloat(appendFloat(dst, 2, f.Count), 7, f.ZeroCount)
		dst = appendFloatList(appendFloatList(dst, 10, f.NegativeBuckets), 13, f.PositiveBuckets)
	} else {
		dst = appendNumber(appendNumber(dst, 1, i.Count), 6, i.ZeroCount)
		dst = appendDeltaList(appendDeltaList(dst, 9, i.NegativeBuckets), 12, i.PositiveBuckets)
	}
	dst = appendFloat(dst, 3, i.Sum)
	dst = appendNumber(dst, 4, protowire.EncodeZigZag(int64(i.Schema)))
	dst = appendFloat(dst, 5, i.ZeroThreshold)
	dst = appendSpans(appendSpans(dst, 8, i.NegativeSpans), 11, i.PositiveSpans)
	dst = appendNumber(dst, 14, uint64(i.CounterResetHint))
	dst = appendNumber(dst, 15, uint64(h.Time))
	return appendFloatList(dst, 16, i.CustomValues)
}

func appendSpans(dst []byte, field protowire.Number, spans []histogram.Span) []byte {
	for _, s := range spans {
		b := appendNumber(nil, 1, protowire.EncodeZigZag(int64(s.Offset)))
		dst = appendMessage(dst, field, appendNumber(b, 2, uint64(s.Length)))
	}
	return dst
}

func appendDeltaList(dst []byte, field protowire.Number, deltas []int64) []byte {
	if len(deltas) == 0 {
		return dst
	}
	var b []byte
	for _, d := range deltas {
		b = protowire.AppendVarint(b, protowire.EncodeZigZag(d))
	}
	return appendMessage(dst, field, b)
}

func appendFloatList(dst []byte, field protowire.Number, floats []float64) []byte {
	if len(floats) == 0 {
		return dst
	}
	b := make([]byte, 0, 8*len(floats))
	for _, f := range floats {
		b = protowire.AppendFixed64(b, math.Float64bits(f))
	}
	return appendMessage(dst, field, b)
}
