package lineproto

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"tsdbd/model/point"
)

// BenchmarkParse reads known series, 1,000 of them in steady order.
func BenchmarkParse(b *testing.B) {
	for i := range dataSets {
		d := &dataSets[i]
		b.Run(d.name, func(b *testing.B) { benchmarkParse(b, d.bodies(1000, 4, 10_000)) })
	}
}

func BenchmarkParseMillionSeries(b *testing.B) {
	benchmarkParse(b, dataSets[0].bodies(1_000_000, 100, 10_000))
}

// BenchmarkParseShuffled reads known series in an order that changes, so that
// every guess fails.
func BenchmarkParseShuffled(b *testing.B) {
	bodies := dataSets[0].bodies(1000, 1, 1000)
	lines := splitLines(bodies[0])
	var out [][]byte
	for step := 1; step < 40; step += 2 {
		var body []byte
		for i := range lines {
			body = append(body, lines[i*(step*7+step%3*2)%len(lines)]...)
		}
		out = append(out, body)
	}
	benchmarkParse(b, out)
}

func splitLines(body []byte) (lines [][]byte) {
	for start, i := 0, 0; i < len(body); i++ {
		if body[i] == '\n' {
			lines = append(lines, body[start:i+1])
			start = i + 1
		}
	}
	return lines
}

func benchmarkParse(b *testing.B, bodies [][]byte) {
	table := point.NewTable(1)
	var p Parser
	var batch point.Batch
	size := 0
	for range 2 {
		for _, body := range bodies {
			batch.Reset()
			if _, err := p.Parse(&batch, table, body, Options{}); err != nil {
				b.Fatal(err)
			}
			size += len(body)
		}
	}
	runtime.GC() // what the setting up left must not be collected meanwhile
	b.ReportAllocs()
	b.ResetTimer()
	values, bytes := 0, 0
	var took time.Duration
	var body []byte
	for i := 0; b.Loop(); i++ {
		batch.Reset()
		// As read from a connection: in a buffer used before, in the cache.
		body = append(body[:0], bodies[i%len(bodies)]...)
		start := time.Now()
		if _, err := p.Parse(&batch, table, body, Options{}); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
		values += len(batch.Values)
		bytes += len(body)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(values), "ns/value")
	b.ReportMetric(float64(bytes)/took.Seconds()/1e6, "MB/s")
}

// BenchmarkParseNew reads series that are met for the first time.
func BenchmarkParseNew(b *testing.B) {
	bodies := dataSets[0].bodies(100_000, 10, 10_000)
	b.ReportAllocs()
	lines := 0
	var p Parser
	var batch point.Batch
	var table *point.Table
	for i := 0; b.Loop(); i++ {
		if i%len(bodies) == 0 {
			table = point.NewTable(1)
		}
		batch.Reset()
		n, err := p.Parse(&batch, table, bodies[i%len(bodies)], Options{})
		if err != nil {
			b.Fatal(err)
		}
		lines += n
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(lines), "ns/line")
}

// BenchmarkParseOdd reads escaped strings, escaped field keys and exponents.
func BenchmarkParseOdd(b *testing.B) {
	var body []byte
	for i := range 1000 {
		body = fmt.Appendf(body, "disk\\ io,host=h%d,path=/var/a\\ b bytes\\ read=%de-3,message=\"said \\\"%d\\\"\",queue\\,depth=%di 1451606400000000000\n", i, i*37, i, i)
	}
	benchmarkParse(b, [][]byte{body})
}

// BenchmarkParseSlow reads known series by the slow path alone.
func BenchmarkParseSlow(b *testing.B) {
	bodies := dataSets[1].bodies(1000, 1, 10_000)
	table := point.NewTable(1)
	var p Parser
	var batch point.Batch
	values := 0
	for b.Loop() {
		batch.Reset()
		p.parseSlow(&batch, table, bodies[0], Options{})
		values += len(batch.Values)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(values), "ns/value")
}

// BenchmarkParseChangingFields reads lines whose fields differ from those of
// the series' previous line.
func BenchmarkParseChangingFields(b *testing.B) {
	one, two := dataSets[0], dataSets[1]
	x, y := splitLines(one.bodies(100, 1, 1000)[0]), splitLines(two.bodies(100, 1, 1000)[0])
	var body []byte
	for i := range x {
		if i/100%2 == 0 {
			body = append(body, x[i]...)
		} else {
			body = append(body, y[i]...)
		}
	}
	benchmarkParse(b, [][]byte{body})
}

// BenchmarkLineProtocolV2 is what the reference decoder takes for the same.
func BenchmarkLineProtocolV2(b *testing.B) {
	for i := range dataSets {
		d := &dataSets[i]
		b.Run(d.name, func(b *testing.B) {
			body := d.bodies(1000, 1, 10_000)[0]
			values, bytes := 0, 0
			for b.Loop() {
				dec := lineprotocol.NewDecoderWithBytes(body)
				for dec.Next() {
					dec.Measurement()
					for {
						if k, _, err := dec.NextTag(); err != nil || k == nil {
							break
						}
					}
					for {
						if k, _, err := dec.NextField(); err != nil || k == nil {
							break
						}
						values++
					}
					dec.TimeBytes()
				}
				bytes += len(body)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(values), "ns/value")
			b.ReportMetric(float64(bytes)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}
