package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"tsdbd/backup"
	"tsdbd/lineproto"
)

func importCommand() *command {
	return &command{
		name:    "import",
		summary: "send line protocol to a running server",
		about: `tsdbd import sends line protocol from FILE, or from standard input, to a running server. The input may be gzipped. Headers as tsdbd export and the influx tools write them are understood: "# DDL" and statements, "# DML" and points, "# CONTEXT-DATABASE:NAME" and "# CONTEXT-RETENTION-POLICY:NAME" for the points that follow.

It tells how many points were processed and refused; the exit code is 1 when some were refused.`,
		usage:    []string{"[flags] [FILE]"},
		operands: "FILE",
		examples: []example{
			{"tsdbd import telegraf.gz", "what tsdbd export or influx_inspect export has written"},
			{"tsdbd import -db demo -precision s -failed refused.txt points.txt", "bare lines with times in seconds"},
		},
		define: defineImport,
	}
}

func defineImport(f *commandFlags) action {
	client := f.clientFlags(defaultHost)
	var opt backup.ImportOptions
	f.StringVar(&opt.Database, "db", "", "points without a header go into the database `NAME`")
	f.StringVar(&opt.RetentionPolicy, "rp", "", "and into its retention policy `NAME`")
	f.StringVar(&opt.Precision, "precision", "ns", "the unit of times: `ns|us|ms|s|m|h`")
	f.IntVar(&opt.BatchBytes, "batch", 1<<20, "send `BYTES` a request")
	f.IntVar(&opt.Workers, "workers", 2, "send `N` requests at a time")
	f.BoolVar(&opt.Ordered, "ordered", false, "send one request at a time, so that of two lines for the same point the later one wins")
	failed := f.String("failed", "", "write the lines that were refused to `FILE`")
	return func(ctx context.Context, rest []string, stdout, stderr io.Writer) (err error) {
		if len(rest) > 1 {
			return f.usageError("import takes one file")
		}
		if _, err := lineproto.Unit(opt.Precision, opt.Precision == "us"); err != nil {
			return f.usageError("-precision is one of ns, us, ms, s, m and h, not %q", opt.Precision)
		}
		f.complete(client)
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
		// Later it waits for a server that is away; now that would be a riddle.
		if err := client.Ping(ctx); err != nil {
			return err
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
}
