package prom

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/model/histogram"

	"tsdbd/internal/binio"
)

// Histogram is a native histogram of a series at a time. Exactly one of Int and
// Float is set.
type Histogram struct {
	Time, Start int64 // ms since the epoch; a Start of 0 is unknown
	Int         *histogram.Histogram
	Float       *histogram.FloatHistogram
}

// The first byte of a histogram has its version in the upper four bits, the hint
// about counter resets in the two above the lowest, and in the lowest whether the
// counts are floats.
const (
	histogramVersion = 1 << 4
	histogramFloat   = 1
)

// StoredHistogram appends the text of a histogram that came from outside. It brings the
// resolution down to the finest that is computed with, and refuses a histogram that is
// not valid.
func StoredHistogram(dst []byte, h *Histogram) ([]byte, error) {
	stored := *h
	if err := stored.reduce(); err != nil {
		return dst, err
	}
	if err := stored.validate(); err != nil {
		return dst, err
	}
	return AppendHistogram(dst, &stored), nil
}

// validate returns why a histogram cannot be stored.
func (h *Histogram) validate() error {
	switch {
	case (h.Int == nil) == (h.Float == nil):
		return errors.New("histogram without counts")
	case h.Int != nil:
		return h.Int.Validate()
	}
	return h.Float.Validate()
}

// reduce brings the resolution of a histogram down to the finest that is computed with.
func (h *Histogram) reduce() (err error) {
	const finest = histogram.ExponentialSchemaMax
	switch {
	case h.Int != nil && h.Int.Schema > finest && histogram.IsExponentialSchemaReserved(h.Int.Schema):
		reduced := h.Int.Copy()
		err = reduced.ReduceResolution(finest)
		h.Int = reduced
	case h.Float != nil && h.Float.Schema > finest && histogram.IsExponentialSchemaReserved(h.Float.Schema):
		reduced := h.Float.Copy()
		err = reduced.ReduceResolution(finest)
		h.Float = reduced
	}
	return err
}

// AppendHistogram appends the text of a valid histogram, the value of
// HistogramField. The text has every bit of the histogram but not its times. It
// consists of the letters of base64. docs/formats/histogram.md describes it.
func AppendHistogram(dst []byte, h *Histogram) []byte {
	var room [512]byte
	b := room[:0]
	if i := h.Int; i != nil {
		b = appendHead(b, 0, i.CounterResetHint, i.Schema, i.ZeroThreshold, i.Sum)
		b = binary.AppendUvarint(binary.AppendUvarint(b, i.Count), i.ZeroCount)
		b = appendBuckets(b, i.PositiveSpans, i.PositiveBuckets, binary.AppendVarint)
		b = appendBuckets(b, i.NegativeSpans, i.NegativeBuckets, binary.AppendVarint)
		b = appendBounds(b, i.CustomValues)
	} else {
		f := h.Float
		b = appendHead(b, histogramFloat, f.CounterResetHint, f.Schema, f.ZeroThreshold, f.Sum)
		b = appendFloat(appendFloat(b, f.Count), f.ZeroCount)
		b = appendBuckets(b, f.PositiveSpans, f.PositiveBuckets, appendFloat)
		b = appendBuckets(b, f.NegativeSpans, f.NegativeBuckets, appendFloat)
		b = appendBounds(b, f.CustomValues)
	}
	return base64.RawStdEncoding.AppendEncode(dst, b)
}

func appendHead(b []byte, kind byte, hint histogram.CounterResetHint, schema int32, zero, sum float64) []byte {
	b = append(b, histogramVersion|byte(hint&3)<<1|kind)
	return appendFloat(appendFloat(binary.AppendVarint(b, int64(schema)), zero), sum)
}

func appendBuckets[T int64 | float64](b []byte, spans []histogram.Span, counts []T, one func([]byte, T) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(spans)))
	for _, s := range spans {
		b = binary.AppendUvarint(binary.AppendVarint(b, int64(s.Offset)), uint64(s.Length))
	}
	for _, c := range counts {
		b = one(b, c)
	}
	return b
}

func appendBounds(b []byte, bounds []float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(bounds)))
	for _, v := range bounds {
		b = appendFloat(b, v)
	}
	return b
}

// appendFloat appends the bytes of a float in reverse order as a varint. Small
// integers and powers of two are short that way.
func appendFloat(b []byte, v float64) []byte {
	return binary.AppendUvarint(b, bits.ReverseBytes64(math.Float64bits(v)))
}

// ParseHistogram reads the text that AppendHistogram has written. It rejects a
// histogram that is not valid. The times are left 0.
func ParseHistogram(text string) (Histogram, error) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return Histogram{}, fmt.Errorf("read histogram: %w", err)
	}
	d := binio.NewDecoder(b)
	var h Histogram
	first := d.Byte()
	if version := first &^ 0xf; version != histogramVersion && d.Err() == nil {
		return Histogram{}, fmt.Errorf("read histogram: %w", binio.CheckVersion("", "histogram", uint64(version>>4), histogramVersion>>4))
	}
	if first&8 != 0 {
		d.Fail("unknown flag")
	}
	hint := histogram.CounterResetHint(first >> 1 & 3)
	schema := int32Of(&d, d.Varint())
	zero, sum := readFloat(&d), readFloat(&d)
	if first&histogramFloat == 0 {
		i := &histogram.Histogram{CounterResetHint: hint, Schema: schema, ZeroThreshold: zero, Sum: sum, Count: d.Uvarint(), ZeroCount: d.Uvarint()}
		i.PositiveSpans, i.PositiveBuckets = readBuckets(&d, (*binio.Decoder).Varint)
		i.NegativeSpans, i.NegativeBuckets = readBuckets(&d, (*binio.Decoder).Varint)
		i.CustomValues = readBounds(&d)
		h.Int = i
	} else {
		f := &histogram.FloatHistogram{CounterResetHint: hint, Schema: schema, ZeroThreshold: zero, Sum: sum, Count: readFloat(&d), ZeroCount: readFloat(&d)}
		f.PositiveSpans, f.PositiveBuckets = readBuckets(&d, readFloat)
		f.NegativeSpans, f.NegativeBuckets = readBuckets(&d, readFloat)
		f.CustomValues = readBounds(&d)
		h.Float = f
	}
	if d.Len() > 0 {
		d.Fail("unexpected bytes after the histogram")
	}
	if err = d.Err(); err == nil {
		err = h.validate()
	}
	if err != nil {
		return Histogram{}, fmt.Errorf("read histogram: %w", err)
	}
	return h, nil
}

func readBuckets[T int64 | float64](d *binio.Decoder, one func(*binio.Decoder) T) (spans []histogram.Span, counts []T) {
	if n := d.Count(2); n > 0 {
		spans = make([]histogram.Span, n)
	}
	total := uint64(0)
	for i := range spans {
		spans[i].Offset = int32Of(d, d.Varint())
		length := d.Uvarint()
		if total += length; length > math.MaxUint32 || total > uint64(d.Len()) {
			d.Fail("more buckets than bytes")
			return nil, nil
		}
		spans[i].Length = uint32(length)
	}
	if total > 0 {
		counts = make([]T, total)
	}
	for i := range counts {
		counts[i] = one(d)
	}
	return spans, counts
}

func readBounds(d *binio.Decoder) (bounds []float64) {
	if n := d.Count(1); n > 0 {
		bounds = make([]float64, n)
	}
	for i := range bounds {
		bounds[i] = readFloat(d)
	}
	return bounds
}

func readFloat(d *binio.Decoder) float64 {
	return math.Float64frombits(bits.ReverseBytes64(d.Uvarint()))
}

func int32Of(d *binio.Decoder, v int64) int32 {
	if v != int64(int32(v)) {
		d.Fail("number outside 32 bits")
	}
	return int32(v)
}
