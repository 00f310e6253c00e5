package remote

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/proto"
)

// request2 is a request of remote write 2.0 in the making. Its texts become symbols.
type request2 struct {
	symbols []string
	series  []build
}

func (r *request2) ref(s string) uint64 {
	if len(r.symbols) == 0 {
		r.symbols = []string{""}
	}
	for i, have := range r.symbols {
		if have == s {
			return uint64(i)
		}
	}
	r.symbols = append(r.symbols, s)
	return uint64(len(r.symbols) - 1)
}

// labels returns a TimeSeries with labels.
func (r *request2) labels(pairs ...string) build {
	var packed []byte
	for _, s := range pairs {
		packed = protowire.AppendVarint(packed, r.ref(s))
	}
	return build(nil).bytes(1, packed)
}

func (r *request2) bytes() []byte {
	var b build
	for _, s := range r.symbols {
		b = b.bytes(4, []byte(s))
	}
	for _, s := range r.series {
		b = b.bytes(5, s)
	}
	return b
}

// sample returns a Sample message.
func sample(v float64, ms, start int64) build {
	b := build(nil).float(1, v).number(2, uint64(ms))
	if start != 0 {
		b = b.number(3, uint64(start))
	}
	return b
}

// anyHistogram is a valid Histogram message.
func anyHistogram(ms int64) build {
	return build(nil).number(1, 3).float(3, 6).bytes(11, build(nil).number(2, 2)).bytes(12, []byte{2, 2}).number(15, uint64(ms))
}

// describe runs a reader of write requests and describes what it put into a batch. A request
// that comes again finds its series known, and must not make a difference.
func describe(read func([]byte, *prom.Rows) (Written, error), b []byte) string {
	table := point.NewTable(1)
	first := describeOnce(table, read, b)
	for range 2 {
		if again := describeOnce(table, read, b); again != first {
			return fmt.Sprintf("%s\nwhen it comes again:\n%s", first, again)
		}
	}
	return first
}

func describeOnce(table *point.Table, read func([]byte, *prom.Rows) (Written, error), b []byte) string {
	batch := &point.Batch{}
	rows := prom.Rows{Builder: point.NewBuilder(table, batch)}
	got, err := read(b, &rows)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, row := range batch.Rows {
		line := row.Series.Key()
		for i, f := range row.Layout.Fields {
			switch w := batch.Values[int(row.First)+i]; f.Type {
			case model.Float:
				if v := math.Float64frombits(w); v != v {
					line += fmt.Sprintf(" %s=%#x", f.Key, w)
				} else {
					line += fmt.Sprintf(" %s=%v", f.Key, v)
				}
			case model.Integer:
				line += fmt.Sprintf(" %s=%d", f.Key, int64(w))
			default:
				if _, err := prom.ParseHistogram(string(column.StringAt(w, batch.Strings))); err != nil {
					return err.Error()
				}
				line += " " + f.Key
			}
		}
		out = append(out, fmt.Sprintf("%s @%d", line, prom.Milliseconds(row.Time)))
	}
	for _, e := range got.Metadata {
		out = append(out, fmt.Sprintf("%+v", e))
	}
	out = append(out, fmt.Sprintf("samples=%d histograms=%d exemplars=%d", got.Samples, got.Histograms, got.Exemplars))
	if rows.Refused > 0 || rows.Reason != "" {
		out = append(out, fmt.Sprintf("refused %d: %s", rows.Refused, rows.Reason))
	}
	return strings.Join(out, "\n")
}

// check compares what a reader makes of a message.
func check(t *testing.T, name string, read func([]byte, *prom.Rows) (Written, error), b []byte, want ...string) {
	t.Helper()
	if got := describe(read, b); got != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, strings.Join(want, "\n"))
	}
}

func TestWrite(t *testing.T) {
	up := AppendLabel(AppendLabel(nil, "__name__", "up"), "job", "a")
	meta := build(nil).number(1, 1).bytes(2, []byte("up")).bytes(4, []byte("Is it up?")).bytes(5, []byte("bool"))
	f := func(name string, b build, want ...string) {
		t.Helper()
		check(t, name, Write, b, want...)
	}
	f("empty", nil, "samples=0 histograms=0 exemplars=0")
	f("all kinds", build(nil).bytes(3, meta).bytes(1, build(up).bytes(2, sample(1.5, 1000, 0)).bytes(2, sample(math.NaN(), 2000, 0)).bytes(3, nil).bytes(4, anyHistogram(3000))).bytes(99, []byte("x")).number(98, 1),
		"up,__name__=up,job=a value=1.5 @1000", "up,__name__=up,job=a value=0x7ff8000000000001 @2000", "up,__name__=up,job=a __histogram__ @3000",
		"{Metric:up Type:counter Help:Is it up? Unit:bool}", "samples=2 histograms=1 exemplars=1")
	f("labels last", build(nil).bytes(1, append(build(nil).bytes(2, sample(1, 1, 0)), up...)), "up,__name__=up,job=a value=1 @1", "samples=1 histograms=0 exemplars=0")
	f("no name", build(nil).bytes(1, append(build(nil).bytes(2, sample(1, 1, 0)), AppendLabel(nil, "job", "a")...)),
		"prom_metric_not_specified,job=a value=1 @1", "samples=1 histograms=0 exemplars=0")
	f("groups", append(build{0x0b, 0x08, 0x01, 0x0c}, build(nil).bytes(1, append(build{0x0b, 0x0c}, build(up).bytes(2, sample(1, 1, 0))...))...),
		"up,__name__=up,job=a value=1 @1", "samples=1 histograms=0 exemplars=0")
	f("a bad one between good ones", build(nil).bytes(1, build(up).bytes(2, sample(1, 1, 0))).bytes(1, build(AppendLabel(up, "job", "b")).bytes(2, sample(1, 1, 0)).bytes(4, anyHistogram(1))).bytes(1, build(up).bytes(2, sample(2, 2, 0))),
		"up,__name__=up,job=a value=1 @1", "up,__name__=up,job=a value=2 @2", "samples=2 histograms=0 exemplars=0", `refused 2: duplicate tag "job"`)
	many := build(up)
	for range maxLabels {
		many = AppendLabel(many, "", "")
	}
	f("too many labels", build(nil).bytes(1, many.bytes(2, sample(1, 1, 0))), "samples=0 histograms=0 exemplars=0", "refused 1: series 1: more than 16383 labels")
	long := build(up)
	for i := range int64(3 * blockSamples) {
		long = long.bytes(2, sample(1, i, 0))
	}
	for i := range int64(3*blockHistograms + 1) {
		long = long.bytes(4, anyHistogram(i))
	}
	if got := describe(Write, build(nil).bytes(1, long)); !strings.HasSuffix(got, "samples=3072 histograms=49 exemplars=0") {
		t.Errorf("blocks: %s", got[max(0, len(got)-100):])
	}
	f("version 2.0", build(nil).bytes(4, nil), "the message is one of remote write 2.0, but its Content-Type is that of 1.0")
	for _, bad := range []build{
		{0xff},
		{0x0a},
		{0x0a, 0x05, 0x01},
		{0x0c},
		{0x0a, 0x01, 0x07},
		build(nil).bytes(1, build{0x0a, 0x02, 0x0a, 0x05}), build(nil).bytes(1, build{0x12, 0x02, 0x09, 0x00}),
		build(nil).bytes(1, build{0x12, 0x02, 0x0d, 0x00}), build(nil).bytes(1, build{0x22, 0x01, 0xff}), build(nil).bytes(3, build{0x0a}),
		{0x0b, 0x0b, 0x0c},
		build(nil).bytes(1, build{0x12, 0x02, 0x10, 0xff}),
	} {
		check(t, fmt.Sprintf("%x", []byte(bad)), Write, bad, proto.ErrInvalid.Error())
	}
}

func TestWrite2(t *testing.T) {
	f := func(name string, make func(r *request2), want ...string) {
		t.Helper()
		var r request2
		make(&r)
		check(t, name, Write2, r.bytes(), want...)
	}
	const none = "samples=0 histograms=0 exemplars=0"
	const row, one = "up,__name__=up,job=a value=1 @1", "samples=1 histograms=0 exemplars=0"
	up := func(r *request2) build { return r.labels("__name__", "up", "job", "a") }
	good := func(r *request2) { r.series = append(r.series, up(r).bytes(2, sample(1, 1, 0))) }
	refused := func(name string, make func(r *request2) build, want string) {
		t.Helper()
		f(name, func(r *request2) { good(r); r.series = append(r.series, make(r)); good(r) },
			row, row, "samples=2 histograms=0 exemplars=0", want)
	}
	f("empty", func(*request2) {}, none)
	f("one", good, row, one)
	f("start times", func(r *request2) {
		r.series = append(r.series, up(r).bytes(2, sample(1, 10, 5)).bytes(3, anyHistogram(20).number(17, 6)), up(r).number(6, 7).bytes(2, sample(1, 30, 0)).bytes(2, sample(1, 40, 8)))
	}, "up,__name__=up,job=a value=1 __start__=5 @10", "up,__name__=up,job=a __histogram__ __start__=6 @20",
		"up,__name__=up,job=a value=1 __start__=7 @30", "up,__name__=up,job=a value=1 __start__=8 @40", "samples=3 histograms=1 exemplars=0")
	f("labels in any order, one by one", func(r *request2) {
		r.series = append(r.series, build(nil).bytes(2, sample(1, 1, 0)).number(1, r.ref("job")).number(1, r.ref("a")).number(1, r.ref("__name__")).number(1, r.ref("up")))
	}, row, one)
	f("an empty value is no label", func(r *request2) {
		r.series = append(r.series, r.labels("__name__", "up", "job", "a", "x", "").bytes(2, sample(1, 1, 0)))
	}, row, one)
	f("metadata", func(r *request2) {
		with := func(kind, help, unit uint64) build { return build(nil).number(1, kind).number(3, help).number(4, unit) }
		r.series = append(r.series,
			up(r).bytes(5, with(1, r.ref("Help."), r.ref("seconds"))).bytes(2, sample(1, 1, 0)),
			up(r).bytes(5, with(1, r.ref("Help."), r.ref("seconds"))).bytes(2, sample(1, 1, 0)).bytes(4, nil).bytes(4, nil),
			up(r).bytes(5, nil), up(r).bytes(5, with(99, 0, 0)), r.labels("__name__", "x").bytes(5, with(7, 0, 0)))
	}, row, row, "{Metric:up Type:counter Help:Help. Unit:seconds}", "{Metric:up Type:unknown Help: Unit:}", "{Metric:x Type:stateset Help: Unit:}", "samples=2 histograms=0 exemplars=2")
	f("metadata out of range", func(r *request2) {
		r.series = append(r.series, up(r).bytes(2, sample(1, 1, 0)).bytes(5, build(nil).number(3, 99)))
	}, row, one, "refused 0: series 1: metadata: reference 99 is outside of the 5 symbols")
	refused("odd", func(r *request2) build { return r.labels("__name__", "up", "job").bytes(2, sample(1, 1, 0)) }, "refused 1: series 2: an odd number of references is no list of labels")
	refused("reference out of range", func(r *request2) build {
		return up(r).number(1, 5).number(1, 1).bytes(2, sample(1, 1, 0)).bytes(2, sample(1, 1, 0)).bytes(3, anyHistogram(1))
	},
		"refused 3: series 2: labels: reference 5 is outside of the 5 symbols")
	refused("huge reference", func(r *request2) build { return up(r).number(1, math.MaxUint64).bytes(2, sample(1, 1, 0)) },
		"refused 1: series 2: labels: reference 18446744073709551615 is outside of the 5 symbols")
	refused("empty label name", func(r *request2) build { return r.labels("__name__", "up", "", "x").bytes(2, sample(1, 1, 0)) }, "refused 1: series 2: a label has an empty name")
	refused("no name", func(r *request2) build { return r.labels("job", "a").bytes(2, sample(1, 1, 0)) }, "refused 1: series 2: there is no label __name__")
	refused("empty name", func(r *request2) build { return r.labels("__name__", "").bytes(2, sample(1, 1, 0)) }, "refused 1: series 2: there is no label __name__")
	refused("no labels", func(*request2) build { return build(nil).bytes(2, sample(1, 1, 0)) }, "refused 1: series 2: there is no label __name__")
	refused("duplicate", func(r *request2) build {
		return r.labels("__name__", "up", "job", "b", "job", "a").bytes(2, sample(1, 1, 0))
	}, `refused 1: duplicate tag "job"`)
	refused("not UTF-8", func(r *request2) build { return r.labels("__name__", "up", "job", "\xff").bytes(2, sample(1, 1, 0)) }, `refused 1: label "job" is not valid UTF-8`)
	refused("time", func(r *request2) build { return up(r).bytes(2, sample(1, math.MaxInt64, 0)) },
		fmt.Sprintf("refused 1: time outside range %d - %d", model.MinTime, model.MaxTime))
	refused("histogram", func(r *request2) build { return up(r).bytes(3, anyHistogram(1).number(1, 99)) },
		"refused 1: 3 observations found in buckets, but the Count field is 99: histogram's observation count should equal the number of observations found in the buckets (in absence of NaN)")
	refused("too many labels", func(r *request2) build {
		return up(r).bytes(1, bytes.Repeat([]byte{1, 0}, maxLabels)).bytes(2, sample(1, 1, 0))
	}, "refused 1: series 2: more than 16383 labels")
	series := func() build { var r request2; good(&r); return r.bytes() }()
	for name, b := range map[string]build{
		"the first symbol is not the empty string":                                     build(nil).bytes(4, []byte("x")).bytes(5, nil),
		"the message has no symbols":                                                   build(nil).bytes(5, nil),
		"the message is one of remote write 1.0, but its Content-Type is that of 2.0":  build(nil).bytes(1, nil),
		"the message is one of remote write 1.0, but its Content-Type is that of 2.0 ": build(nil).bytes(3, nil),
		proto.ErrInvalid.Error():                                                       append(series, 0xff),
		proto.ErrInvalid.Error() + " ":                                                 build(nil).bytes(4, nil).bytes(5, build(nil).bytes(1, []byte{0x80})),
		proto.ErrInvalid.Error() + "  ":                                                build(nil).bytes(4, nil).bytes(5, build(nil).bytes(5, []byte{0x08})),
		proto.ErrInvalid.Error() + "   ":                                               build(nil).bytes(4, nil).bytes(5, build(nil).bytes(2, []byte{0x09, 0x08})),
		proto.ErrInvalid.Error() + "    ":                                              build(nil).bytes(4, nil).bytes(5, build(nil).bytes(3, []byte{0xff})),
	} {
		check(t, name, Write2, b, strings.TrimSpace(name))
	}
	padded := build{0xa2, 0x00, 0x80, 0x00, 0x22, 0x88, 0x80, 0x00} // tags and lengths with more bytes than they need
	padded = append(padded, "__name__"...).bytes(4, []byte("up")).bytes(5, build(nil).bytes(1, []byte{1, 2}).bytes(2, sample(1, 1, 0)))
	check(t, "padded", Write2, padded, "up,__name__=up value=1 @1", one)
}

// TestWriteGolden reads messages that a Prometheus library has encoded.
func TestWriteGolden(t *testing.T) {
	f := func(file string, read func([]byte, *prom.Rows) (Written, error), want ...string) {
		t.Helper()
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		check(t, file, read, b, want...)
	}
	f("write1.hex", Write,
		`http_requests_total,__name__=http_requests_total,job=api value=42 @1600000000000`, `http_requests_total,__name__=http_requests_total,job=api value=0x7ff0000000000002 @1600000015000`,
		`latency,__name__=latency,path=/a\ b __histogram__ @1600000000000`, `latency,__name__=latency,path=/a\ b __histogram__ @1600000015000`,
		`{Metric:http_requests_total Type:counter Help:Requests. Unit:}`, `{Metric:latency Type:histogram Help:Latency. Unit:seconds}`,
		"samples=2 histograms=2 exemplars=1")
	f("write2.hex", Write2,
		`http_requests_total,__name__=http_requests_total,job=api value=42 __start__=1500000000000 @1600000000000`, `http_requests_total,__name__=http_requests_total,job=api value=0x7ff0000000000002 @1600000015000`,
		`latency,__name__=latency,path=/a\ b __histogram__ __start__=1500000000000 @1600000000000`, `latency,__name__=latency,path=/a\ b __histogram__ @1600000015000`,
		`{Metric:http_requests_total Type:counter Help:Requests. Unit:}`, `{Metric:latency Type:histogram Help:Latency. Unit:seconds}`,
		"samples=2 histograms=2 exemplars=1")
}

// FuzzWrite holds that no bytes make the readers of write requests panic, and that what
// they count is what they put into the batch.
func FuzzWrite(f *testing.F) {
	up := AppendLabel(AppendLabel(nil, "__name__", "up"), "job", "node")
	f.Add([]byte(build(nil).bytes(1, build(up).bytes(2, sample(1.5, 1000, 0)).bytes(4, anyHistogram(3)))))
	var r request2
	r.series = append(r.series, r.labels("__name__", "up", "job", "a").bytes(2, sample(1, 1, 2)).bytes(5, build(nil).number(1, 2).number(3, r.ref("Help."))), r.labels("__name__", "h").bytes(3, anyHistogram(3)).bytes(4, nil))
	f.Add(r.bytes())
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{0x0b, 0x0b, 0x0c})
	f.Add([]byte{0x22, 0x00, 0x2a, 0x04, 0x08, 0x01, 0x10, 0x02})
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		for i, read := range []func([]byte, *prom.Rows) (Written, error){Write, Write2} {
			if _, again, ok := strings.Cut(describe(read, b), "\nwhen it comes again:\n"); ok {
				t.Errorf("version %d: another answer when it comes again:\n%s", i+1, again)
			}
			batch := &point.Batch{}
			rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
			got, err := read(b, &rows)
			if err == nil && got.Samples+got.Histograms != len(batch.Rows) {
				t.Errorf("version %d: %d samples and %d histograms are %d rows", i+1, got.Samples, got.Histograms, len(batch.Rows))
			}
			if len(batch.Rows)+rows.Refused+got.Exemplars+len(got.Metadata) > len(b) || (rows.Refused > 0) && rows.Reason == "" {
				t.Errorf("version %d: %d rows, %d refused, %+v of %d bytes: %s", i+1, len(batch.Rows), rows.Refused, got, len(b), rows.Reason)
			}
		}
		if !bytes.Equal(b, before) {
			t.Error("the message has changed")
		}
	})
}

// TestKnownSeries: a series is known by all of its labels, in their order, wherever they are in
// the message, and in version 2.0 whatever the numbers of their texts are.
func TestKnownSeries(t *testing.T) {
	table := point.NewTable(1)
	f := func(read func([]byte, *prom.Rows) (Written, error), b []byte, want string) {
		t.Helper()
		if got := describeOnce(table, read, b); got != want+"\nsamples=1 histograms=0 exemplars=0" {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	for round := range 3 {
		at := int64(round)
		one := func(want string, b build) {
			t.Helper()
			f(Write, build(nil).bytes(1, b), fmt.Sprintf("%s @%d", want, at))
		}
		a, b := AppendLabel(nil, "__name__", "up"), AppendLabel(nil, "job", "a")
		one("up,__name__=up,job=a value=1", build(slices.Concat(a, b)).bytes(2, sample(1, at, 0)))
		one("up,__name__=up,job=a value=2", build(slices.Concat(b, a)).bytes(2, sample(2, at, 0)))
		one("up,__name__=up,job=a value=3", append(build(a).bytes(2, sample(3, at, 0)), b...))
		one("up,__name__=up value=4", build(a).bytes(2, sample(4, at, 0)))
		one("up,__name__=up,job=ab value=5", build(AppendLabel(a, "job", "ab")).bytes(2, sample(5, at, 0)))
		one("up,__name__=up value=6 __start__=7", build(a).bytes(2, sample(6, at, 7)))
		for _, shift := range []int{0, round} {
			var r request2
			for i := range shift {
				r.ref(fmt.Sprint("other ", i))
			}
			r.series = append(r.series, r.labels("__name__", "up", "job", "b").bytes(2, sample(8, at, 0)))
			f(Write2, r.bytes(), fmt.Sprintf("up,__name__=up,job=b value=8 @%d", at))
		}
		var r request2
		r.labels("job", "__name__", "b", "up") // the same numbers for other texts
		r.series = append(r.series, r.labels("job", "b", "__name__", "up").bytes(2, sample(9, at, 0)))
		f(Write2, r.bytes(), fmt.Sprintf("up,__name__=up,job=b value=9 @%d", at))
	}
}

// TestLabelsArePaid: a small request that refers to a long text very often, with labels that do not come
// first, takes no memory before it has paid for it.
func TestLabelsArePaid(t *testing.T) {
	var r request2
	long := r.ref(strings.Repeat("x", 1<<20))
	name := r.ref("l")
	b := build(nil).bytes(2, sample(1, 1, 0)).number(1, r.ref("__name__")).number(1, r.ref("up"))
	for range 1000 {
		b = b.number(1, name).number(1, long)
	}
	r.series = append(r.series, b)
	full := errors.New("no memory")
	rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), new(point.Batch)), Charge: func(int) error { return full }}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Write2(r.bytes(), &rows)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, full) || took > 64<<20 {
		t.Errorf("%v after %d MiB", err, took>>20)
	}
}

func TestNegotiate(t *testing.T) {
	f := func(contentType, encoding, want string) {
		t.Helper()
		second, err := Negotiate(contentType, encoding)
		got := fmt.Sprint(second)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q %q: %s, want %s", contentType, encoding, got, want)
		}
	}
	f("", "", "false")
	f("application/x-protobuf", "snappy", "false")
	f("application/x-protobuf", " Snappy ", "false")
	f(MediaWrite, "snappy", "false")
	f(MediaWrite2, "snappy", "true")
	f("Application/X-Protobuf; Proto=io.prometheus.write.v2.Request; x=y", "", "true")
	f("application/x-protobuf;proto=io.prometheus.write.v3.Request", "snappy", "Content-Type ")
	f("application/json", "snappy", "Content-Type \"application/json\" is not supported, send application/x-protobuf;proto=prometheus.WriteRequest or ")
	f("application/x-protobuf;;;=", "snappy", "Content-Type ")
	f("", "gzip", `Content-Encoding "gzip" is not supported, send snappy`)
	f(MediaWrite2, "zstd", `Content-Encoding "zstd" is not supported, send snappy`)
}
