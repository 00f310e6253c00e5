package load

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Scrape makes what Prometheus sends of some targets that it scrapes every three
// seconds: 700 series a target, one sample each. The times of a target are those of its
// scrapes, in milliseconds, with the jitter of a busy machine. Of twenty series, seven
// are constant, five are counters, five are buckets of histograms, most of them idle,
// and three are gauges. The targets of a job have the same 175 metrics.
type Scrape struct {
	// Points is the number of points made so far.
	Points int64

	targets, jobs, steps int
	start                int64 // s
	r                    *rand.Rand
	step                 int
	values               [][]float64
}

const (
	scrapeSeries   = 700
	scrapeInterval = 3000 // ms
)

// NewScrape returns a generator for steps scrapes of the targets of some jobs from start
// (s since the epoch). It makes the same points every time.
func NewScrape(targets, jobs, steps int, start int64) *Scrape {
	g := &Scrape{targets: targets, jobs: jobs, steps: steps, start: start, r: rand.New(rand.NewPCG(3, 700))}
	for range targets {
		values := make([]float64, scrapeSeries)
		for i := range values {
			values[i] = float64(g.r.Int64N(1e6))
		}
		g.values = append(g.values, values)
	}
	return g
}

// Series returns the number of series.
func (g *Scrape) Series() int { return g.targets * scrapeSeries }

// Labels returns the labels of a series, in order.
func (g *Scrape) Labels(series int) [][2]string {
	target, i := series/scrapeSeries, series%scrapeSeries
	labels := [][2]string{
		{"__name__", fmt.Sprintf("job%d_metric_%03d", target%g.jobs, i/4)},
		{"instance", fmt.Sprintf("host-%d:9100", target)},
		{"job", fmt.Sprintf("job%d", target%g.jobs)},
	}
	if i%4 > 0 {
		labels = append(labels, [2]string{"mode", fmt.Sprintf("m%d", i%4)})
	}
	return labels
}

// Step calls f with the sample of every series of one scrape of every target, at is in
// milliseconds; false at the end.
func (g *Scrape) Step(f func(series int, at int64, value float64)) bool {
	if g.step == g.steps {
		return false
	}
	for target, values := range g.values {
		at := g.start*1000 + int64(g.step)*scrapeInterval + int64(target)*scrapeInterval/int64(g.targets)
		at += int64(g.r.ExpFloat64() * 12)
		for i := range values {
			g.advance(i, &values[i])
			f(target*scrapeSeries+i, at, values[i])
			g.Points++
		}
	}
	g.step++
	return true
}

// Next appends the lines of one scrape of every target to dst; false at the end.
func (g *Scrape) Next(dst []byte) ([]byte, bool) {
	more := g.Step(func(series int, at int64, value float64) {
		for i, l := range g.Labels(series) {
			if i == 0 {
				dst = append(dst, l[1]...)
			} else {
				dst = fmt.Appendf(dst, ",%s=%s", l[0], l[1])
			}
		}
		dst = strconv.AppendFloat(append(dst, " value="...), value, 'f', -1, 64)
		dst = strconv.AppendInt(append(dst, ' '), at*1e6, 10)
		dst = append(dst, '\n')
	})
	return dst, more
}

// advance lets three seconds pass for a value of series i.
func (g *Scrape) advance(i int, v *float64) {
	r := g.r
	switch k := i % 20; {
	case k < 7:
	case k < 10:
		*v += float64(r.Int64N(40))
	case k < 12: // seconds of a processor, in hundredths
		*v = float64(int64(*v*100+.5)+r.Int64N(300)) / 100
	case k < 17:
		if r.IntN(10+k%5*50) == 0 {
			*v++
		}
	default: // memory, in pages
		*v = max(*v+float64((r.Int64N(9)-4)*page), 0)
	}
}
