package promapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	promvalue "github.com/prometheus/prometheus/model/value"

	"tsdbd/httpapi/encode"
	tsdbmodel "tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/prom"
	"tsdbd/prom/engine"
	"tsdbd/query/admission"
)

// TestFederate holds which samples federate answers with at 1000 seconds, and their text,
// which Prometheus' own parsers must read.
func TestFederate(t *testing.T) {
	store := scantest.New()
	store.Create("db", "autogen")
	store.Write(t, "db", "autogen", "s", strings.Join([]string{
		`up,instance=i,job=a value=0 900`, `up,instance=i,job=a value=1 990`, `up,instance=i,job=a value=0 1001`,
		`up,instance=i,job=b value=1.5e300 700`, `up,instance=i,job=b value=2 1000`,
		`bare value=-0.25 701`, `old value=1 699`, `gone value=1 990`,
		`int,Zone=z value=7i 990`, `inu,Zone=a value=-0.0 990`,
		`disk-io,mount.point=/,text=a\ "b" value=3 990`, `back text="no sample" 995`, `back,s=x\y value=1 990`,
	}, "\n"))
	put := func(key string, at int64, v float64) {
		store.Put("db", "autogen", key, at*1e9, map[string]scantest.Value{"value": {Type: tsdbmodel.Float, Bits: math.Float64bits(v)}})
	}
	put("gone", 995, math.Float64frombits(promvalue.StaleNaN))
	put("odd,v=nan", 990, math.NaN())
	put("odd,v=plus", 990, math.Inf(1))
	put("odd,v=minus", 990, math.Inf(-1))
	putHistogram := func(key string, at int64, h *prom.Histogram) {
		store.Put("db", "autogen", key, at*1e9, map[string]scantest.Value{prom.HistogramField: {Type: tsdbmodel.String, Text: string(prom.AppendHistogram(nil, h))}})
	}
	custom := func(sum float64) *histogram.FloatHistogram {
		return &histogram.FloatHistogram{
			Schema: histogram.CustomBucketsSchema, Count: 7, Sum: sum, CustomValues: []float64{0.5, 1, 5},
			PositiveSpans: []histogram.Span{{Offset: 0, Length: 1}, {Offset: 1, Length: 2}}, PositiveBuckets: []float64{2, 4, 1},
		}
	}
	putHistogram("lat,i=1", 980, &prom.Histogram{Float: custom(1)})
	putHistogram("lat,i=1", 990, &prom.Histogram{Float: custom(12.5)})
	putHistogram("lat,i=2", 990, &prom.Histogram{Float: custom(1)})
	putHistogram("lat,i=2", 995, &prom.Histogram{Float: custom(math.Float64frombits(promvalue.StaleNaN))})
	put("lat,i=3", 990, 8)
	putHistogram("native", 990, &prom.Histogram{Float: &histogram.FloatHistogram{Count: 1, Sum: 1, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []float64{1}}})
	store.Write(t, "db", "autogen", "s", `lat,i=1 `+prom.HistogramField+`="no histogram" 995`)

	account := admission.NewMemory(1 << 20)
	queries := admission.NewQueries(admission.Limits{MemoryBytes: 1 << 20}, account, slog.New(slog.DiscardHandler))
	api := New(Options{
		Engine: engine.New(engine.Options{Storage: store, Memory: account, Queries: queries}),
		Now:    func() time.Time { return time.Unix(1000, 0) },
	})
	ask := func(accept string, match ...string) (*httptest.ResponseRecorder, error) {
		r := httptest.NewRequest("GET", "/federate?"+url.Values{"match[]": match}.Encode(), nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		_ = r.ParseForm() // it has just been made
		w := httptest.NewRecorder()
		out := encode.NewOutput(w, encode.Options{})
		defer out.Free()
		for _, e := range api.Endpoints() {
			if e.Path == "/federate" {
				return w, api.Serve(e, &Call{Request: r, Access: engine.Access{DB: "db"}, W: w, Out: out})
			}
		}
		return nil, errors.New("no endpoint")
	}
	const (
		plain = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
		utf8  = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,text/plain;version=0.0.4;escaping=allow-utf-8;q=0.5"
	)
	up := `# TYPE up untyped
up{instance="i",job="a"} 1 990000
up{instance="i",job="b"} 2 1000000
`
	for _, tt := range []struct {
		name, accept string
		match        []string
		want         string
	}{
		{"nothing", "", nil, ""},
		{"no such series", "", []string{"none"}, ""},
		{"the newest before now", "", []string{"up"}, up},
		{"no instance", "", []string{"bare"}, "# TYPE bare untyped\nbare{instance=\"\"} -0.25 701000\n"},
		{"too old", "", []string{"old"}, ""},
		{"stale", "", []string{"gone"}, ""},
		{"selectors that overlap", "", []string{`up{job="b"}`, "up", `{instance="i"}`, "bare"}, "# TYPE bare untyped\nbare{instance=\"\"} -0.25 701000\n" + up},
		{"by name, not by labels", "", []string{`{__name__=~"in.|bare"}`}, `# TYPE bare untyped
bare{instance=""} -0.25 701000
# TYPE int untyped
int{Zone="z",instance=""} 7 990000
# TYPE inu untyped
inu{Zone="a",instance=""} 0 990000
`},
		{"numbers", "", []string{"odd"}, `# TYPE odd untyped
odd{v="minus",instance=""} -Inf 990000
odd{v="nan",instance=""} NaN 990000
odd{v="plus",instance=""} +Inf 990000
`},
		{"names", "", []string{`{"disk-io"}`}, `# TYPE disk_io untyped
disk_io{mount_point="/",text="a \"b\"",instance=""} 3 990000
`},
		{"names of UTF-8", utf8, []string{`{"disk-io"}`}, `# TYPE "disk-io" untyped
{"disk-io","mount.point"="/",text="a \"b\"",instance=""} 3 990000
`},
		{"histograms", "", []string{"lat"}, `# TYPE lat histogram
lat_bucket{i="1",instance="",le="0.5"} 2 990000
lat_bucket{i="1",instance="",le="1"} 2 990000
lat_bucket{i="1",instance="",le="5"} 6 990000
lat_bucket{i="1",instance="",le="+Inf"} 7 990000
lat_sum{i="1",instance=""} 12.5 990000
lat_count{i="1",instance=""} 7 990000
# TYPE lat untyped
lat{i="3",instance=""} 8 990000
`},
		{"native histograms", "", []string{"native"}, ""},
		{"texts", "", []string{"back"}, "# TYPE back untyped\nback{s=\"x\\\\y\",instance=\"\"} 1 990000\n"},
	} {
		w, err := ask(tt.accept, tt.match...)
		if got := w.Body.String(); err != nil || w.Code != 200 || got != tt.want {
			t.Errorf("%s: %d %v\n%s\nwant\n%s", tt.name, w.Code, err, got, tt.want)
		}
		kind := plain
		if tt.accept != "" {
			kind = strings.Replace(plain, "underscores", "allow-utf-8", 1)
		}
		if got := w.Header().Get("Content-Type"); got != kind {
			t.Errorf("%s: %s", tt.name, got)
		}
		if tt.name != "histograms" { // two types of one name, as Prometheus has it
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(strings.NewReader(w.Body.String()))
			samples := 0
			for _, f := range families {
				samples += len(f.Metric)
			}
			if lines := strings.Count(tt.want, "\n") - strings.Count(tt.want, "#"); err != nil || samples != lines {
				t.Errorf("%s: the parser has %d samples, want %d: %v", tt.name, samples, lines, err)
			}
		}
	}
	for _, selector := range []string{"-up", "not-a-name", "up[5m]"} {
		_, err := ask("", selector)
		if status, _, _, ok := Status(err); !ok || status != 400 {
			t.Errorf("%s: %v", selector, err)
		}
	}
	if n := account.Used(); n != 0 || store.Views() != 0 {
		t.Errorf("%d bytes and %d views are left", n, store.Views())
	}

	small := admission.NewQueries(admission.Limits{MemoryBytes: 500}, account, slog.New(slog.DiscardHandler))
	api = New(Options{Engine: engine.New(engine.Options{Storage: store, Memory: account, Queries: small}), Now: api.opt.Now})
	if _, err := ask("", `{__name__=~".+"}`); err == nil || !strings.Contains(err.Error(), "query memory limit exceeded") {
		t.Errorf("without memory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lookup := &engine.Lookup{Access: engine.Access{DB: "db"}, End: time.Unix(1000, 0)}
	lookup.Selectors = [][]*labels.Matcher{{labels.MustNewMatcher(labels.MatchEqual, "__name__", "up")}}
	if _, err := api.opt.Engine.Newest(ctx, lookup, nil); err == nil {
		t.Error("a canceled request is answered")
	}
}
