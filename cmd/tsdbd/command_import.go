package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"tsdbd/backup"
)

const importHelp = `tsdbd import sends line protocol to a running server. The input may be gzipped.
Headers as tsdbd export and the influx tools write them are understood: "# DDL"
and statements, "# DML" and points, "# CONTEXT-DATABASE:NAME" and
"# CONTEXT-RETENTION-POLICY:NAME" for the points that follow. It tells how many
points were processed and refused; the exit code is 1 when some were refused.

Usage: tsdbd import [flags] [FILE]     without a FILE, from standard input

Flags:
` + clientHelp + `  -db NAME             where points without a header go
  -rp NAME             and into which retention policy
  -precision UNIT      of the times: ns (default), us, ms, s, m, h
  -batch BYTES         size of a request (default 1048576)
  -workers N           requests at a time (default 2)
  -ordered             one request at a time, so that of two lines for the same
                       point the later one wins
  -failed FILE         write the lines that were refused to a file
`

func runImport(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := newFlags("import", importHelp, stdout)
	client := f.clientFlags(defaultHost)
	var opt backup.ImportOptions
	f.StringVar(&opt.Database, "db", "", "")
	f.StringVar(&opt.RetentionPolicy, "rp", "", "")
	f.StringVar(&opt.Precision, "precision", "", "")
	f.IntVar(&opt.BatchBytes, "batch", 0, "")
	f.IntVar(&opt.Workers, "workers", 0, "")
	f.BoolVar(&opt.Ordered, "ordered", false, "")
	failed := f.String("failed", "", "")
	rest, err := f.parse(args)
	if err != nil {
		return helped(err)
	}
	if len(rest) > 1 {
		return f.usageError("import takes one file")
	}
	normalise(client)
	var in io.Reader = os.Stdin
	if len(rest) == 1 && rest[0] != "-" {
		file, err := os.Open(rest[0])
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	if *failed != "" {
		file, err := os.OpenFile(*failed, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		w := bufio.NewWriter(file)
		defer func() { err = errors.Join(err, w.Flush(), file.Close()) }()
		opt.Failed = w
	}
	p := newProgress(stderr)
	opt.Progress = func(s backup.ImportStats) { p.show("%d points written, %d refused", s.Written, s.Failed) }
	stats, err := backup.Import(ctx, client, in, opt)
	p.clear()
	if err != nil {
		fmt.Fprintf(stderr, "the import broke off after %d points\n", stats.Lines)
		return err
	}
	return importResult(stats, stdout, stderr)
}
