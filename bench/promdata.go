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

	"tsdbd/internal/testkit/load"
)

// promMetric is the one metric of sizes without jobs: seconds that a core was busy.
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
	jobs   int           // those of load.Scrape; 0: promMetric alone
	two    bool          // by remote write 2.0
}

var promSizes = []promSize{
	{name: "1,000 series, 1 h at 15 s", series: 1000, span: time.Hour, step: 15 * time.Second},
	{name: "100,000 series, 1 h at 15 s", series: 100_000, span: time.Hour, step: 15 * time.Second},
	{name: "1,000 series, 30 d at 60 s", series: 1000, span: 30 * 24 * time.Hour, step: time.Minute},
	{name: "2,800 series of 4 targets, 1 h at 3 s with jitter", series: 4 * promTarget, span: time.Hour, step: 3 * time.Second, jobs: 1},
	{name: "100,100 series of 4,900 metrics, 1 min at 3 s with jitter", series: 143 * promTarget, span: time.Minute, step: 3 * time.Second, jobs: 28},
	{name: "the same 100,100 series by remote write 2.0", series: 143 * promTarget, span: time.Minute, step: 3 * time.Second, jobs: 28, two: true},
}

// promTarget is how many series a target of load.Scrape has.
const promTarget = 700

// scaled returns a share of the size.
func (s promSize) scaled(scale float64) promSize {
	unit, least, span := promCores, 10*promCores, time.Hour
	if s.jobs > 0 {
		unit, least, span = promTarget, promTarget, time.Minute
	}
	s.series = max(int(float64(s.series)*scale)/unit*unit, least)
	s.span = min(s.span, max(time.Duration(float64(s.span)*scale).Truncate(span), span))
	return s
}

// samples is the number of samples of a series.
func (s promSize) samples() int { return int(s.span / s.step) }

// end is the time behind the last sample, in seconds.
func (s promSize) end() int64 { return promStart + int64(s.span/time.Second) }

// cores of a host.
const promCores = 10

// labels are those of a series of a size without jobs, in order.
func (s promSize) labels(series int) [][2]string {
	return [][2]string{
		{"__name__", promMetric},
		{"core", fmt.Sprint(series % promCores)},
		{"dc", fmt.Sprintf("dc%d", series/promCores%5)},
		{"host", fmt.Sprintf("host-%d", series/promCores)},
		{"job", "node"},
	}
}

// promSample is a sample of a series, its time in ms.
type promSample struct {
	series int
	at     int64
	value  float64
}

// scrapes returns the labels of a series, and what returns the samples of the next scrape of
// all series, valid until its next call.
func (s promSize) scrapes() (labels func(series int) [][2]string, next func() []promSample) {
	samples := make([]promSample, s.series)
	if s.jobs > 0 {
		g := load.NewScrape(s.series/promTarget, s.jobs, s.samples(), promStart)
		return g.Labels, func() []promSample {
			g.Step(func(series int, at int64, value float64) { samples[series] = promSample{series, at, value} })
			return samples
		}
	}
	all, at := s.generator(), promStart*1000+promShift.Milliseconds()
	return s.labels, func() []promSample {
		for i := range all {
			samples[i] = promSample{i, at, all[i].next(s.step)}
		}
		at += s.step.Milliseconds()
		return samples
	}
}

// promSeries is the state of a generator of samples.
type promSeries struct {
	r     rand.PCG
	value int64 // thousandths
}

// generator returns all series before their first samples.
func (s promSize) generator() []promSeries {
	out := make([]promSeries, s.series)
	for i := range out {
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

// promRequest is a request of remote write.
type promRequest struct {
	body    []byte
	samples int
	fresh   bool // its series are new
	two     bool // version 2.0
}

// promRequestSeries is how many series a request has: as many samples as Prometheus sends in one.
const promRequestSeries = 2000

// requests calls f with the requests of the size in order. Each has one sample of a series, as
// scrapes have.
func (s promSize) requests(f func(promRequest) error) error {
	labels, next := s.scrapes()
	symbols := promSymbols{}
	texts := make([][]byte, s.series) // of 1.0
	for n := range s.samples() {
		for part := range slices.Chunk(next(), promRequestSeries) {
			var head, message, series []byte
			clear(symbols)
			if s.two {
				head = symbols.add(head, "")
			}
			for _, p := range part {
				var sample [20]byte
				sample[0] = 1<<3 | 1
				binary.LittleEndian.PutUint64(sample[1:], math.Float64bits(p.value))
				sample[9] = 2 << 3
				size := 10 + binary.PutUvarint(sample[10:], uint64(p.at))
				text := texts[p.series]
				if s.two {
					head, text = symbols.labels(head, labels(p.series))
				} else if text == nil {
					for _, l := range labels(p.series) {
						text = field(text, 1, field(field(nil, 1, []byte(l[0])), 2, []byte(l[1])))
					}
					texts[p.series] = text
				}
				series = field(append(series[:0], text...), 2, sample[:size])
				message = field(message, s.seriesField(), series)
			}
			if err := f(promRequest{snappy.Encode(nil, append(head, message...)), len(part), n == 0, s.two}); err != nil {
				return err
			}
		}
	}
	return nil
}

// seriesField is the number of the field of a request that has its series.
func (s promSize) seriesField() int {
	if s.two {
		return 5
	}
	return 1
}

// promSymbols are the texts of a request of remote write 2.0, by number.
type promSymbols map[string]uint64

// add appends a text to the head of the request if it is new in it.
func (p promSymbols) add(head []byte, text string) []byte {
	if _, ok := p[text]; ok {
		return head
	}
	p[text] = uint64(len(p))
	return field(head, 4, []byte(text))
}

// labels appends the texts of a series' labels to the head of the request, and returns the
// field that refers to them.
func (p promSymbols) labels(head []byte, labels [][2]string) (grown, refs []byte) {
	for _, l := range labels {
		for _, text := range l {
			head = p.add(head, text)
			refs = binary.AppendUvarint(refs, p[text])
		}
	}
	return head, field(nil, 1, refs)
}

// remoteWrite sends a request, again for a minute if the server has no room.
func (c *client) remoteWrite(ctx context.Context, path string, params url.Values, r promRequest) error {
	if len(params) > 0 {
		path += "?" + params.Encode()
	}
	failures := 0
	for begin := time.Now(); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(r.body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Encoding", "snappy")
		form, version := "application/x-protobuf", "0.1.0"
		if r.two {
			form, version = form+";proto=io.prometheus.write.v2.Request", "2.0.0"
		}
		req.Header.Set("Content-Type", form)
		req.Header.Set("X-Prometheus-Remote-Write-Version", version)
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
