package remote

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/chunk"
	"tsdbd/prom/proto"
)

// value is a sample of a test series.
type value struct {
	t  int64
	v  float64
	h  *histogram.Histogram
	fh *histogram.FloatHistogram
}

func (s value) ST() int64                     { return 7 } // neither answer has it
func (s value) T() int64                      { return s.t }
func (s value) F() float64                    { return s.v }
func (s value) H() *histogram.Histogram       { return s.h }
func (s value) FH() *histogram.FloatHistogram { return s.fh }
func (s value) Copy() chunks.Sample           { return s }
func (s value) Type() chunkenc.ValueType {
	switch {
	case s.h != nil:
		return chunkenc.ValHistogram
	case s.fh != nil:
		return chunkenc.ValFloatHistogram
	}
	return chunkenc.ValFloat
}

// testSeries are a series of floats, one that changes between all kinds, an empty one
// and one with large histograms.
func testSeries() []storage.Series {
	of := func(name string, samples ...chunks.Sample) storage.Series {
		return storage.NewListSeries(labels.FromStrings("__name__", name, "job", "a"), samples)
	}
	var floats, mixed, large []chunks.Sample
	for i := range int64(1000) {
		v := float64(i)
		switch i % 10 {
		case 3:
			v = math.Float64frombits(0x7ff0000000000002)
		case 4:
			v = math.Inf(-1)
		}
		floats = append(floats, value{t: -5000 + i*15, v: v})
	}
	integer := func(i int64) *histogram.Histogram {
		return &histogram.Histogram{
			Schema: 3, ZeroThreshold: 0.5, ZeroCount: uint64(i), Count: uint64(i) + 12, Sum: float64(i),
			PositiveSpans: []histogram.Span{{Offset: -2, Length: 2}, {Offset: 1, Length: 1}}, PositiveBuckets: []int64{1, 2, 0},
			NegativeSpans: []histogram.Span{{Offset: 0, Length: 2}}, NegativeBuckets: []int64{2, 1},
		}
	}
	for i := range int64(600) {
		s := value{t: i}
		switch i / 130 % 4 {
		case 0:
			s.h = integer(i)
		case 1:
			s.fh = &histogram.FloatHistogram{
				Schema: histogram.CustomBucketsSchema, Count: float64(i), Sum: 1, CounterResetHint: histogram.GaugeType,
				PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: []float64{1.5, 0.5, float64(i)}, CustomValues: []float64{0.5, 2.5},
			}
		case 2:
			s.v = float64(i)
		default: // counter resets and a layout that grows
			s.h = integer(i % 7)
			if i%3 == 0 {
				s.h.PositiveSpans, s.h.PositiveBuckets = []histogram.Span{{Offset: -2, Length: 4}}, []int64{1, 2, 0, 1}
			}
		}
		mixed = append(mixed, s)
	}
	for i := range int64(60) {
		h := &histogram.FloatHistogram{Schema: 0, Sum: 1, CounterResetHint: histogram.GaugeType, PositiveSpans: []histogram.Span{{Length: 8000}}}
		for b := range 8000 {
			h.PositiveBuckets = append(h.PositiveBuckets, math.Float64frombits(0x4000000000000000+uint64(i*7919+int64(b)*104729*31)*99991))
		}
		large = append(large, value{t: i, fh: h})
	}
	return []storage.Series{of("floats", floats...), of("mixed", mixed...), of("none"), of("large", large...)}
}

// want lists the samples of a series.
func wantSamples(s storage.Series) (out []string) {
	it := s.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		out = append(out, sampleText(kind, it))
	}
	return out
}

func sampleText(kind chunkenc.ValueType, it chunkenc.Iterator) string {
	switch kind {
	case chunkenc.ValFloat:
		t, v := it.At()
		return fmt.Sprintf("%d %#x", t, math.Float64bits(v))
	case chunkenc.ValHistogram:
		t, h := it.AtHistogram(nil)
		return histogramText(prom.Histogram{Time: t, Int: h})
	}
	t, h := it.AtFloatHistogram(nil)
	return histogramText(prom.Histogram{Time: t, Float: h})
}

// histogramText leaves out the hint, which chunks derive.
func histogramText(h prom.Histogram) string {
	if h.Int != nil {
		return fmt.Sprintf("%d int %s %d %v", h.Time, h.Int, h.Int.Schema, h.Int.CustomValues)
	}
	return fmt.Sprintf("%d float %s %d %v", h.Time, h.Float.TestExpression(), h.Float.Schema, h.Float.CustomValues)
}

// memberList returns the members of a message.
func memberList(t *testing.T, b []byte) (out []proto.Member) {
	t.Helper()
	r := proto.Read(b)
	for r.Next() {
		out = append(out, r.Member)
	}
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return out
}

func TestSamples(t *testing.T) {
	charged := int64(0)
	s := NewSamples(func(n int64) error { charged = n; return nil })
	all := testSeries()
	for i, query := range []int{1, 1, 1, 3} {
		if err := s.Add(query, all[i]); err != nil {
			t.Fatal(err)
		}
		if held := int64(cap(s.message) + cap(s.result) + cap(s.series)); held > charged {
			t.Errorf("%d bytes are charged for %d", charged, held)
		}
	}
	b, err := s.Finish(5)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, result := range memberList(t, b) {
		for _, series := range memberList(t, result.Data) {
			var name string
			var samples []string
			for _, m := range memberList(t, series.Data) {
				switch m.Field {
				case 1:
					l, err := appendLabel(nil, m.Data)
					if err != nil {
						t.Fatal(err)
					}
					name += "," + l[0].Key + "=" + l[0].Value
				case 2:
					v, err := parseSample(m.Data)
					if err != nil || v.Start != 0 {
						t.Fatal(v, err)
					}
					samples = append(samples, fmt.Sprintf("%d %#x", v.Time, math.Float64bits(v.Value)))
				case 4:
					h, err := parseHistogram(m.Data)
					if err != nil || h.Start != 0 {
						t.Fatal(h, err)
					}
					samples = append(samples, histogramText(h))
				}
			}
			n := map[string]int{",__name__=floats,job=a": 0, ",__name__=mixed,job=a": 1, ",__name__=large,job=a": 3}[name]
			want := wantSamples(all[n])
			if n == 1 { // floats and histograms are members of their own
				slices.Sort(samples)
				slices.Sort(want)
			}
			if !reflect.DeepEqual(samples, want) {
				t.Errorf("%s: %d samples, want %d", name, len(samples), len(want))
			}
			got = append(got, fmt.Sprint(i, name))
		}
	}
	if want := "[1,__name__=floats,job=a 1,__name__=mixed,job=a 3,__name__=large,job=a]"; fmt.Sprint(got) != want || len(memberList(t, b)) != 5 {
		t.Errorf("%v, want %s", got, want)
	}
	full := errors.New("no memory")
	s = NewSamples(func(n int64) error {
		if n > 50_000 {
			return full
		}
		return nil
	})
	if err := s.Add(0, all[3]); !errors.Is(err, full) {
		t.Errorf("without memory: %v", err)
	}
}

// TestFrames reads frames as Prometheus does, and holds their size.
func TestFrames(t *testing.T) {
	var stream []byte
	f := NewFrames(func(frame []byte) error { stream = append(stream, frame...); return nil })
	all := testSeries()
	for i, s := range all {
		if err := f.Add(i/2, s); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string][]string{}
	frames := 0
	for ; len(stream) > 0; frames++ {
		size, n := binary.Uvarint(stream)
		sum := binary.BigEndian.Uint32(stream[n:])
		body := stream[n+4 : n+4+int(size)]
		stream = stream[n+4+int(size):]
		if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != sum {
			t.Fatal("checksum")
		}
		if size > maxFrame {
			t.Errorf("a frame of %d bytes", size)
		}
		name, query := "", uint64(0)
		for _, m := range memberList(t, body) {
			if m.Field == 2 {
				query = m.Num
				continue
			}
			for _, part := range memberList(t, m.Data) {
				if part.Field == 1 {
					l, _ := appendLabel(nil, part.Data)
					name += l[0].Value
					continue
				}
				c := memberList(t, part.Data)
				chunk, err := chunkenc.FromData(chunkenc.Encoding(c[2].Num), c[3].Data)
				if err != nil || c[2].Num < 1 || c[2].Num > 3 {
					t.Fatal(err, c[2].Num)
				}
				it := chunk.Iterator(nil)
				first, last := int64(0), int64(0)
				for n := 0; ; n++ {
					kind := it.Next()
					if kind == chunkenc.ValNone {
						if n == 0 || n > maxChunkSamples || int64(c[0].Num) != first || int64(c[1].Num) != last {
							t.Errorf("%s: %d samples from %d to %d, said %d %d", name, n, first, last, int64(c[0].Num), int64(c[1].Num))
						}
						break
					}
					if last = it.AtT(); n == 0 {
						first = last
					}
					got[name] = append(got[name], sampleText(kind, it))
				}
			}
		}
		if want := map[string]uint64{"floatsa": 0, "mixeda": 0, "largea": 1}[name]; query != want {
			t.Errorf("%s is of query %d, want %d", name, query, want)
		}
	}
	for i, name := range []string{"floatsa", "mixeda", "", "largea"} {
		if want := wantSamples(all[i]); name != "" && !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s: %d samples, want %d", name, len(got[name]), len(want))
		}
	}
	if len(got) != 3 || frames < 5 {
		t.Errorf("%d series in %d frames", len(got), frames)
	}
}

func TestParseReadRequest(t *testing.T) {
	f := func(b build, want string) {
		t.Helper()
		req, err := ParseReadRequest(b)
		got := ""
		for _, q := range req.Queries {
			got += fmt.Sprintf("%d-%d %v ", q.Start, q.End, q.Matchers)
		}
		got += fmt.Sprint(req.Chunks)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%x: %s, want %s", []byte(b), got, want)
		}
	}
	matcher := func(kind uint64, name, value string) build {
		return build(nil).number(1, kind).bytes(2, []byte(name)).bytes(3, []byte(value))
	}
	f(nil, "false")
	f(build(nil).bytes(1, build(nil).number(1, math.MaxUint64).number(2, 5).bytes(3, matcher(0, "a", "b")).bytes(3, matcher(3, "c", "x|y")).bytes(4, []byte{8, 1})).bytes(1, nil),
		`-1-5 [a="b" c!~"x|y"] 0-0 [] false`)
	f(build(nil).number(2, 1), "true")
	f(build(nil).number(2, 0).number(2, 1), "false")
	f(build(nil).bytes(2, []byte{9, 1, 0}), "true")
	f(build(nil).bytes(2, []byte{9, 8}), "the server supports none of the response types [9 8]: send 0 for samples or 1 for chunks")
	f(build(nil).bytes(2, bytes.Repeat([]byte{9}, 100)), "the server supports none of the response types [9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9]: send 0 for samples or 1 for chunks")
	f(build(nil).bytes(2, []byte{0x80}), proto.ErrInvalid.Error())
	f(build(nil).bytes(1, build(nil).bytes(3, matcher(4, "a", "b"))), "unknown match type: 4")
	f(build(nil).bytes(1, build(nil).bytes(3, build(nil).bytes(2, nil).number(1, math.MaxUint64))), "unknown match type: 18446744073709551615")
	f(build(nil).bytes(1, build{0x1a, 0x02, 0x0a}), proto.ErrInvalid.Error())
	var many, queries build
	for range maxMatchers + 1 {
		many = many.bytes(3, nil)
	}
	f(build(nil).bytes(1, many), "too many matchers")
	for range maxQueries + 1 {
		queries = queries.bytes(1, nil)
	}
	f(queries, "more than 1000 queries")
	if _, err := ParseReadRequest(build(nil).bytes(1, build(nil).bytes(3, matcher(2, "a", "(")))); err == nil || !strings.Contains(err.Error(), "missing closing )") {
		t.Error(err)
	}
	if _, err := ParseReadRequest(build(nil).bytes(1, build(nil).bytes(3, matcher(2, "a", "(x{1000}){1000}")))); err == nil {
		t.Error("an expression of any size is taken")
	}
}

// TestStream reads what Frames writes, and damage of it.
func TestStream(t *testing.T) {
	var stream []byte
	f := NewFrames(func(frame []byte) error { stream = append(stream, frame...); return nil })
	all := testSeries()
	for _, s := range all {
		if err := f.Add(0, s); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0 // the histograms of the series are not valid
	read := func(b []byte) (text string, err error) {
		refused = 0
		s := NewStream(bytes.NewReader(b), chunk.Options{Range: model.AllTime, Refused: func(_ string, n int, _ string) { refused += n }})
		lines, err := rows.Lines(t.Context(), s, "d", "rp")
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(lines)
		return string(out), err
	}
	text, err := read(stream)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, s := range all {
		want += len(wantSamples(s))
	}
	if n := strings.Count(text, "\n") - 2; n+refused != want || refused > want/2 || !strings.Contains(text, "\nfloats,__name__=floats,job=a value=") {
		t.Errorf("%d rows and %d refused, want %d\n%.2000s", n, refused, want, text)
	}
	for at := 0; at < len(stream); at += 1 + len(stream)/20 {
		broken := bytes.Clone(stream)
		broken[at] ^= 0x41
		if _, err := read(broken); err == nil {
			t.Errorf("byte %d of %d is damaged, and no error", at, len(stream))
		}
	}
	for _, at := range []int{1, 4, 9, len(stream) - 1} {
		if _, err := read(stream[:at]); err == nil || !strings.Contains(err.Error(), "breaks off") {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
	if _, err := read(binary.AppendUvarint(nil, 1<<40)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a frame of a TB: %v", err)
	}
}

// TestAppendReadRequest: a request is read as it was meant.
func TestAppendReadRequest(t *testing.T) {
	q := Query{Start: -5, End: 7}
	for i, m := range []labels.MatchType{labels.MatchEqual, labels.MatchNotEqual, labels.MatchRegexp, labels.MatchNotRegexp} {
		q.Matchers = append(q.Matchers, labels.MustNewMatcher(m, fmt.Sprint("l", i), "a.b"))
	}
	got, err := ParseReadRequest(AppendReadRequest(nil, q))
	if err != nil || !got.Chunks || len(got.Queries) != 1 || got.Queries[0].Start != -5 || got.Queries[0].End != 7 || fmt.Sprint(got.Queries[0].Matchers) != fmt.Sprint(q.Matchers) {
		t.Errorf("%+v, %v, want %v", got, err, q)
	}
}
