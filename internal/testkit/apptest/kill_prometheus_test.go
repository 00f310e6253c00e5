package apptest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestKillPrometheus kills the server while it takes samples over the roads that are not
// line protocol, and finds every sample that was acknowledged.
func TestKillPrometheus(t *testing.T) {
	t.Parallel()
	roads := []struct {
		name, path, media, encoding string
		body                        func(n int64) string // a sample of the metric name with the value n at n ms
	}{
		{"remote", "/api/v1/write", "application/x-protobuf;proto=io.prometheus.write.v2.Request", "snappy", remoteWrite2},
		{"lines", "/api/v1/import", "application/json", "", func(n int64) string {
			return fmt.Sprintf(`{"metric":{"__name__":"lines"},"values":[%d],"timestamps":[%d]}`, n, n)
		}},
		{"otlp", "/api/v1/otlp/v1/metrics", "application/json", "", func(n int64) string {
			return fmt.Sprintf(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"otlp","gauge":{"dataPoints":[{"timeUnixNano":"%d","asDouble":%d}]}}]}]}]}`, n*1_000_000, n)
		}},
	}
	s := Start(t)
	next := make([]int64, len(roads))
	sure := make([]int64, len(roads)) // samples 1 to this one were acknowledged
	for round := range 2 {
		var writers sync.WaitGroup
		var acknowledged atomic.Int64
		enough := make(chan struct{})
		for i, road := range roads {
			writers.Go(func() {
				for {
					next[i]++
					req, err := http.NewRequest(http.MethodPost, s.URL+road.path, strings.NewReader(road.body(next[i])))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Content-Type", road.media)
					req.Header.Set("Content-Encoding", road.encoding)
					resp, err := s.http.Do(req)
					if err != nil {
						next[i]-- // it may be there or not
						return
					}
					if body, err := readAll(resp); err != nil || resp.StatusCode/100 != 2 {
						t.Errorf("%s: %d %s %v", road.name, resp.StatusCode, body, err)
						return
					}
					sure[i] = next[i]
					if acknowledged.Add(1) == 60 {
						close(enough)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			writers.Wait()
		}()
		select {
		case <-enough:
		case <-ended:
			t.FailNow() // every road failed
		}
		s.Kill()
		<-ended
		s.Restart()
		for i, road := range roads {
			got, err := s.Count("prometheus", fmt.Sprintf("SELECT count(value) FROM %s WHERE time <= %dms", road.name, sure[i]))
			if err != nil || got != sure[i] || sure[i] == 0 {
				t.Errorf("round %d, %s: %d of %d acknowledged samples are there, %v", round, road.name, got, sure[i], err)
			}
		}
	}
}

// remoteWrite2 returns a message of remote write 2.0 with a sample of the metric remote.
func remoteWrite2(n int64) string {
	member := func(dst []byte, field protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), data)
	}
	sample := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), 0) // the value 0
	sample = protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), uint64(n))
	series := member(nil, 1, protowire.AppendVarint(protowire.AppendVarint(nil, 1), 2)) // labels
	series = member(series, 2, sample)
	var message []byte
	for _, symbol := range []string{"", "__name__", "remote"} {
		message = member(message, 4, []byte(symbol))
	}
	return string(snappy.Encode(nil, member(message, 5, series)))
}
