package entry_test

import (
	"fmt"
	"testing"

	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

var benchKinds = []string{"tsbs", "dec2", "tele", "mem"}

func BenchmarkEncode(b *testing.B) {
	for _, kind := range benchKinds {
		b.Run(kind, func(b *testing.B) {
			e := entrytest.Scrape(kind, 300, 1e18)
			values := float64(len(e.Writes[0].Values))
			var c entry.Encoder
			for b.Loop() {
				if err := c.Encode(e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/values, "ns/value")
			b.ReportMetric(float64(len(c.Payload))/values, "B/value")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, kind := range benchKinds {
		b.Run(kind, func(b *testing.B) {
			e := entrytest.Scrape(kind, 300, 1e18)
			values := float64(len(e.Writes[0].Values))
			var c entry.Encoder
			if err := c.Encode(e); err != nil {
				b.Fatal(err)
			}
			d := entry.NewDecoder(nil)
			var known entry.Definitions
			known.Append(e, c.IDs, func(block []byte, packed bool) {
				if err := d.Define(block, packed); err != nil {
					b.Fatal(err)
				}
			})
			for b.Loop() {
				if _, err := d.Decode(entry.KindPoints, 1, c.Payload); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/values, "ns/value")
		})
	}
}

// BenchmarkDefine looks up the series of 10,000 rows in the open segment's set,
// and defines them all.
func BenchmarkDefine(b *testing.B) {
	e := entrytest.Scrape("tsbs", 10_000, 1)
	var c entry.Encoder
	if err := c.Encode(e); err != nil {
		b.Fatal(err)
	}
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			var d entry.Definitions
			var dst []byte
			for b.Loop() {
				if !known {
					d.Reset()
				}
				at := dst[:0]
				d.Append(e, c.IDs, func(block []byte, _ bool) { at = append(at, block...) })
				if len(at) > 0 {
					dst = at
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/row")
			b.ReportMetric(float64(len(dst))/10_000, "B/definition")
		})
	}
}
