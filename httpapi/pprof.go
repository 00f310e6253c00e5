package httpapi

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime/pprof"
	"runtime/trace"
	"time"

	"github.com/influxdata/influxql"
	"github.com/klauspost/compress/gzip"

	"tsdbd/httpapi/encode"
	"tsdbd/query"
)

// maxProfile bounds the time that /debug/pprof/all may look.
const maxProfile = 10 * time.Minute

// pprofAll answers /debug/pprof/all: an archive with every profile, one of the
// CPU and a trace if cpu and trace say how long, and what SHOW SHARDS, STATS and
// DIAGNOSTICS tell.
func (h *Handler) pprofAll(w *response, r *request) error {
	var lengths [2]time.Duration
	for i, name := range []string{"cpu", "trace"} {
		if text := r.URL.Query().Get(name); text != "" {
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 || d > maxProfile {
				return badRequest(name + " must be a duration such as 30s, at most ten minutes")
			}
			lengths[i] = d
		}
	}
	var out bytes.Buffer
	if err := h.archive(r.Context(), &out, lengths[0], lengths[1], r.userName()); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Disposition", "attachment; filename=profiles.tar.gz")
	_, _ = w.Write(out.Bytes()) // the client is gone if this fails
	return nil
}

// archive writes the files of /debug/pprof/all.
func (h *Handler) archive(ctx context.Context, out io.Writer, cpu, traced time.Duration, user string) error {
	z := gzip.NewWriter(out)
	t := tar.NewWriter(z)
	now := time.Now()
	var file bytes.Buffer
	add := func(name string, write func(io.Writer) error) error {
		file.Reset()
		if err := write(&file); err != nil {
			return fmt.Errorf("profile %s: %w", name, err)
		}
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(file.Len()), ModTime: now}); err != nil {
			return err
		}
		_, err := t.Write(file.Bytes())
		return err
	}
	if cpu > 0 {
		if err := add("cpu.pb.gz", func(w io.Writer) error {
			if err := pprof.StartCPUProfile(w); err != nil {
				return err // one is being taken
			}
			defer pprof.StopCPUProfile()
			return sleep(ctx, cpu)
		}); err != nil {
			return err
		}
	}
	if traced > 0 {
		if err := add("trace.out", func(w io.Writer) error {
			if err := trace.Start(w); err != nil {
				return err
			}
			defer trace.Stop()
			return sleep(ctx, traced)
		}); err != nil {
			return err
		}
	}
	for _, p := range pprof.Profiles() {
		if err := add(p.Name()+".pb.gz", func(w io.Writer) error { return p.WriteTo(w, 0) }); err != nil {
			return err
		}
	}
	for _, stmt := range []struct {
		name string
		influxql.Statement
	}{{"shards.txt", &influxql.ShowShardsStatement{}}, {"stats.txt", &influxql.ShowStatsStatement{}}, {"diagnostics.txt", &influxql.ShowDiagnosticsStatement{}}} {
		if err := add(stmt.name, func(w io.Writer) error {
			o := encode.NewOutput(w, encode.Options{})
			defer o.Free()
			enc := encode.New(o, encode.Format{Media: encode.MediaCSV})
			err := h.opt.Query.Execute(ctx, &influxql.Query{Statements: influxql.Statements{stmt.Statement}}, query.ExecuteOptions{User: user}, enc.Result)
			if err == nil {
				err = enc.Finish()
			}
			if err == nil {
				err = o.Flush()
			}
			return err
		}); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// sleep waits, or returns an error when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
