// Command tsdbd-load writes a benchmark workload into a running server over
// its 1.x HTTP API, asks its queries, checks every answer against what the
// generator knows, and prints the figures as a Markdown table.
//
//	tsdbd-load -url http://127.0.0.1:8086 seed        load, wait, query, check
//	tsdbd-load -url http://127.0.0.1:8086 telegraf
//	tsdbd-load seed -out FILE                         only write the lines
//
// With -pid it also reads the server's CPU time and memory from /proc, with
// -data the size of its directory on disk.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tsdbd-load:", err)
		os.Exit(1)
	}
}

// options of a run.
type options struct {
	url         string
	database    string
	connections int
	rows        int // per request
	queries     int
	settle      time.Duration
	out         string
	pid         int
	data        string
	keep        bool
	hosts       int
	hours       float64
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("tsdbd-load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.url, "url", "http://127.0.0.1:8086", "server")
	flags.StringVar(&o.database, "db", "load", "database; it is dropped and made anew")
	flags.IntVar(&o.connections, "connections", 2, "requests in flight")
	flags.IntVar(&o.rows, "rows", 10_000, "lines of a request")
	flags.IntVar(&o.queries, "queries", 7, "times each query is asked; the first answer is checked")
	flags.DurationVar(&o.settle, "settle", 0, "longest wait for the server's disk to become quiet before the queries")
	flags.StringVar(&o.out, "out", "", "write the lines to this file instead")
	flags.IntVar(&o.pid, "pid", 0, "process id of the server")
	flags.StringVar(&o.data, "data", "", "data directory of the server")
	flags.BoolVar(&o.keep, "keep", false, "skip the load, ask a server that has it")
	flags.IntVar(&o.hosts, "hosts", 50, "telegraf: number of hosts")
	flags.Float64Var(&o.hours, "hours", 24, "telegraf: hours of data")
	if err := flags.Parse(args); err != nil {
		return err
	}
	name := flags.Arg(0)
	if flags.NArg() > 1 { // flags after the workload's name
		if err := flags.Parse(flags.Args()[1:]); err != nil {
			return err
		}
	}
	w, err := newWorkload(name, &o)
	if err != nil {
		flags.Usage()
		return err
	}
	if o.out != "" {
		return writeFile(o.out, w)
	}
	return bench(ctx, &o, w, stdout)
}

func writeFile(name string, w workload) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	var buf []byte
	for {
		var n int
		if buf, n = w.next(buf[:0], 10_000); n == 0 {
			return nil
		}
		if _, err := f.Write(buf); err != nil {
			return err
		}
	}
}
