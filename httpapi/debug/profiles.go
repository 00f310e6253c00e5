package debug

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	httppprof "net/http/pprof"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// ProfilePath is the path that Profile answers below.
const ProfilePath = "/debug/pprof/"

// Profile answers below ProfilePath, as package net/http/pprof does.
func Profile(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, ProfilePath) {
	case "cmdline":
		httppprof.Cmdline(w, r)
	case "profile":
		httppprof.Profile(w, r)
	case "symbol":
		httppprof.Symbol(w, r)
	case "trace":
		httppprof.Trace(w, r)
	default:
		httppprof.Index(w, r)
	}
}

// File is a file of an archive.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// Archive returns a compressed tar archive with a profile of the CPU and a trace,
// each if it is to take a time, every other profile, and the files.
func Archive(ctx context.Context, cpu, traced time.Duration, files ...File) ([]byte, error) {
	var all []File
	if cpu > 0 {
		all = append(all, File{"cpu.pb.gz", func(w io.Writer) error {
			if err := pprof.StartCPUProfile(w); err != nil {
				return err // one is being taken
			}
			defer pprof.StopCPUProfile()
			return sleep(ctx, cpu)
		}})
	}
	if traced > 0 {
		all = append(all, File{"trace.out", func(w io.Writer) error {
			if err := trace.Start(w); err != nil {
				return err
			}
			defer trace.Stop()
			return sleep(ctx, traced)
		}})
	}
	for _, p := range pprof.Profiles() {
		all = append(all, File{p.Name() + ".pb.gz", func(w io.Writer) error { return p.WriteTo(w, 0) }})
	}
	var out, body bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, f := range append(all, files...) {
		body.Reset()
		if err := f.Write(&body); err != nil {
			return nil, fmt.Errorf("profile %s: %w", f.Name, err)
		}
		if err := t.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o600, Size: int64(body.Len()), ModTime: time.Now()}); err != nil {
			return nil, err
		}
		if _, err := t.Write(body.Bytes()); err != nil {
			return nil, err
		}
	}
	err := errors.Join(t.Close(), z.Close())
	return out.Bytes(), err
}
