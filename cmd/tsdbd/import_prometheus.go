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

// prometheusImport is an import of the past of Prometheus.
type prometheusImport struct {
	client, from transfer.Client
	opt          prometheus.Options
	match        []string
	failed       string
	dry          bool
}

func importPrometheusCommand() *cli.Command {
	m := &prometheusImport{opt: prometheus.Options{Range: model.AllTime}}
	return &cli.Command{
		Name:        "prometheus",
		Usage:       "send the past of Prometheus to a running server",
		UsageText:   "tsdbd import prometheus [flags] DIR\ntsdbd import prometheus [flags] -start TIME URL",
		Description: importPrometheusDescription,
		Flags: slices.Concat(clientFlags(&m.client, defaultHost), []cli.Flag{
			&cli.StringFlag{Name: "db", Destination: &m.opt.Database, Value: "prometheus", Usage: "into the database `NAME`, which is made if it is not there"},
			&cli.StringFlag{Name: "rp", Destination: &m.opt.RetentionPolicy, Usage: "into its retention policy `NAME`"},
			&cli.StringSliceFlag{Name: "match", Destination: &m.match, Usage: "only series that a `SELECTOR` of PromQL chooses; may be given several times"},
			&cli.GenericFlag{Name: "start", Value: timeFlag{&m.opt.Range.Min}, Usage: "only from `TIME` on: RFC 3339, a date, or nanoseconds"},
			&cli.GenericFlag{Name: "end", Value: timeFlag{&m.opt.Range.Max}, Usage: "only up to `TIME`, which is included"},
			&cli.StringFlag{Name: "journal", Destination: &m.opt.Journal, Usage: "note finished parts in `FILE`, and skip those that it has"},
			&cli.IntFlag{Name: "workers", Destination: &m.opt.Import.Workers, Value: 2, Usage: "send `N` requests at a time"},
			&cli.StringFlag{Name: "failed", Destination: &m.failed, Usage: "write the points that the server refused to `FILE`"},
			&cli.StringFlag{Name: "from-user", Destination: &m.from.Username, Usage: "log in to the Prometheus of the URL as `NAME`"},
			&cli.StringFlag{Name: "from-password", Destination: &m.from.Password, Sources: cli.EnvVars("TSDBD_FROM_PASSWORD"), Usage: "with this `PASSWORD`; the variable shows in no list of processes"},
			&cli.BoolFlag{Name: "dry-run", Destination: &m.dry, Usage: "list the blocks of a directory, and send nothing"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			if len(rest) != 1 {
				return usageError(c, "import prometheus takes one directory or URL")
			}
			return m.run(ctx, c, rest[0], stdout, stderr)
		}),
	}
}

const importPrometheusDescription = `tsdbd import prometheus reads the blocks of Prometheus' storage in DIR and sends their samples, native histograms and stale marks to a running server. DIR is a snapshot, the data directory of a Prometheus that runs or not, or one block. A snapshot also has the newest hours, which a data directory has in its log only.

From a URL, it asks a running Prometheus by remote read: metric by metric, a day at a time, from -start on.

An import that ends early continues where it stopped when it is repeated with the same -journal. At the end the server is asked for counts and sums of every metric, and what differs is named. The exit code is 1 when samples were refused or damaged, or when the server has fewer of a metric than were read.

Examples:
  curl -X POST http://127.0.0.1:9090/api/v1/admin/tsdb/snapshot   # needs --web.enable-admin-api
  tsdbd import prometheus -dry-run /var/lib/prometheus/snapshots/20260105T120000Z-1a2b3c
  tsdbd import prometheus -journal moved.journal /var/lib/prometheus/snapshots/20260105T120000Z-1a2b3c
  tsdbd import prometheus -start 2026-01-01 http://prometheus:9090
  tsdbd import prometheus -db metrics -start 2026-01-01 -match '{job="node"}' /var/lib/prometheus`

// run imports from a directory or a URL.
func (m *prometheusImport) run(ctx context.Context, c *cli.Command, place string, stdout, stderr io.Writer) (err error) {
	for _, text := range m.match {
		s, err := block.ParseSelector(text)
		if err != nil {
			return usageError(c, "-match %s: %v", text, err)
		}
		m.opt.Match = append(m.opt.Match, s)
	}
	var blocks *block.Directory
	if strings.Contains(place, "://") {
		m.from.URL = place
		switch {
		case m.dry:
			return usageError(c, "-dry-run is for a directory")
		case m.opt.Range.Min == model.MinTime:
			return usageError(c, "-start says where the past of %s begins", m.from.URL)
		}
		m.opt.Range.Max = min(m.opt.Range.Max, time.Now().UnixNano())
	} else if blocks, err = findBlocks(place, m.opt.Range, stderr); err != nil {
		return err
	} else if m.dry {
		return listBlocks(stdout, blocks)
	}
	withScheme(&m.client)
	if err := m.client.Ping(ctx); err != nil {
		return err
	}
	if m.failed != "" {
		refused, rerr := transfer.OpenRefused(m.failed, true)
		if rerr != nil {
			return rerr
		}
		defer func() { err = errors.Join(err, refused.Close()) }()
		m.opt.Import.Failed = refused
	}
	p, begin := newProgress(stderr), time.Now()
	total := int64(0) // not known of a server
	if blocks != nil {
		total = samplesOf(blocks)
	}
	m.opt.Note = func(text string) {
		p.clear()
		fmt.Fprintln(stderr, printable(text))
	}
	m.opt.Progress = func(r prometheus.Result) {
		p.show("%s%d samples written, %d refused", pace(r.Samples, total, r.Stats.Written, time.Since(begin)), r.Stats.Written, r.Refused+r.Stats.Failed)
	}
	var result prometheus.Result
	if blocks != nil {
		result, err = prometheus.Blocks(ctx, &m.client, blocks, m.opt)
	} else {
		result, err = prometheus.Server(ctx, &m.client, &m.from, m.opt)
	}
	p.clear()
	for _, e := range result.Stats.Errors {
		fmt.Fprintln(stderr, printable(e))
	}
	if err != nil {
		if m.opt.Journal != "" {
			err = fmt.Errorf("%w; repeat the same command to continue after the finished parts", err)
		}
		return err
	}
	if _, err := fmt.Fprintf(stdout, "%d samples read, %d written, %d refused, %d written before\n", result.Samples, result.Stats.Written, result.Refused+result.Stats.Failed, result.Known); err != nil {
		return err
	}
	there, err := result.Compare(ctx, &m.client, m.opt.Range)
	if err != nil {
		return fmt.Errorf("compare with the server: %w", err)
	}
	if err := printCompared(stdout, &result, there); err != nil {
		return err
	}
	return errors.Join(result.Incomplete(), result.Fewer(there))
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
