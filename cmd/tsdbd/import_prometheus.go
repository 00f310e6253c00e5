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

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/prom/block"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/mover"
	sinkserver "tsdbd/transfer/sink/server"
	"tsdbd/transfer/source/prometheus"
)

// prometheusImport is an import of the past of Prometheus.
type prometheusImport struct {
	move
	from    exchange.Client
	past    prometheus.Options
	match   []string
	workers int
}

func importPrometheusCommand() *cli.Command {
	m := &prometheusImport{past: prometheus.Options{Range: model.AllTime}}
	return &cli.Command{
		Name:        "prometheus",
		Usage:       "send the past of Prometheus to a running server",
		UsageText:   "tsdbd import prometheus [flags] DIR\ntsdbd import prometheus [flags] -start TIME URL",
		Description: importPrometheusDescription,
		Flags: slices.Concat(m.flags("note finished parts in `FILE`, and skip those that it has"), []cli.Flag{
			&cli.StringFlag{Name: "db", Destination: &m.past.Database, Value: "prometheus", Usage: "into the database `NAME`, which is made if it is not there"},
			&cli.StringFlag{Name: "rp", Destination: &m.past.RetentionPolicy, Usage: "into its retention policy `NAME`"},
			&cli.StringSliceFlag{Name: "match", Destination: &m.match, Usage: "only series that a `SELECTOR` of PromQL chooses; may be given several times"},
			&cli.GenericFlag{Name: "start", Value: timeFlag{&m.past.Range.Min}, Usage: "only from `TIME` on: RFC 3339, a date, or nanoseconds"},
			&cli.GenericFlag{Name: "end", Value: timeFlag{&m.past.Range.Max}, Usage: "only up to `TIME`, which is included"},
			&cli.IntFlag{Name: "workers", Destination: &m.workers, Value: 2, Usage: "send `N` requests at a time"},
			&cli.StringFlag{Name: "from-user", Destination: &m.from.Username, Usage: "log in to the Prometheus of the URL as `NAME`"},
			&cli.StringFlag{Name: "from-password", Destination: &m.from.Password, Sources: cli.EnvVars("TSDBD_FROM_PASSWORD"), Usage: "with this `PASSWORD`; the variable shows in no list of processes"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			if len(rest) != 1 {
				return usageError(c, "import prometheus takes one directory or URL")
			}
			m.start(stdout, stderr)
			return m.run(ctx, c, rest[0])
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
func (m *prometheusImport) run(ctx context.Context, c *cli.Command, place string) (err error) {
	for _, text := range m.match {
		s, err := block.ParseSelector(text)
		if err != nil {
			return usageError(c, "-match %s: %v", text, err)
		}
		m.past.Match = append(m.past.Match, s)
	}
	var blocks *block.Directory
	if strings.Contains(place, "://") {
		m.from.URL = place
		switch {
		case m.dry:
			return usageError(c, "-dry-run is for a directory")
		case m.past.Range.Min == model.MinTime:
			return usageError(c, "-start says where the past of %s begins", m.from.URL)
		}
		m.past.Range.Max = min(m.past.Range.Max, time.Now().UnixNano())
	} else if blocks, err = findBlocks(place, m.past.Range, m.stderr); err != nil {
		return err
	} else if m.dry {
		return listBlocks(m.stdout, blocks)
	}
	withScheme(&m.client)
	if err := m.client.Ping(ctx); err != nil {
		return err
	}
	if m.past.RetentionPolicy == "" {
		if m.past.RetentionPolicy, err = sinkserver.DefaultPolicy(ctx, &m.client, m.past.Database); err != nil {
			return err
		}
	} else if err := m.client.Query(ctx, "CREATE DATABASE "+exchange.QuoteIdent(m.past.Database)); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	m.past.Note, m.opt.Filter.Range = m.opt.Note, m.past.Range
	var from interface {
		mover.Source
		Lost() prometheus.Lost
	}
	source := "Prometheus at " + m.from.URL
	if blocks != nil {
		from, source, m.expected = prometheus.NewBlocks(blocks, m.past), "blocks of "+blocks.Path, samplesOf(blocks)
	} else {
		from = prometheus.NewServer(&m.from, m.past)
	}
	var match []string
	for _, s := range m.past.Match {
		match = append(match, s.String())
	}
	what := fmt.Sprintf("%s to %s, %s.%s, from %d to %d, %s", source, m.client.URL, m.past.Database, m.past.RetentionPolicy, m.past.Range.Min, m.past.Range.Max, strings.Join(match, " or "))
	m.opt.Progress = func(s mover.Stats) {
		m.p.show("%s%d samples written, %d refused", pace(s.Rows, m.expected, s.Written, time.Since(m.begin)), s.Written, s.Refused+s.EarlierRefused.Count+from.Lost().Refused)
	}
	s, err := m.move.run(ctx, what, from, sinkserver.New(&m.client, sinkserver.Options{Workers: m.workers}))
	if err != nil {
		return err
	}
	lost := from.Lost()
	refused := s.Refused + s.EarlierRefused.Count + lost.Refused
	if _, err := fmt.Fprintf(m.stdout, "%d samples read, %d written, %d refused, %d written before\n", s.Rows, s.Written, refused, s.Known); err != nil {
		return err
	}
	if err := m.compared(s, 0, "metrics", "source", "server"); err != nil {
		return err
	}
	if len(compare.Differences(s.Source, s.Target)) > 0 {
		fmt.Fprintln(m.stdout, "Blocks that overlap have samples twice, and the server may have had samples before.")
	}
	if refused > 0 || lost.Damaged > 0 || lost.Blocks > 0 {
		err = fmt.Errorf("%d samples were refused, %d chunks are damaged, and %d blocks are left out", refused, lost.Damaged, lost.Blocks)
	}
	return errors.Join(err, fewer(s))
}

// fewer returns an error if the server has fewer values of a metric than were read: what an
// earlier run has lost shows here only.
func fewer(s *mover.Stats) error {
	n := 0
	for name, m := range s.Source {
		if now := s.Target[name]; m.Values() > 0 && (now == nil || now.Values() < m.Values()) {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("the server has fewer values of %d metrics than were read", n)
	}
	return nil
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
		fmt.Fprintln(stderr, mover.Printable(note))
	}
	blocks.Blocks = slices.DeleteFunc(blocks.Blocks, func(b block.Block) bool { return !b.Range.Overlaps(times) })
	if len(blocks.Blocks) == 0 {
		return nil, errors.New("no block has samples between -start and -end")
	}
	return blocks, nil
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
