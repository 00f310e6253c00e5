package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/model"
	"tsdbd/prom/block"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/prometheus"
)

func importPrometheusCommand() *cli.Command {
	var client, from transfer.Client
	opt := prometheus.Options{Range: model.AllTime}
	var match []string
	var failed string
	var dry bool
	return &cli.Command{
		Name:      "prometheus",
		Usage:     "send the past of Prometheus to a running server",
		UsageText: "tsdbd import prometheus [flags] DIR\n   tsdbd import prometheus [flags] -start TIME URL",
		Description: `tsdbd import prometheus reads the blocks of Prometheus' storage in DIR and sends their samples, native histograms and stale marks to a running server. DIR is a snapshot, the data directory of a Prometheus that runs or not, or one block. A snapshot also has the newest hours, which a data directory has in its log only.

From a URL, it asks a running Prometheus by remote read: metric by metric, a day at a time, from -start on.

An import that ends early goes on where it stopped when it is repeated with the same -journal. At the end the server is asked for counts and sums of every metric, and what differs is named. The exit code is 1 when samples were refused or damaged, or when the server has fewer of a metric than were read.

Examples:
  curl -X POST http://127.0.0.1:9090/api/v1/admin/tsdb/snapshot   # needs --web.enable-admin-api
  tsdbd import prometheus -dry-run /var/lib/prometheus/snapshots/20260105T120000Z-1a2b3c
  tsdbd import prometheus -journal moved.journal /var/lib/prometheus/snapshots/20260105T120000Z-1a2b3c
  tsdbd import prometheus -start 2026-01-01 http://prometheus:9090
  tsdbd import prometheus -db metrics -start 2026-01-01 -match '{job="node"}' /var/lib/prometheus`,
		Flags: slices.Concat(clientFlags(&client, defaultHost), []cli.Flag{
			&cli.StringFlag{Name: "db", Destination: &opt.Database, Value: "prometheus", Usage: "into the database `NAME`, which is made if it is not there"},
			&cli.StringFlag{Name: "rp", Destination: &opt.RetentionPolicy, Usage: "into its retention policy `NAME`"},
			&cli.StringSliceFlag{Name: "match", Destination: &match, Usage: "only series that a `SELECTOR` of PromQL chooses; may be given several times"},
			&cli.GenericFlag{Name: "start", Value: timeFlag{&opt.Range.Min}, Usage: "only from `TIME` on: RFC 3339, a date, or nanoseconds"},
			&cli.GenericFlag{Name: "end", Value: timeFlag{&opt.Range.Max}, Usage: "only up to `TIME`, which is included"},
			&cli.StringFlag{Name: "journal", Destination: &opt.Journal, Usage: "note finished parts in `FILE`, and skip those that it has"},
			&cli.IntFlag{Name: "workers", Destination: &opt.Import.Workers, Value: 2, Usage: "send `N` requests at a time"},
			&cli.StringFlag{Name: "failed", Destination: &failed, Usage: "write the points that the server refused to `FILE`"},
			&cli.StringFlag{Name: "from-user", Destination: &from.Username, Usage: "log in to the Prometheus of the URL as `NAME`"},
			&cli.StringFlag{Name: "from-password", Destination: &from.Password, Sources: cli.EnvVars("TSDBD_FROM_PASSWORD"), Usage: "with this `PASSWORD`; the variable shows in no list of processes"},
			&cli.BoolFlag{Name: "dry-run", Destination: &dry, Usage: "list the blocks of a directory, and send nothing"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) (err error) {
			if len(rest) != 1 {
				return usageError(c, "import prometheus takes one directory or URL")
			}
			for _, text := range match {
				s, err := block.ParseSelector(text)
				if err != nil {
					return usageError(c, "-match %s: %v", text, err)
				}
				opt.Match = append(opt.Match, s)
			}
			var blocks *block.Directory
			if strings.Contains(rest[0], "://") {
				from.URL = rest[0]
				switch {
				case dry:
					return usageError(c, "-dry-run is for a directory")
				case opt.Range.Min == model.MinTime:
					return usageError(c, "-start says where the past of %s begins", from.URL)
				}
				opt.Range.Max = min(opt.Range.Max, time.Now().UnixNano())
			} else if blocks, err = findBlocks(rest[0], opt.Range, stderr); err != nil {
				return err
			} else if dry {
				return listBlocks(stdout, blocks)
			}
			withScheme(&client)
			if err := client.Ping(ctx); err != nil {
				return err
			}
			if failed != "" {
				refused, err := transfer.OpenRefused(failed, true)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, refused.Close()) }()
				opt.Import.Failed = refused
			}
			p, begin := newProgress(stderr), time.Now()
			total := int64(0) // not known of a server
			if blocks != nil {
				total = samplesOf(blocks)
			}
			opt.Note = func(text string) {
				p.clear()
				fmt.Fprintln(stderr, printable(text))
			}
			opt.Progress = func(r prometheus.Result) {
				p.show("%s%d samples written, %d refused", pace(r.Samples, total, r.Stats.Written, time.Since(begin)), r.Stats.Written, r.Refused+r.Stats.Failed)
			}
			var result prometheus.Result
			if blocks != nil {
				result, err = prometheus.Blocks(ctx, &client, blocks, opt)
			} else {
				result, err = prometheus.Server(ctx, &client, &from, opt)
			}
			p.clear()
			for _, e := range result.Stats.Errors {
				fmt.Fprintln(stderr, printable(e))
			}
			if err != nil {
				if opt.Journal != "" {
					err = fmt.Errorf("%w; the same command goes on behind the finished parts", err)
				}
				return err
			}
			if _, err := fmt.Fprintf(stdout, "%d samples read, %d written, %d refused, %d written before\n", result.Samples, result.Stats.Written, result.Refused+result.Stats.Failed, result.Known); err != nil {
				return err
			}
			there, err := result.Compare(ctx, &client, opt.Range)
			if err != nil {
				return fmt.Errorf("compare with the server: %w", err)
			}
			if err := printCompared(stdout, &result, there); err != nil {
				return err
			}
			return errors.Join(result.Incomplete(), result.Fewer(there))
		}),
	}
}

// findBlocks returns the blocks of a directory with samples within times.
func findBlocks(dir string, times model.TimeRange, stderr io.Writer) (*block.Directory, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	blocks, err := block.List(dir)
	if err != nil {
		return nil, err
	}
	for _, note := range blocks.Notes {
		fmt.Fprintln(stderr, printable(note))
	}
	blocks.Blocks = slices.DeleteFunc(blocks.Blocks, func(b block.Block) bool { return !b.Range.Overlaps(times) })
	if len(blocks.Blocks) == 0 {
		return nil, errors.New("no block has samples between -start and -end")
	}
	return blocks, nil
}

// printCompared prints which metrics differ. A list of all of them would be long.
func printCompared(w io.Writer, r *prometheus.Result, there compare.Totals) error {
	differ := compare.Totals{}
	for _, d := range compare.Differences(r.Totals, there) {
		differ[d.Name] = r.Totals[d.Name]
	}
	if _, err := fmt.Fprintf(w, "%d metrics with %d values are equal at the source and at the server\n", len(r.Totals)-len(differ), r.Totals.Values()-differ.Values()); err != nil {
		return err
	}
	if len(differ) == 0 {
		return nil
	}
	now := compare.Totals{}
	for name := range differ {
		if m := there[name]; m != nil {
			now[name] = m
		}
	}
	fmt.Fprintln(w, "These differ. Blocks that overlap have samples twice, and the server may have had samples before.")
	return compare.Table(w, "source", "server", differ, now)
}

// listBlocks prints what a directory has.
func listBlocks(w io.Writer, d *block.Directory) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "block\tfrom\tto\tseries\tsamples\tsize")
	bytes := int64(0)
	for _, b := range d.Blocks {
		bytes += b.Bytes
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\n", b.ID, dateOf(b.Range.Min), dateOf(b.Range.Max), b.Series, b.Samples, mib(b.Bytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	n := samplesOf(d)
	_, err := fmt.Fprintf(w, "%d blocks, %d samples, %s; about %s at %d samples/s\n", len(d.Blocks), n, mib(bytes), (time.Duration(n/usualRate) * time.Second).String(), usualRate)
	return err
}

// usualRate is how many samples a second two cores send and store.
const usualRate = 500_000

func dateOf(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }

func samplesOf(d *block.Directory) (n int64) {
	for _, b := range d.Blocks {
		n += b.Samples
	}
	return n
}
