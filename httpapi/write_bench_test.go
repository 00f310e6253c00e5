package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"tsdbd/httpapi"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/remote"
)

// sinkStore takes everything and keeps nothing: what is left is the API.
type sinkStore struct {
	fakeStore
	table *point.Table
}

func (s *sinkStore) Table(string) (*point.Table, error) { return s.table, nil }

func (s *sinkStore) RetentionPolicy(string, string) (string, error)            { return "autogen", nil }
func (s *sinkStore) Write(context.Context, string, string, *point.Batch) error { return nil }

// BenchmarkWrite posts bodies of 10 tags and 10 integer fields a line.
func BenchmarkWrite(b *testing.B) {
	for _, lines := range []int{1, 100, 10_000} {
		for _, packed := range []bool{false, true} {
			b.Run(fmt.Sprintf("lines=%d/gzip=%v", lines, packed), func(b *testing.B) {
				var text bytes.Buffer
				for i := range lines {
					fmt.Fprintf(&text, "cpu,hostname=host_%d,region=eu-west-1,datacenter=eu-west-1b,rack=67,os=Ubuntu16.10,arch=x86,team=NYC,service=7,service_version=0,service_environment=production", i%1000)
					for j, f := range []string{"user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"} {
						fmt.Fprintf(&text, "%cusage_%s=%di", " ,"[min(j, 1)], f, (i*7+j*13)%100)
					}
					fmt.Fprintf(&text, " %d\n", 1451606400000000000+int64(i/1000)*10_000_000_000)
				}
				size := text.Len()
				body := text.String()
				if packed {
					body = squeeze(body)
				}
				s := &sinkStore{table: point.NewTable(1)}
				h := httpapi.New(httpapi.Options{Writer: s, Query: s})
				defer h.Close()
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					r := httptest.NewRequest(http.MethodPost, "/write?db=d", strings.NewReader(body))
					if packed {
						r.Header.Set("Content-Encoding", "gzip")
					}
					w := httptest.NewRecorder()
					if h.ServeHTTP(w, r); w.Code != 204 {
						b.Fatal(w.Body)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(lines*10), "ns/value")
			})
		}
	}
}

// BenchmarkRemoteWrite posts messages of remote write 1.0 with 8 labels a series.
func BenchmarkRemoteWrite(b *testing.B) {
	for _, size := range []struct{ series, samples int }{{1000, 1}, {100, 100}} {
		b.Run(fmt.Sprintf("series=%d/samples=%d", size.series, size.samples), func(b *testing.B) {
			var message []byte
			for i := range size.series {
				var series []byte
				for _, l := range [][2]string{
					{"__name__", "http_request_duration_seconds_bucket"},
					{"cluster", "eu-west-1"},
					{"handler", "/api/v1/query"},
					{"instance", fmt.Sprintf("10.0.%d.%d:9090", i/250, i%250)},
					{"job", "prometheus"},
					{"le", "0.25"},
					{"namespace", "monitoring"},
					{"pod", fmt.Sprintf("prometheus-k8s-%d", i)},
				} {
					series = remote.AppendLabel(series, l[0], l[1])
				}
				for j := range size.samples {
					series = remote.AppendSample(series, prom.Sample{Value: float64(i * j), Time: 1451606400000 + int64(j)*15_000})
				}
				message = append(message, member(1, series)...)
			}
			benchmarkMessage(b, "/api/v1/prom/write?db=d", "", message, size.series*size.samples)
		})
	}
}

// benchmarkMessage posts a message, compressed by snappy.
func benchmarkMessage(b *testing.B, path, contentType string, message []byte, samples int) {
	body := string(snappy.Encode(nil, message))
	s := &sinkStore{table: point.NewTable(1)}
	h := httpapi.New(httpapi.Options{Writer: s, Query: s})
	defer h.Close()
	b.ReportAllocs()
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 204 {
			b.Fatal(w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
}

func (s *sinkStore) WriteExemplars(_ context.Context, _ string, list []model.Exemplar) (kept, older int, err error) {
	return len(list), 0, nil
}
