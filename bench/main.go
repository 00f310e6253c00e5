// Command tsdbd-load writes a benchmark workload into a running server over
// its 1.x HTTP API, asks its queries, checks every answer against what the
// generator knows, and prints the figures as Markdown tables.
//
//	tsdbd-load -url http://127.0.0.1:8086 devops      load, wait, query, check
//	tsdbd-load -url http://127.0.0.1:8086 small       requests of 1 to 10,000 rows
//	tsdbd-load -url http://127.0.0.1:8086 mixed       writes while dashboards ask
//	tsdbd-load seed -out FILE                         only write the lines
//	tsdbd-load promql -report FILE                    PromQL on tsdbd, Prometheus and VictoriaMetrics
//	tsdbd-load bench -report FILE                     start servers, measure each, compare
//	tsdbd-load cold -report FILE                      old shards in an object store
//
// The workloads are devops, month, wide, hicard, seed, telegraf, small and mixed. With -pid it also
// reads the server's CPU time and memory from /proc, with -data the size of its
// directory on disk. bench starts those of -servers that are installed, one after
// another, on free ports and empty directories. -scale shrinks the workloads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"tsdbd/internal/testkit/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	scale       float64
	rounds      int
	hosts       int
	hours       float64
	each        time.Duration
	steady      time.Duration

	// of bench
	servers   string
	workloads string
	report    string
	tmp       string
	profiles  string

	// of promql
	sizes, only string

	// of null-wal
	listen string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("tsdbd-load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: tsdbd-load [flags] devops|month|wide|hicard|seed|telegraf|small|mixed|bench|promql|cold|null-wal [flags]")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.url, "url", "http://127.0.0.1:8086", "server")
	flags.StringVar(&o.database, "db", "load", "database; it is dropped and created again")
	flags.IntVar(&o.connections, "connections", 2, "requests in flight")
	flags.IntVar(&o.rows, "rows", 10_000, "lines of a request")
	flags.IntVar(&o.queries, "queries", 200, "most times each query is asked; slow ones are asked less often")
	flags.DurationVar(&o.settle, "settle", time.Minute, "longest wait for the server to become quiet before the queries")
	flags.StringVar(&o.out, "out", "", "write the lines to this file instead")
	flags.IntVar(&o.pid, "pid", 0, "process id of the server")
	flags.StringVar(&o.data, "data", "", "data directory of the server")
	flags.BoolVar(&o.keep, "keep", false, "skip the load, ask a server that has it")
	flags.Float64Var(&o.scale, "scale", 1, "share of a workload's size, up to 1; hicard: up to 10")
	flags.IntVar(&o.rounds, "rounds", load.HicardRounds, "hicard: rows of a series")
	flags.IntVar(&o.hosts, "hosts", 50, "telegraf: number of hosts")
	flags.Float64Var(&o.hours, "hours", 24, "telegraf: hours of data")
	flags.DurationVar(&o.each, "each", 2*time.Second, "small: time for one size of request; mixed: for ingest alone, and during queries")
	flags.DurationVar(&o.steady, "steady", 10*time.Second, "small: time for requests of ten rows without a pause, merges included; minutes tell more")
	flags.StringVar(&o.servers, "servers", "tsdbd=bin/tsdbd,influxd,victoria-metrics,prometheus,null-wal", "bench, promql, cold: what to start, if it is installed: NAME or NAME=PATH of each")
	flags.StringVar(&o.workloads, "workloads", "devops,month,wide,seed,hicard,small", "bench: what to measure")
	flags.StringVar(&o.report, "report", "", "bench, promql, cold: write the report to this file")
	flags.StringVar(&o.tmp, "tmp", "", "bench, promql, cold: where to make the data directories")
	flags.StringVar(&o.profiles, "profiles", "", "bench: write CPU profiles of tsdbd to this directory; it has to serve them")
	flags.StringVar(&o.sizes, "sizes", "", "promql: numbers of the sizes to measure; empty: all")
	flags.StringVar(&o.only, "only", "", "promql: measure the queries whose name has this text; cold: the parts, of year, series and tails; empty: all")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8086", "null-wal: address")
	if err := flags.Parse(args); err != nil {
		return err
	}
	name := flags.Arg(0)
	if flags.NArg() > 1 { // flags after the workload's name
		if err := flags.Parse(flags.Args()[1:]); err != nil {
			return err
		}
		if flags.NArg() > 0 {
			return fmt.Errorf("unexpected argument %q", flags.Arg(0))
		}
	}
	most := 1.0
	if name == "hicard" {
		most = 10
	}
	if o.scale <= 0 || o.scale > most {
		return fmt.Errorf("-scale is above 0 and at most %v", most)
	}
	if o.rounds < 1 {
		return errors.New("-rounds is at least 1")
	}
	switch name {
	case "bench":
		return compare(ctx, &o, stdout, stderr)
	case "promql":
		return promql(ctx, &o, stdout, stderr)
	case "cold":
		return cold(ctx, &o, stdout, stderr)
	case "cold-transfer": // of cold
		return runTransfer(ctx, o.url, o.data, stdout)
	case "small":
		return single(ctx, &o, nil, stdout)
	case "mixed":
		return mixed(ctx, &o, stdout)
	case "null-wal":
		return serveNullWAL(ctx, o.listen, o.data)
	}
	w, err := newWorkload(name, &o)
	if err != nil {
		flags.Usage()
		return err
	}
	if o.out != "" {
		return writeFile(o.out, w)
	}
	return single(ctx, &o, w, stdout)
}

// single measures a server that runs; w is nil for small requests.
func single(ctx context.Context, o *options, w workload, out io.Writer) error {
	t := &target{
		client: newClient(o.url, o.database, max(o.connections, 8)), pid: o.pid, data: o.data,
		log: func() int64 { return diskBytes(filepath.Join(o.data, "wal")) },
	}
	defer t.client.close()
	r := &result{product: &product{name: "server"}}
	if w == nil {
		if err := t.create(ctx); err != nil {
			return err
		}
		err := smallLoad(ctx, t, o, func(f *smallFigures) { r.small = append(r.small, f) })
		return errors.Join(err, writeSmall(out, []*result{r}))
	}
	phases := collect(w, o.rows)
	var err error
	if !o.keep {
		if r.load, err = t.load(ctx, o, w, phases); err != nil {
			return err
		}
		if err := writeLoad(out, []*result{r}); err != nil {
			return err
		}
	}
	r.queries, err = t.queries(ctx, o, w)
	err = errors.Join(err, writeQueries(out, []*result{r}))
	if r.wrong() {
		err = errors.Join(err, errors.New("a wrong answer"))
	}
	return err
}

// mixed measures ingest during queries on a server that runs.
func mixed(ctx context.Context, o *options, out io.Writer) error {
	t := &target{client: newClient(o.url, o.database, 1)}
	defer t.client.close()
	if err := t.create(ctx); err != nil {
		return err
	}
	f, err := mixedLoad(ctx, t.client, o.rows, o.each)
	if err != nil {
		return err
	}
	return writeMixed(out, f)
}

func writeFile(name string, w workload) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
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
