package store

import (
	"context"
	"flag"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/wal/entry"
)

var (
	followHosts = flag.Int("follow-hosts", load.DevopsHosts, "BenchmarkFollow: hosts of the devops rows, a series each")
	followSteps = flag.Int("follow-steps", 2000, "BenchmarkFollow: rows of a host")
)

// recording is a log that hands out what it takes, before it does.
type recording struct {
	Log
	record func(*entry.Entry)
}

func (l *recording) Append(e *entry.Entry) error {
	if l.record != nil {
		l.record(e)
	}
	return l.Log.Append(e)
}

// BenchmarkFollow takes devops rows, 5,000 a request, on a single node (parse and
// Write, with its log) and on a node that follows it (decode and Follow, the log not
// counted). Flushes are part of both. It reports the CPU time of the process for a row.
func BenchmarkFollow(b *testing.B) {
	options := func() Options {
		return Options{FS: vfs.OS, RetentionInterval: -1, SyncInterval: time.Hour}
	}
	g := load.NewDevops(*followHosts, *followSteps)
	rows := float64(*followHosts * *followSteps)
	var texts, records [][]byte
	for {
		text, n := g.Next(nil, 5000)
		if n == 0 {
			break
		}
		texts = append(texts, text)
	}
	write := func(b *testing.B, record func(*entry.Entry)) (cpu time.Duration) {
		s := &testStore{t: b}
		var err error
		s.Store, err = Open(b.TempDir(), options())
		s.must(err)
		s.log = &recording{s.log, record}
		s.create("db")
		var p lineproto.Parser
		var batch point.Batch
		before := proc.CPUTime()
		for _, text := range texts {
			table, err := s.Table("db")
			s.must(err)
			batch.Reset()
			_, err = p.Parse(&batch, table, text, lineproto.Options{})
			s.must(err)
			s.must(s.Write(context.Background(), "db", "", &batch))
		}
		s.flushAll(context.Background())
		cpu = proc.CPUTime() - before
		s.must(s.Close())
		return cpu
	}
	known := &entry.Definitions{}
	write(b, func(e *entry.Entry) {
		var c entry.Encoder
		rec, err := c.AppendRecord(nil, e, known)
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, rec)
	})
	b.Run("write", func(b *testing.B) {
		cpu := time.Duration(0)
		for b.Loop() {
			cpu += write(b, nil)
		}
		b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/rows, "CPU-ns/row")
	})
	b.Run("follow", func(b *testing.B) {
		cpu := time.Duration(0)
		for b.Loop() {
			s := &testStore{t: b}
			m := &member{log: &replicated{}}
			opt := options()
			opt.Follower = true
			opt.OpenLog = func(o LogOptions) (Log, error) {
				m.opt = o
				return memberLog{m}, nil
			}
			var err error
			s.Store, err = Open(b.TempDir(), opt)
			s.must(err)
			d := entry.NewDecoder(func(database, id uint32) (string, bool) { return m.opt.Resolve(database, model.SeriesID(id)) })
			before := proc.CPUTime()
			for i, rec := range records {
				e, err := d.Record(rec)
				s.must(err)
				e.Sequence = uint64(i + 1)
				s.must(m.opt.Follow(context.Background(), e))
			}
			s.flushAll(context.Background())
			cpu += proc.CPUTime() - before
			if n := s.mu.databases[1].series.Len(); n != *followHosts {
				b.Fatalf("%d series", n)
			}
			s.must(s.Close())
		}
		b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/rows, "CPU-ns/row")
	})
}
