package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"tsdbd/lineproto"
	"tsdbd/transfer"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

func importCommand() *cli.Command {
	var client transfer.Client
	var opt transfer.ImportOptions
	var failed string
	return &cli.Command{
		Name:      "import",
		Usage:     "send line protocol to a running server",
		UsageText: "tsdbd import [flags] [FILE...]",
		Description: `tsdbd import sends line protocol from each FILE in turn, or from standard input, to a running server. The input may be gzipped. It accepts headers as tsdbd export and the influx tools write them: "# DDL" and statements, "# DML" and points, "# CONTEXT-DATABASE:NAME" and "# CONTEXT-RETENTION-POLICY:NAME" for the points that follow.

It reports how many points were processed and refused; the exit code is 1 when some were refused.

Examples:
  tsdbd import telegraf.gz            # what tsdbd export or influx_inspect export has written
  tsdbd import day1.gz day2.gz        # several files, one after the other
  tsdbd import -db demo -precision s -failed refused.txt points.txt
                                      # bare lines with times in seconds`,
		Flags: slices.Concat(clientFlags(&client, defaultHost), []cli.Flag{
			&cli.StringFlag{Name: "db", Destination: &opt.Database, Usage: "points without a header go into the database `NAME`"},
			&cli.StringFlag{Name: "rp", Destination: &opt.RetentionPolicy, Usage: "and into its retention policy `NAME`"},
			&cli.StringFlag{Name: "precision", Destination: &opt.Precision, Value: "ns", Usage: "the unit of times: `ns|us|ms|s|m|h`"},
			&cli.IntFlag{Name: "batch", Destination: &opt.BatchBytes, Value: 1 << 20, Usage: "send `BYTES` a request"},
			&cli.IntFlag{Name: "workers", Destination: &opt.Workers, Value: 2, Usage: "send `N` requests at a time"},
			&cli.BoolFlag{Name: "ordered", Destination: &opt.Ordered, Usage: "send one request at a time, so that of two lines for the same point the later one wins"},
			&cli.StringFlag{Name: "failed", Destination: &failed, Usage: "write the lines that were refused to `FILE`"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) (err error) {
			if _, err := lineproto.Unit(opt.Precision, opt.Precision == "us"); err != nil {
				return usageError(c, "-precision is one of ns, us, ms, s, m and h, not %q", opt.Precision)
			}
			withScheme(&client)
			in, err := openImport(ctx, rest, stderr)
			if err != nil {
				return err
			}
			defer in.close()
			if failed != "" {
				file, err := os.OpenFile(failed, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
				if err != nil {
					return err
				}
				w := bufio.NewWriter(file)
				defer func() { err = errors.Join(err, w.Flush(), file.Close()) }()
				opt.Failed = w
			}
			// Later it waits for a server that is away; now that would be a riddle.
			if err := client.Ping(ctx); err != nil {
				return err
			}
			var all transfer.ImportStats
			p, begin := newProgress(stderr), time.Now()
			opt.Progress = func(s transfer.ImportStats) {
				written, refused := all.Written+s.Written, all.Failed+s.Failed
				p.show("%s%d points written, %d refused", pace(in.read.Load(), in.size, written+refused, time.Since(begin)), written, refused)
			}
			for _, r := range in.files {
				stats, err := transfer.Import(ctx, &client, r, opt)
				all.Add(stats)
				if err != nil {
					p.clear()
					fmt.Fprintf(stderr, "the import broke off after %d points\n", all.Lines)
					return err
				}
			}
			p.clear()
			return importResult(all, stdout, stderr)
		}),
	}
}

// importInput is what an import reads.
type importInput struct {
	files []io.Reader
	size  int64 // of all of them; 0 if it is not known
	read  atomic.Int64
	open  []*os.File
}

// openImport opens files by their names; without a name, and by "-", standard
// input.
func openImport(ctx context.Context, names []string, stderr io.Writer) (in *importInput, err error) {
	in = new(importInput)
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if len(names) == 0 {
		names = []string{"-"}
	}
	known := true
	for _, name := range names {
		if name == "-" {
			if term.IsTerminal(int(os.Stdin.Fd())) {
				fmt.Fprintln(stderr, "reading line protocol from standard input, Ctrl-D ends it")
			}
			in.files, known = append(in.files, in.counted(endedBy(ctx, os.Stdin))), false
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return in, err
		}
		in.open = append(in.open, f)
		st, err := f.Stat()
		switch {
		case err != nil:
			return in, err
		case st.IsDir():
			return in, fmt.Errorf("%s is a directory", name)
		case st.Mode().IsRegular():
			in.size += st.Size()
			in.files = append(in.files, in.counted(f))
		default: // a pipe, which may never give anything
			in.files, known = append(in.files, in.counted(endedBy(ctx, f))), false
		}
	}
	if !known {
		in.size = 0
	}
	return in, nil
}

func (in *importInput) close() {
	for _, f := range in.open {
		_ = f.Close() // it was read only
	}
}

// counted returns a reader of r that counts the bytes.
func (in *importInput) counted(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		in.read.Add(int64(n))
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// endedBy returns a reader of r that fails when ctx ends, also while a read of r
// waits. That read then lasts until the program ends.
func endedBy(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	context.AfterFunc(ctx, func() { _ = out.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(in, r)
		_ = in.CloseWithError(err)
	}()
	return out
}
