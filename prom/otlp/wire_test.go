package otlp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	points "tsdbd/model/point"
	"tsdbd/prom"
)

// field returns a field of a message: a uint64 as fixed64, an int as a varint, the
// others as bytes.
func field(number protowire.Number, values ...any) (b []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			b = protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type), v)
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		}
	}
	return b
}

// message returns a message of fields.
func message(fields ...[]byte) (b []byte) {
	for _, f := range fields {
		b = append(b, f...)
	}
	return b
}

// request returns a request with metrics of one resource and scope.
func request(metrics ...[]byte) []byte {
	var all []byte
	for _, m := range metrics {
		all = append(all, field(2, m)...)
	}
	return field(1, field(2, all))
}

// oneGauge returns a metric with one data point at 1 ms with the value 2.
func oneGauge(attributes ...[]byte) []byte {
	return message(field(1, "g"), field(gauge, field(1, message(field(3, uint64(1e6)), field(6, uint64(2)), message(attributes...)))))
}

// run translates a request and returns its lines, its error and what was rejected.
func run(body []byte) string {
	lines, result, err := translate(body, Options{})
	if err != nil {
		return err.Error()
	}
	s := strings.Join(lines, "\n")
	if result.Rejected > 0 {
		s += fmt.Sprintf("\n%d rejected: %s", result.Rejected, result.Message())
	}
	return strings.TrimSpace(s)
}

// TestWire checks what is particular to the encoding of protobuf.
func TestWire(t *testing.T) {
	f := func(body []byte, want string) {
		t.Helper()
		if got := run(body); got != want {
			t.Errorf("%x:\n%s\nwant\n%s", body, got, want)
		}
	}
	const g = "\ng is a gauge, unit \"\", help \"\""
	f(nil, "")
	f(request(oneGauge()), "g 2 @1"+g)
	// Fields that are not known, of every type.
	f(message(field(9, 1), field(8, uint64(1)), field(7, "x"), []byte{0x35, 1, 2, 3, 4}, []byte{0x2b, 0x08, 0x01, 0x2c}, request(oneGauge())), "g 2 @1"+g)
	// The resource behind its metrics.
	f(field(1, message(field(2, field(2, oneGauge())), field(1, field(1, message(field(1, "service.name"), field(2, field(1, "s"))))))), `g{job="s"} 2 @1`+g)
	// A resource in two parts, as protobuf allows.
	f(field(1, message(field(1, field(1, message(field(1, "service.name"), field(2, field(1, "s"))))), field(2, field(2, oneGauge())),
		field(1, field(1, message(field(1, "service.instance.id"), field(2, field(3, 5)))))),
	), `g{instance="5",job="s"} 2 @1`+g)
	// Of several kinds of data the last is in force, of several values too.
	f(request(message(field(1, "g"), field(sum, field(1, message())), field(gauge, field(1, message(field(3, uint64(1e6)), field(4, uint64(1)), field(6, uint64(2))))))), "g 2 @1"+g)
	// Repeated fields with a field for each element.
	counts := message(field(6, uint64(1), uint64(2)), field(7, math.Float64bits(0.5)), field(4, uint64(3)))
	h := func(point []byte) []byte {
		return request(message(field(1, "h"), field(histogram, message(field(1, point), field(2, cumulative)))))
	}
	const buckets = "h_count 3 @1\nh_bucket{le=\"0.5\"} 1 @1\nh_bucket{le=\"+Inf\"} 3 @1\nh is a histogram, unit \"\", help \"\""
	f(h(message(field(3, uint64(1e6)), counts)), buckets)
	f(h(message(field(3, uint64(1e6)), field(4, uint64(3)), field(6, "\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"), field(7, "\x00\x00\x00\x00\x00\x00\xe0\x3f"))), buckets)
	e := func(counts ...any) []byte {
		p := message(field(3, uint64(1e6)), field(4, uint64(3)), field(8, field(2, counts...)))
		return request(message(field(1, "e"), field(exponential, message(field(1, p), field(2, cumulative)))))
	}
	const native = "e {count:3, sum:0, (1,2]:1, (2,4]:2} schema=0 zero=1e-128 @1\ne is a histogram, unit \"\", help \"\""
	f(e(1, 2), native)
	f(e("\x01\x02"), native)

	// What is not a message.
	f([]byte{0x0a}, "protobuf: ExportMetricsServiceRequest: field 1 is truncated or has a wrong type")
	f([]byte{0xff}, "protobuf: ExportMetricsServiceRequest: cannot read the number of a field")
	f([]byte{0x08, 1}, "protobuf: ExportMetricsServiceRequest: field 1 is truncated or has a wrong type")
	f(request(message(field(1, 5))), "protobuf: Metric: field 1 is truncated or has a wrong type")
	f(request(oneGauge(field(3, 5))), "protobuf: NumberDataPoint: field 3 is truncated or has a wrong type")
	f(request(oneGauge(field(7, 5))), "protobuf: NumberDataPoint: field 7 is truncated or has a wrong type")
	f(request(oneGauge(field(7, field(1, 1)))), "protobuf: KeyValue: field 1 is truncated or has a wrong type")
	f(request(oneGauge(field(7, field(2, field(1, 1))))), "protobuf: AnyValue: field 1 is truncated or has a wrong type")
	f(request(oneGauge(field(7, field(2, field(arrayValue, field(1, 1)))))), "protobuf: ArrayValue: field 1 is truncated or has a wrong type")
	f(request(oneGauge(field(7, field(2, field(listValue, field(1, field(2, 2))))))), "protobuf: KeyValue: field 2 is truncated or has a wrong type")
	f(h(field(6, "\x01\x00")), "protobuf: HistogramDataPoint: field 6 is truncated or has a wrong type")
	f(h(field(7, 1)), "protobuf: HistogramDataPoint: field 7 is truncated or has a wrong type")
	f(e("\x01\x80"), "protobuf: Buckets: field 2 is truncated or has a wrong type")
	f(e(uint64(1)), "protobuf: Buckets: field 2 is truncated or has a wrong type")
}

// TestLimits checks what is too large of a data point. The others are stored.
func TestLimits(t *testing.T) {
	f := func(bad []byte, want string) {
		t.Helper()
		got := run(request(oneGauge(), bad, oneGauge()))
		want = "g 2 @1\ng 2 @1\ng is a gauge, unit \"\", help \"\"\n1 rejected: metric \"b\": " + want
		if got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	deep := func(depth int) []byte {
		v := field(1, "x")
		for i := range depth {
			if i%2 == 0 {
				v = field(arrayValue, field(1, v))
			} else {
				v = field(listValue, field(1, message(field(1, "k"), field(2, v))))
			}
		}
		return v
	}
	bad := func(attribute []byte) []byte {
		return message(field(1, "b"), oneGauge(field(7, message(field(1, "a"), field(2, attribute))))[len(field(1, "g")):])
	}
	f(bad(deep(maxDepth+1)), `attribute "a" is nested too deep`)
	f(bad(deep(5000)), `attribute "a" is nested too deep`)
	if got := run(request(bad(deep(maxDepth)))); !strings.HasPrefix(got, `b{a="{\"k\":[{\"k\":[`) {
		t.Error(got)
	}
	f(bad(field(arrayValue, field(1, field(1, strings.Repeat("x", maxTree))))), `attribute "a" is too long`)
	f(bad(field(1, strings.Repeat("x", 70_000))), "max key length exceeded: 70015 > 65535")
	long := strings.Repeat("n", 70_000)
	if got := run(request(message(field(1, long), field(gauge, field(1, message(field(3, uint64(1e6)), field(6, uint64(2)))))))); !strings.HasSuffix(got, "max key length exceeded: 140010 > 65535") || len(got) > 1000 {
		t.Errorf("%d bytes: %s", len(got), got[:min(len(got), 1000)])
	}
	eights := func(n int) string { return strings.Repeat("\x00", 8*n) }
	data := func(kind protowire.Number, point ...[]byte) []byte {
		return message(field(1, "b"), field(kind, message(field(1, message(field(3, uint64(1e6)), message(point...))), field(2, cumulative))))
	}
	f(data(histogram, field(6, eights(maxBuckets+1)), field(7, eights(maxBuckets))), "more than 10000 buckets")
	f(data(histogram, field(6, eights(1_000_000)), field(7, eights(1_000_000))), "more than 10000 buckets")
	f(data(histogram, field(6, eights(1)), field(7, eights(1_000_000))), "more than 10000 buckets")
	f(data(exponential, field(8, field(2, strings.Repeat("\x00", 1_000_000)))), "more than 10000 buckets")
	f(data(exponential, field(9, field(2, strings.Repeat("\x00", maxBuckets+1)))), "more than 10000 buckets")
	quantile := field(6, "")
	f(data(summary, []byte(strings.Repeat(string(quantile), maxBuckets+1))), "more than 10000 quantiles")
}

// TestCharge checks that rows and JSON are paid for beyond the size of the body, and
// that an error of Charge ends the translation.
func TestCharge(t *testing.T) {
	// One long label of the resource, which every data point repeats.
	long := strings.Repeat("s", 30_000)
	var all []byte
	for i := range 1000 {
		all = append(all, field(1, message(field(3, uint64(1e6+i*1e6)), field(6, uint64(2))))...)
	}
	resource := field(1, field(1, message(field(1, "service.name"), field(2, field(1, long)))))
	body := field(1, message(resource, field(2, field(2, message(field(1, "g"), field(gauge, all))))))
	var charged int
	limit, full := math.MaxInt, errors.New("full")
	charge := func(n int) error {
		if charged += n; charged > limit {
			return full
		}
		return nil
	}
	translate := func(ctx context.Context) (Result, error) {
		charged = 0
		rows := &prom.Rows{Builder: points.NewBuilder(points.NewTable(1), &points.Batch{}), Charge: charge}
		return Request(ctx, body, Options{}, Sink{Rows: rows})
	}
	if _, err := translate(context.Background()); err != nil || charged < 30_000_000-len(body) || charged > 40_000_000 {
		t.Errorf("%d bytes charged, %v", charged, err)
	}
	limit = 1 << 20
	if _, err := translate(context.Background()); err != full || charged > 2<<20 {
		t.Errorf("%d bytes charged, %v", charged, err)
	}
	limit = math.MaxInt
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := translate(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v of a request that was canceled", err)
	}

	charged = 0
	zeros := `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"histogram":{"dataPoints":[{"bucketCounts":[0` + strings.Repeat(",0", 100_000) + `]}]}}]}]}]}`
	out, err := FromJSON(nil, []byte(zeros), charge)
	if err != nil || charged < len(out)-chargeBytes || charged > len(out)+2*chargeBytes {
		t.Errorf("%d bytes charged for %d, %v", charged, len(out), err)
	}
	limit, charged = 1<<16, 0
	if _, err := FromJSON(nil, []byte(zeros), charge); err != full {
		t.Error(err)
	}
}

// TestSparse checks that two empty buckets in a row stay in a span, and three begin a
// new one.
func TestSparse(t *testing.T) {
	f := func(want string, counts ...uint64) {
		t.Helper()
		spans, deltas, err := (&buckets{offset: 4, counts: counts}).sparse(0)
		if got := fmt.Sprint(spans, deltas, err); got != want {
			t.Errorf("%v: %s, want %s", counts, got, want)
		}
	}
	f("[] [] <nil>")
	f("[] [] <nil>", 0, 0)
	f("[{6 4}] [1 -1 0 2] <nil>", 0, 1, 0, 0, 2, 0)
	f("[{5 1} {3 2}] [1 1 3] <nil>", 1, 0, 0, 0, 2, 5)
}

// TestTargetInfoBounded checks that two data points far apart do not make millions of
// samples.
func TestTargetInfoBounded(t *testing.T) {
	body, err := FromJSON(nil, []byte(`{"resourceMetrics": [{
		"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "a"}}, {"key": "os", "value": {"stringValue": "l"}}]},
		"scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [{"timeUnixNano": "1000000", "asInt": 1}, {"timeUnixNano": "1700000000000000000", "asInt": 2}]}}]}]}]}`), free)
	if err != nil {
		t.Fatal(err)
	}
	lines, _, err := translate(body, Options{})
	if n := len(lines); err != nil || n < maxTargetInfo || n > maxTargetInfo+10 {
		t.Errorf("%d lines, %v", n, err)
	}
}

// TestTruncated cuts a request after every byte. What is left is an error or is a
// request with fewer data points.
func TestTruncated(t *testing.T) {
	for _, body := range seeds(t) {
		for n := range body {
			_, _, err := translate(body[:n], Options{})
			var wire *WireError
			if err != nil && !errors.As(err, &wire) {
				t.Errorf("%d bytes: %v", n, err)
			}
			if err == nil && n > 0 {
				t.Errorf("%d of %d bytes are a request", n, len(body))
			}
		}
	}
}

// seeds returns the requests of the scripts.
func seeds(t testing.TB) (all [][]byte) {
	b, err := os.ReadFile("testdata/kinds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for story := range strings.SplitSeq(string(b), "translate\n") {
		text, _, _ := strings.Cut(story, "----\n")
		if body, err := FromJSON(nil, []byte(text), free); err == nil {
			all = append(all, body)
		}
	}
	if len(all) < 3 {
		t.Fatalf("%d requests", len(all))
	}
	return all
}

// FuzzRequest checks that no bytes cause a panic, and that every data point is either
// rejected with a reason or stored.
func FuzzRequest(f *testing.F) {
	for _, body := range seeds(f) {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		lines, result, err := translate(body, Options{})
		if err != nil {
			return
		}
		if result.Rejected > result.Points || result.Rejected > 0 && result.Message() == "" {
			t.Errorf("%d of %d rejected: %q", result.Rejected, result.Points, result.Message())
		}
		if stored := result.Points - result.Rejected; len(lines) < stored {
			t.Errorf("%d lines of %d data points", len(lines), stored)
		}
		again, _, _ := translate(body, Options{})
		if strings.Join(lines, "\n") != strings.Join(again, "\n") {
			t.Error("two translations differ")
		}
	})
}

// FuzzJSON checks that no text causes a panic, and that what comes of it is protobuf.
func FuzzJSON(f *testing.F) {
	b, err := os.ReadFile("testdata/kinds.txt")
	if err != nil {
		f.Fatal(err)
	}
	for story := range strings.SplitSeq(string(b), "translate\n") {
		text, _, _ := strings.Cut(story, "----\n")
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body, err := FromJSON(nil, []byte(text), free)
		if err != nil {
			if !errors.As(err, new(*JSONError)) {
				t.Error(err)
			}
			return
		}
		if _, _, err := translate(body, Options{}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
