package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang/snappy"
)

// promMetric is the one metric of the workload: seconds that a core was busy.
const promMetric = "node_cpu_seconds_total"

// promStart is the beginning of the data, in seconds. promShift is by how much
// samples follow the times that are asked for: no sample lies on the bound of a
// window, which is part of it for some versions of Prometheus and not for others.
const (
	promStart = 1_699_920_000
	promShift = 7 * time.Second
)

// promSize is one set of series.
type promSize struct {
	name   string
	series int
	span   time.Duration
	step   time.Duration // between the samples of a series
}

var promSizes = []promSize{
	{"1,000 series, 1 h at 15 s", 1000, time.Hour, 15 * time.Second},
	{"100,000 series, 1 h at 15 s", 100_000, time.Hour, 15 * time.Second},
	{"1,000 series, 30 d at 60 s", 1000, 30 * 24 * time.Hour, time.Minute},
}

// samples is the number of samples of a series.
func (s promSize) samples() int { return int(s.span / s.step) }

// end is the time behind the last sample, in seconds.
func (s promSize) end() int64 { return promStart + int64(s.span/time.Second) }

// cores of a host.
const promCores = 10

// labels are those of a series, in order.
func (s promSize) labels(series int) [][2]string {
	return [][2]string{
		{"__name__", promMetric},
		{"core", fmt.Sprint(series % promCores)},
		{"dc", fmt.Sprintf("dc%d", series/promCores%5)},
		{"host", fmt.Sprintf("host-%d", series/promCores)},
		{"job", "node"},
	}
}

// promSeries is the state of a generator of samples.
type promSeries struct {
	text  []byte // the labels as a message
	r     rand.PCG
	value int64 // thousandths
}

// generator returns all series before their first samples.
func (s promSize) generator() []promSeries {
	out := make([]promSeries, s.series)
	for i := range out {
		for _, l := range s.labels(i) {
			label := field(field(nil, 1, []byte(l[0])), 2, []byte(l[1]))
			out[i].text = field(out[i].text, 1, label)
		}
		out[i].r = *rand.NewPCG(uint64(i), 1)
		out[i].value = int64(out[i].r.Uint64() % 1e9)
	}
	return out
}

// next is the value of the next sample: a counter of thousandths of seconds, which
// begins again once in 5,000 samples.
func (p *promSeries) next(step time.Duration) float64 {
	word := p.r.Uint64()
	if word%5000 == 0 {
		p.value = 0
	}
	p.value += int64(word>>32) % step.Milliseconds()
	return float64(p.value) / 1000
}

// field appends a field of bytes to a message.
func field(dst []byte, number int, b []byte) []byte {
	dst = append(dst, byte(number)<<3|2)
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// promRequest is a request of remote write 1.0.
type promRequest struct {
	body    []byte
	samples int
}

// promRequestSeries is how many series a request has: as many samples as Prometheus sends in one.
const promRequestSeries = 2000

// requests calls f with the requests of the size in order. Each has one sample of a series, as
// scrapes have.
func (s promSize) requests(f func(promRequest) error) error {
	all := s.generator()
	for n := range s.samples() {
		at := promStart*1000 + int64(n)*s.step.Milliseconds() + promShift.Milliseconds()
		for part := range slices.Chunk(all, promRequestSeries) {
			var message, series []byte
			for i := range part {
				var sample [20]byte
				sample[0] = 1<<3 | 1
				binary.LittleEndian.PutUint64(sample[1:], math.Float64bits(part[i].next(s.step)))
				sample[9] = 2 << 3
				size := 10 + binary.PutUvarint(sample[10:], uint64(at))
				series = field(append(series[:0], part[i].text...), 2, sample[:size])
				message = field(message, 1, series)
			}
			if err := f(promRequest{snappy.Encode(nil, message), len(part)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// remoteWrite sends a request, again for a minute if the server has no room.
func (c *client) remoteWrite(ctx context.Context, path string, params url.Values, body []byte) error {
	if len(params) > 0 {
		path += "?" + params.Encode()
	}
	failures := 0
	for begin := time.Now(); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Encoding", "snappy")
		req.Header.Set("Content-Type", "application/x-protobuf")
		req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
		resp, err := c.http.Do(req)
		if err != nil {
			if failures++; failures < 3 && ctx.Err() == nil { // VictoriaMetrics closes a connection after two minutes
				continue
			}
			return err
		}
		var text bytes.Buffer
		_, err = text.ReadFrom(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		if resp.StatusCode/100 == 2 {
			return nil
		}
		failure := &statusError{path, resp.StatusCode, strings.TrimSpace(text.String())}
		if resp.StatusCode != http.StatusServiceUnavailable || time.Since(begin) > time.Minute {
			return failure
		}
		c.retries.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}
