package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v3"

	"tsdbd/backup"
	"tsdbd/backup/location"
	"tsdbd/cluster"
	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/inspect"
	"tsdbd/internal/vfs"
	"tsdbd/internal/whole"
	"tsdbd/transfer/sink/csv"
	"tsdbd/transfer/sink/parquet"
	"tsdbd/transfer/sink/samples"
)

func exportCommand() *cli.Command {
	var client exchange.Client
	var from exportSource
	var out, format string
	var opt exchange.ExportOptions
	return &cli.Command{
		Name:      "export",
		Usage:     "write points as line protocol, CSV, Parquet, or samples of Prometheus",
		UsageText: "tsdbd export [flags] -data DIR\ntsdbd export [flags] -host URL\ntsdbd export [flags] -backup PLACE [NAME]",
		Description: `tsdbd export writes points as line protocol, with headers that tell tsdbd import how to create databases and where the points belong. It reads a data directory that no server runs on and does not change it, or a running server, or a backup (the newest without NAME). In the directory of a node of a cluster it reads the log of the node as well.

Other formats are annotated CSV with one table for each measurement, which tsdbd import reads back, Parquet with one file for each measurement and shard below the directory -out, OpenMetrics text as promtool tsdb create-blocks-from openmetrics reads it, and lines of JSON as VictoriaMetrics imports them (vm).

Examples:
  tsdbd export -host http://127.0.0.1:8086 -db telegraf -gzip -out telegraf.gz
                                      # a database of a running server
  tsdbd export -data /var/lib/tsdbd -measurement 'cpu*' -start 2026-01-01 -lponly
                                      # bare lines of some measurements
  tsdbd export -backup /backups       # the newest backup
  tsdbd export -host http://127.0.0.1:8086 -db telegraf -format parquet -out parquet
                                      # parquet/telegraf/autogen/cpu/20260101T000000Z.parquet, ...
  tsdbd export -data /var/lib/tsdbd -db telegraf -format csv -measurement cpu -out cpu.csv`,
		Flags: slices.Concat(clientFlags(&client, ""), []cli.Flag{
			&cli.StringFlag{Name: "data", Destination: &from.data, Usage: "read the data directory `DIR`"},
			&cli.Uint64Flag{Name: "until", Destination: &from.until, Usage: "of the directory of a node of a cluster: leave out the entries of its log behind `SEQUENCE`"},
			&cli.StringFlag{Name: "backup", Destination: &from.backups, Usage: "read the backups in `PLACE`, a directory or s3://BUCKET/PREFIX"},
			&cli.StringFlag{Name: "format", Destination: &format, Value: "line", Usage: "write `line|csv|parquet|prometheus|vm`"},
			&cli.StringFlag{Name: "out", Destination: &out, Usage: "write to `FILE`, not to standard output; Parquet is written below this directory"},
		}, from.at.Flags(), filterFlags(&opt.Filter), []cli.Flag{
			measurementFlag(&opt.Filter),
			&cli.BoolFlag{Name: "gzip", Destination: &opt.Gzip, Usage: "compress"},
			&cli.BoolFlag{Name: "lponly", Destination: &opt.LinesOnly, Usage: "write no headers, and no comments that name databases into CSV"},
			&cli.BoolFlag{Name: "partial", Destination: &opt.Filter.Partial, Usage: "export what is left where damage has taken points"},
			&cli.IntFlag{Name: "workers", Destination: &opt.Workers, HideDefault: true, Usage: "read with `N` threads, not with one for each CPU; for line protocol"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			withScheme(&client)
			from.client = &client
			given := 0
			for _, s := range []string{from.data, client.URL, from.backups} {
				if s != "" {
					given++
				}
			}
			if given != 1 || len(rest) > 1 || len(rest) == 1 && from.backups == "" {
				return usageError(c, "export takes one of -data, -host and -backup")
			}
			if len(rest) == 1 {
				from.backup = rest[0]
			}
			switch {
			case !slices.Contains([]string{"line", "csv", "parquet", "prometheus", "vm"}, format):
				return usageError(c, "-format is one of line, csv, parquet, prometheus and vm, not %q", format)
			case format == "parquet" && (out == "" || out == "-"):
				return usageError(c, "-format parquet needs a directory: name it with -out")
			case format == "parquet" && opt.Gzip:
				return usageError(c, "-gzip is not for Parquet, whose pages are compressed")
			case opt.LinesOnly && format != "line" && format != "csv":
				return usageError(c, "-lponly is for the formats line and csv")
			case c.IsSet("until") && from.data == "":
				return usageError(c, "-until is for -data")
			case opt.Workers != 0 && format != "line":
				return usageError(c, "-workers is for the format line")
			}
			from.stderr = stderr
			p := newProgress(stderr)
			opt.Progress = func(n int64) { p.show("%d points", n) }
			points, note, err := from.write(ctx, out, stdout, format, opt)
			p.clear()
			if err != nil {
				return err
			}
			if of := from.node; of.Name != "" {
				note += fmt.Sprintf(", with what the log of node %s has up to sequence %d, acknowledged or not", of.Name, of.Sequence)
			}
			_, err = fmt.Fprintf(stderr, "%d points exported%s\n", points, note)
			return err
		}),
	}
}

// toFile calls f with a buffered writer to standard output, or to the file of that name, which is
// whole or as it was.
func toFile(name string, stdout io.Writer, f func(io.Writer) error) error {
	buffered := func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		if err := f(b); err != nil {
			return err
		}
		return b.Flush()
	}
	if name == "" || name == "-" {
		return buffered(stdout)
	}
	if err := noURL(name); err != nil {
		return err
	}
	return whole.Write(name, func(file *os.File) error { return buffered(file) })
}

// exportSource is where an export comes from: a server, a data directory, or a backup.
type exportSource struct {
	client                *exchange.Client
	data, backups, backup string
	at                    location.Location // of backups
	stderr                io.Writer
	until                 uint64
	node                  cluster.Left // whose directory data is, if it is one's
}

// write exports a format to the file or directory out. The note is for the user.
func (s *exportSource) write(ctx context.Context, out string, stdout io.Writer, format string, opt exchange.ExportOptions) (points int64, note string, err error) {
	switch format {
	case "line":
		err = toFile(out, stdout, func(w io.Writer) (err error) {
			points, err = s.lines(ctx, w, opt)
			return err
		})
	case "parquet":
		var dir string
		if dir, err = absolute(out); err != nil {
			return 0, "", err
		}
		files := parquet.New(vfs.OS, dir)
		points, err = s.rows(ctx, files, opt)
		note = fmt.Sprintf(" to %d files", files.Files())
	default:
		err = toFile(out, stdout, func(w io.Writer) (err error) {
			points, note, err = s.stream(ctx, w, format, opt)
			return err
		})
	}
	return points, note, err
}

// lines exports line protocol.
func (s *exportSource) lines(ctx context.Context, w io.Writer, opt exchange.ExportOptions) (n int64, err error) {
	if s.client.URL != "" {
		return s.client.Export(ctx, w, opt)
	}
	err = s.open(ctx, opt.Filter, func(src exchange.Source) (err error) {
		n, err = exchange.Export(ctx, src, w, opt)
		return err
	})
	return n, err
}

// rows exports rows to w.
func (s *exportSource) rows(ctx context.Context, w rows.Writer, opt exchange.ExportOptions) (n int64, err error) {
	if s.client.URL != "" {
		return s.client.ExportRows(ctx, w, opt.Filter, opt.Progress)
	}
	err = s.open(ctx, opt.Filter, func(src exchange.Source) (err error) {
		n, err = exchange.ExportRows(ctx, src, w, opt.Filter, opt.Progress)
		return err
	})
	return n, err
}

// stream exports a format that is one stream. The note says what is left out.
func (s *exportSource) stream(ctx context.Context, w io.Writer, format string, opt exchange.ExportOptions) (n int64, note string, err error) {
	var zipped *gzip.Writer
	if opt.Gzip {
		zipped, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		w = zipped
	}
	switch format {
	case "csv":
		n, err = s.rows(ctx, csv.NewWriter(w, opt.LinesOnly), opt)
	default:
		to := samples.NewOpenMetrics(w)
		if format == "vm" {
			to = samples.NewLines(w)
		}
		n, err = s.rows(ctx, to, opt)
		if to.Skipped() > 0 {
			note = fmt.Sprintf(", without %d texts and stale markers, which the format does not have", to.Skipped())
		}
	}
	if zipped != nil && err == nil {
		err = zipped.Close()
	}
	return n, note, err
}

// open calls f with the directory or the backup.
func (s *exportSource) open(ctx context.Context, filter exchange.Filter, f func(exchange.Source) error) (err error) {
	if s.data != "" {
		dir, err := absolute(s.data)
		if err != nil {
			return err
		}
		var st *inspect.Store
		if st, s.node, err = cluster.OpenForReading(dir, s.until); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
		return f(st)
	}
	r, err := s.at.Open(s.backups, s.stderr)
	if err != nil {
		return err
	}
	defer r.Close()
	st, _, err := backup.Open(ctx, r, backup.RestoreOptions{Backup: s.backup, Filter: filter})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(st)
}
