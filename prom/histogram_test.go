package prom

import (
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"tsdbd/internal/testkit/formats"
)

// histograms are examples, with one of each of the parts that a histogram can have.
func histograms() []Histogram {
	stale := math.Float64frombits(value.StaleNaN)
	otherNaN := math.Float64frombits(0xfff8_0000_dead_beef)
	return []Histogram{
		{Int: &histogram.Histogram{
			CounterResetHint: histogram.NotCounterReset, Schema: 3, ZeroThreshold: 0x1p-128, ZeroCount: 2, Count: 17, Sum: 18.4,
			PositiveSpans: []histogram.Span{{Offset: -2, Length: 2}, {Offset: 1000, Length: 2}}, PositiveBuckets: []int64{1, 1, -1, 0},
			NegativeSpans: []histogram.Span{{Offset: 0, Length: 3}}, NegativeBuckets: []int64{1, 5, -3},
		}},
		{Int: &histogram.Histogram{
			Schema: histogram.CustomBucketsSchema, Count: 5, Sum: otherNaN,
			PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []int64{2, 1}, CustomValues: []float64{math.Inf(-1), 0.1, 1e9},
		}},
		{Int: &histogram.Histogram{Sum: stale}},
		{Int: &histogram.Histogram{Schema: -4, Count: math.MaxUint64, ZeroCount: math.MaxUint64, Sum: math.Copysign(0, -1)}},
		{Float: &histogram.FloatHistogram{
			CounterResetHint: histogram.GaugeType, Schema: 8, ZeroThreshold: 1e-3, ZeroCount: 0.25, Count: math.Inf(1), Sum: math.Inf(-1),
			PositiveSpans: []histogram.Span{{Offset: math.MinInt32, Length: 1}}, PositiveBuckets: []float64{otherNaN},
			NegativeSpans: []histogram.Span{{Offset: math.MaxInt32, Length: 0}, {Offset: 3, Length: 2}}, NegativeBuckets: []float64{math.Pi, 7},
		}},
		{Float: &histogram.FloatHistogram{
			CounterResetHint: histogram.CounterReset, Schema: histogram.CustomBucketsSchema, Count: math.Copysign(0, -1), Sum: stale,
			PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}}, PositiveBuckets: []float64{0},
		}},
	}
}

// spell spells out a histogram with the bits of its floats, which NaN hides from ==.
func spell(h Histogram) any {
	words := func(v ...float64) (w []uint64) {
		for _, x := range v {
			w = append(w, math.Float64bits(x))
		}
		return w
	}
	if i := h.Int; i != nil {
		return []any{
			i.CounterResetHint, i.Schema, i.Count, i.ZeroCount, words(i.ZeroThreshold, i.Sum), words(i.CustomValues...),
			i.PositiveSpans, i.NegativeSpans, i.PositiveBuckets, i.NegativeBuckets,
		}
	}
	f := h.Float
	return []any{
		f.CounterResetHint, f.Schema, words(f.ZeroThreshold, f.Sum, f.Count, f.ZeroCount), words(f.CustomValues...),
		f.PositiveSpans, f.NegativeSpans, words(f.PositiveBuckets...), words(f.NegativeBuckets...),
	}
}

// TestHistogramText writes histograms as text, compares the text with the golden one,
// and reads it back with every bit.
func TestHistogramText(t *testing.T) {
	var all []byte
	for i, h := range histograms() {
		if err := h.validate(); err != nil {
			t.Fatalf("histogram %d: %v", i, err)
		}
		text := AppendHistogram(nil, &h)
		all = append(append(all, text...), '\n')
		got, err := ParseHistogram(string(text))
		if err != nil || !reflect.DeepEqual(spell(got), spell(h)) {
			t.Errorf("histogram %d: %v %v, want %v", i, err, spell(got), spell(h))
		}
		plain, _ := base64.RawStdEncoding.DecodeString(string(text))
		for n := range plain { // every proper prefix
			if _, err := ParseHistogram(base64.RawStdEncoding.EncodeToString(plain[:n])); err == nil {
				t.Errorf("histogram %d: the first %d of %d bytes are accepted", i, n, len(plain))
			}
		}
	}
	formats.Golden(t, "histogram-v1.golden", all)
	formats.Examples(t, "histogram.md")
}

// TestHistogramRejected holds the errors of texts that are no histogram.
func TestHistogramRejected(t *testing.T) {
	f := func(want string, b ...byte) {
		t.Helper()
		if _, err := ParseHistogram(base64.RawStdEncoding.EncodeToString(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, want %s", b, err, want)
		}
	}
	empty := []byte{0x10, 0, 0, 0, 0, 0, 0, 0, 0}
	if _, err := ParseHistogram(base64.RawStdEncoding.EncodeToString(empty)); err != nil {
		t.Error(err)
	}
	with := func(at int, b ...byte) []byte {
		return slices.Replace(slices.Clone(empty), at, at+1, b...)
	}
	f("short buffer")
	f("histogram of version 2 was written by a newer tsdbd", with(0, 0x20)...)
	f("unknown flag", with(0, 0x18)...)
	f("number outside 32 bits", with(1, 0x80, 0x80, 0x80, 0x80, 0x80, 1)...)
	f("invalid schema", with(1, 18)...)
	f("observation count should equal", with(4, 1)...)
	f("count exceeds buffer", with(6, 100)...)
	f("more buckets than bytes", with(6, 1, 0, 100)...)
	f("more buckets than bytes", with(6, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)...)
	f("unexpected bytes after the histogram", append(slices.Clone(empty), 0)...)
	for _, text := range []string{"=", "é", "AA=="} {
		if _, err := ParseHistogram(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// FuzzParseHistogram holds that no text makes ParseHistogram panic, and that what it
// accepts keeps its bits when it is written and read again.
func FuzzParseHistogram(f *testing.F) {
	for _, h := range histograms() {
		f.Add(string(AppendHistogram(nil, &h)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHistogram(text)
		if err != nil {
			return
		}
		again, err := ParseHistogram(string(AppendHistogram(nil, &h)))
		if err != nil || !reflect.DeepEqual(spell(again), spell(h)) {
			t.Errorf("%v %v, want %v", err, spell(again), spell(h))
		}
	})
}
