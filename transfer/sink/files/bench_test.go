package files_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"tsdbd/exchange/rows"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/store"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/files"
)

// made is a reader of series that look like those of servers: ten tags, one of which has
// as many values as there are series divided by ten.
type made struct {
	series, rows int // rows of each series
	start, step  int64
	fields       []column.Field

	next int
	run  rows.Run
}

func (m *made) Next(context.Context) (*rows.Run, error) {
	if m.run.Times == nil {
		m.run.Fields = m.fields
		for i := range m.rows {
			m.run.Times = append(m.run.Times, m.start+int64(i)*m.step)
		}
		for f := range m.fields {
			v := column.Vector{Type: m.fields[f].Type}
			for i := range m.rows {
				v.Floats = append(v.Floats, float64((i*7+f*13)%1000)/10)
				v.Ints = append(v.Ints, int64(i*f))
			}
			if v.Type == model.Float {
				v.Ints = nil
			} else {
				v.Floats = nil
			}
			m.run.Cols = append(m.run.Cols, v)
		}
	}
	if m.next == m.series {
		return nil, io.EOF
	}
	n := m.next
	m.next++
	m.run.Key = fmt.Sprintf("cpu,arch=x64,datacenter=eu-1a,hostname=host_%07d,os=Ubuntu16.10,rack=%02d,region=eu-1,service=%d,team=SF", n, n%100, n%20)
	for f := range m.run.Cols {
		if v := &m.run.Cols[f]; len(v.Floats) > 0 {
			v.Floats[n%len(v.Floats)] += 0.1
		}
	}
	return &m.run, nil
}

func (m *made) Close() error { return nil }

// peakRSS returns the largest memory of the process in MiB, 0 if the system does not tell.
func peakRSS() float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kb float64
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscanf(strings.TrimSpace(text), "%f", &kb)
		}
	}
	return kb / 1024
}

// BenchmarkInto loads shards of rows that are made up.
func BenchmarkInto(b *testing.B) {
	ten := make([]column.Field, 10)
	for i := range ten {
		ten[i] = column.Field{Key: fmt.Sprintf("usage_%d", i), Type: model.Float}
	}
	for _, c := range []struct {
		name                 string
		shards, series, rows int
		fields               []column.Field
	}{
		{"devops", 4, 1000, 360, ten},
		{"10M", 1, 10_000_000, 1, ten[:1]},
	} {
		b.Run(c.name, func(b *testing.B) {
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(320 << 20))
			for b.Loop() {
				dir := b.TempDir()
				st, err := store.Open(dir, store.Options{RetentionInterval: -1})
				if err != nil {
					b.Fatal(err)
				}
				src := &mover.List{All: mover.Catalog{Databases: []*meta.Database{{Name: "d", DefaultRetentionPolicy: "autogen", RetentionPolicies: []*meta.RetentionPolicy{{Name: "autogen", ShardGroupDuration: 7 * 24 * time.Hour, ReplicaN: 1}}}}}}
				for n := range c.shards {
					at := int64(n) * int64(7*24*time.Hour)
					start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano() + at
					src.Items = append(src.Items, &mover.Part{
						Name: mover.Shard(uint64(n), "d", "autogen"), Database: "d", Policy: "autogen", ID: uint64(n), Times: model.TimeRange{Min: start, Max: start + int64(c.rows)*1e10},
						Values: int64(c.series * c.rows * len(c.fields)),
						Open: func(context.Context, model.TimeRange, mover.Refuse) (rows.Reader, error) {
							return &made{series: c.series, rows: c.rows, start: start, step: 1e10, fields: c.fields}, nil
						},
					})
				}
				begin := time.Now()
				res, err := mover.Run(b.Context(), src, files.New(st), mover.Options{Workers: 2})
				if err != nil {
					b.Fatal(err)
				}
				took := time.Since(begin)
				if d := res.Missing(); len(d) > 0 || res.Values != int64(c.shards*c.series*c.rows*len(c.fields)) {
					b.Fatalf("%+v, %d values", d, res.Values)
				}
				b.ReportMetric(float64(res.Values)/took.Seconds()/1e6, "M-values/s")
				b.ReportMetric(float64(res.Bytes)/float64(res.Values), "bytes/value")
				b.ReportMetric(peakRSS(), "MiB-peak")
				if err := st.Close(); err != nil {
					b.Fatal(err)
				}
				runtime.GC()
			}
		})
	}
}
