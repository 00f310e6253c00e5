package promjudge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

const (
	demoInterval = 5 * time.Second
	demoScrapes  = 2160 // three hours
	// demoHost is the host of the services for which the queries of the PromQL compliance
	// tester are written.
	demoHost = "demo.promlabs.com"
)

// NewDemo returns what a Prometheus has after three hours of scraping three demo services:
// counters that begin again, gauges, a histogram, and a metric that comes and goes.
// Services restart, some scrapes are lost, and the last half hour is in the next shard.
func NewDemo(r *rand.Rand) *Dataset {
	const bound = 2811 * week
	d := &Dataset{Interval: demoInterval.Milliseconds()}
	d.Start = bound - 5*demoScrapes*d.Interval/6
	d.End = d.Start + (demoScrapes-1)*d.Interval
	for i := range 3 {
		s := &demoService{Dataset: d, r: r, scrapes: demoTimes(r, d), instance: fmt.Sprintf("%s:%d", demoHost, 10_000+i)}
		s.add("up", func(at demoScrape) (float64, bool) {
			if at.down {
				return 0, true
			}
			return 1, true
		})
		s.resources()
		s.requests()
		s.batches()
	}
	slices.SortFunc(d.Series, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return d
}

// demoScrape is a scrape of a service.
type demoScrape struct {
	time      int64 // ms
	down      bool  // the service does not answer
	restarted bool  // the service was down before
}

// demoTimes returns the scrapes of a service. A service is down twice, the second time
// among the times for which the queries ask.
func demoTimes(r *rand.Rand, d *Dataset) []demoScrape {
	var all []demoScrape
	phase, jitter := r.Int64N(d.Interval), r.Int64N(3)
	down := []int{demoScrapes/3 + r.IntN(300), demoScrapes - 300 + r.IntN(100)}
	down[1] = min(down[1], demoScrapes-180)
	restarted := false
	for i := range demoScrapes {
		at := demoScrape{time: d.Start + int64(i)*d.Interval + phase, restarted: restarted}
		if jitter > 0 {
			at.time += r.Int64N(jitter)
		}
		at.down = i >= down[0] && i < down[0]+80 || i >= down[1] && i < down[1]+15
		if at.time > d.End || !at.down && r.IntN(200) == 0 {
			continue // lost on its way
		}
		restarted = at.down
		all = append(all, at)
	}
	return all
}

// demoService adds the series of a service.
type demoService struct {
	*Dataset
	r        *rand.Rand
	scrapes  []demoScrape
	instance string
}

// add adds a series. value returns false where the series does not exist: it ends with a
// staleness marker.
func (s *demoService) add(name string, value func(at demoScrape) (float64, bool), pairs ...string) {
	one := Series{Labels: labels.FromStrings(append([]string{labels.MetricName, name, "job", "demo", "instance", s.instance}, pairs...)...)}
	exists := false
	for _, at := range s.scrapes {
		v, ok := value(at)
		if !ok && !exists {
			continue
		}
		if exists = ok; !ok {
			v = math.Float64frombits(valueStale)
		}
		one.Samples = append(one.Samples, Sample{Time: at.time, Value: v})
	}
	s.Series = append(s.Series, one)
}

// gauge adds a series with a value for each scrape that the service answers.
func (s *demoService) gauge(name string, value func(at demoScrape) float64, pairs ...string) {
	s.add(name, func(at demoScrape) (float64, bool) {
		if at.down {
			return 0, false
		}
		return value(at), true
	}, pairs...)
}

// counter adds a series that begins at 0 when the service starts.
func (s *demoService) counter(name string, perSecond float64, pairs ...string) {
	v := 0.0
	s.gauge(name, func(at demoScrape) float64 {
		if at.restarted {
			v = 0
		}
		v += perSecond * demoInterval.Seconds() * s.r.ExpFloat64()
		return v
	}, pairs...)
}

// resources adds processors, memory and disks.
func (s *demoService) resources() {
	s.gauge("demo_num_cpus", func(demoScrape) float64 { return 4 })
	for _, mode := range []string{"idle", "system", "user"} {
		s.counter("demo_cpu_usage_seconds_total", s.r.Float64()*2, "mode", mode)
	}
	for _, kind := range []string{"buffers", "cached", "free", "used"} {
		v := math.Exp2(28 + 5*s.r.Float64())
		s.gauge("demo_memory_usage_bytes", func(demoScrape) float64 {
			v = max(v*(1+0.01*s.r.NormFloat64()), 4096)
			return math.Floor(v)
		}, "type", kind)
	}
	const size = 1 << 37
	used := size * s.r.Float64() / 2
	s.gauge("demo_disk_total_bytes", func(demoScrape) float64 { return size })
	s.gauge("demo_disk_usage_bytes", func(demoScrape) float64 {
		if used += 1e8 * s.r.Float64(); used > size*0.9 {
			used = size * 0.1
		}
		return used
	})
}

// requests adds the histogram of requests, and the figures of the page with the metrics.
func (s *demoService) requests() {
	bounds := []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, math.Inf(1)}
	for _, of := range [][]string{{"GET", "/api/bar", "200"}, {"GET", "/api/bar", "500"}, {"POST", "/api/foo", "200"}} {
		pairs := []string{"method", of[0], "path", of[1], "status", of[2]}
		with := func(more ...string) []string { return append(slices.Clone(pairs), more...) }
		counts, sum := make(map[int64][]float64), make(map[int64]float64)
		now, total, scale := make([]float64, len(bounds)), 0.0, s.r.Float64()/10
		for _, at := range s.scrapes {
			if at.restarted {
				clear(now)
				total = 0
			}
			for range s.r.IntN(20) {
				v := s.r.ExpFloat64() * scale
				total += v
				for b, bound := range bounds {
					if v <= bound {
						now[b]++
					}
				}
			}
			counts[at.time], sum[at.time] = slices.Clone(now), total
		}
		const name = "demo_api_request_duration_seconds"
		for b, bound := range bounds {
			le := strconv.FormatFloat(bound, 'g', -1, 64)
			s.gauge(name+"_bucket", func(at demoScrape) float64 { return counts[at.time][b] }, with("le", le)...)
		}
		s.gauge(name+"_count", func(at demoScrape) float64 { return counts[at.time][len(bounds)-1] }, pairs...)
		s.gauge(name+"_sum", func(at demoScrape) float64 { return sum[at.time] }, pairs...)
	}
	s.gauge("promhttp_metric_handler_requests_in_flight", func(demoScrape) float64 { return 1 })
	for _, code := range []string{"200", "500", "503"} {
		s.counter("promhttp_metric_handler_requests_total", 0.2, "code", code)
	}
}

// batches adds the figures of a batch, and a metric that comes and goes.
func (s *demoService) batches() {
	last := float64(s.Start/1000) - 100
	s.gauge("demo_batch_last_success_timestamp_seconds", func(at demoScrape) float64 {
		if s.r.IntN(20) == 0 {
			last = float64(at.time) / 1000
		}
		return last
	})
	left, shown := 0, false
	s.add("demo_intermittent_metric", func(at demoScrape) (float64, bool) {
		if left--; left < 0 {
			left, shown = 3+s.r.IntN(20), !shown
		}
		return 1, shown && !at.down
	})
	s.counter("demo_items_shipped_total", 3)
	s.gauge("demo_is_holiday", func(at demoScrape) float64 { return float64(at.time / 3_600_000 % 2) })
}
