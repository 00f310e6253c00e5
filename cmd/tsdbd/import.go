package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tsdbd/lineproto"
	"tsdbd/transfer/mover"
	sinkserver "tsdbd/transfer/sink/server"
	"tsdbd/transfer/source/csv"
	"tsdbd/transfer/source/lines"
	"tsdbd/transfer/source/mongo"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

// fileImport is an import of files into a running server.
type fileImport struct {
	move
	requests  sinkserver.Options
	precision string
	ordered   bool
	format    string
	tables    csv.Options
	documents mongo.Options
	from      serverImport
}

func importCommand() *cli.Command {
	m := new(fileImport)
	m.from.move = &m.move
	own := m.from.flags()
	return &cli.Command{
		Name:        "import",
		Usage:       "send line protocol, CSV or documents of MongoDB, or everything of another server, to a running server",
		UsageText:   "tsdbd import [flags] [FILE...]\ntsdbd import -from URL [flags]",
		Commands:    []*cli.Command{importInfluxCommand(), importPrometheusCommand()},
		Description: importDescription,
		Flags:       local(slices.Concat(m.move.flags("from a server: note in `FILE` what is done; the same command then continues where it stopped"), m.flags(), own)),
		Before:      noFlagsBefore,
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			if err := m.check(c); err != nil {
				return err
			}
			withScheme(&m.client)
			m.start(stdout, stderr)
			if m.from.from.URL != "" {
				return m.fromServer(ctx, c, rest)
			}
			names := []string{"journal", "dry-run"}
			for _, f := range own {
				names = append(names, f.Names()[0])
			}
			for _, name := range names {
				if c.IsSet(name) {
					return usageError(c, "-%s needs -from", name)
				}
			}
			return m.run(ctx, c, rest)
		}),
	}
}

const importDescription = `tsdbd import sends line protocol or CSV from each FILE in turn, or from standard input, to a running server. The input may be compressed by gzip or zstd. It accepts headers as tsdbd export and the influx tools write them: "# DDL" and statements, "# DML" and points, "# CONTEXT-DATABASE:NAME" and "# CONTEXT-RETENTION-POLICY:NAME" for the points that follow.

Files named *.csv, *.csv.gz and *.csv.zst are CSV, as are all with -format csv: annotated CSV of InfluxDB 2.x, what tsdbd query -format csv and influx -format csv have written, and other tables with a header. Types and times that nothing names are guessed from the first rows of a table; import prints the guess. Each row becomes one line. Rows that do not fit are counted and named by their line; -failed keeps them below their header.

With -format vm, the input is what VictoriaMetrics' /api/v1/export has written: lines of JSON, one or more for a series. Without -db they go into the database of Prometheus, where PromQL finds them.

With -format mongo the input is what mongoexport has written of a time-series collection, in lines or as an array. -time and -meta name the timeField and the metaField of the collection. Members of the metaField become tags, other members fields, and names of members of documents in documents have a dot. Types come from the first documents, or from -columns.

With -from, tsdbd import takes everything out of a running InfluxDB 1.x, 2.x or 3.x, or another tsdbd: databases, retention policies, rows, and continuous queries. It prints the statements that create users and subscriptions, and compares both servers at the end. With -journal, the same command continues where it stopped. With -follow, it takes new rows until the writers have moved.

It reports how many points were processed and refused; the exit code is 1 when some were refused.

Examples:
  tsdbd import telegraf.gz            # what tsdbd export or influx_inspect export has written
  tsdbd import day1.gz day2.gz        # several files, one after the other
  tsdbd import -db demo -precision s -failed refused.txt points.txt
                                      # bare lines with times in seconds
  tsdbd import -db demo -measurement cpu -columns 'time,host:tag,usage:float,note:skip' usage.csv
  tsdbd import -db copy cpu.csv       # what tsdbd query -format csv has written
  tsdbd import -format vm export.jsonl.gz
  tsdbd import -db demo -format mongo -time ts -meta sensor weather.json
                                      # into the measurement weather
  tsdbd import -from http://old:8086 -journal move.journal -follow
                                      # everything of a server, until the writers have moved`

// flags are the flags of an import of files.
func (m *fileImport) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "db", Destination: &m.tables.Database, Usage: "points without a header go into the database `NAME`; from a server: only this one"},
		&cli.StringFlag{Name: "rp", Destination: &m.tables.Policy, Usage: "and into its retention policy `NAME`; from a server: only this one of the database"},
		&cli.StringFlag{Name: "precision", Destination: &m.precision, Value: "ns", Usage: "the unit of times: `ns|us|ms|s|m|h`"},
		&cli.IntFlag{Name: "batch", Destination: &m.requests.BatchBytes, Value: 1 << 20, Usage: "send `BYTES` a request"},
		&cli.IntFlag{Name: "workers", Destination: &m.requests.Workers, Value: 2, Usage: "send `N` requests at a time"},
		&cli.BoolFlag{Name: "ordered", Destination: &m.ordered, Usage: "send one request at a time, so that of two lines for the same point the later one wins"},
		&cli.StringFlag{Name: "format", Destination: &m.format, Usage: "the input is `line|csv|vm|mongo`; the default goes by the name of the file"},
		&cli.StringFlag{Name: "columns", Destination: &m.tables.Columns, Usage: "the columns of CSV, or the fields of documents, as `NAME:TYPE,...`; types are float, integer, unsigned, boolean, string, tag, time, measurement, skip; needed for CSV without a header"},
		&cli.StringFlag{Name: "measurement", Destination: &m.tables.Measurement, Usage: "rows of CSV, or documents, go into the measurement `NAME`, for documents by default that of the file; from a server: only this one, or those that a pattern with * and ? or a regular expression between slashes matches"},
		&cli.StringFlag{Name: "time", Destination: &m.documents.Time, Usage: "the member `NAME` of documents has the time"},
		&cli.StringFlag{Name: "meta", Destination: &m.documents.Meta, Usage: "the member `NAME` of documents has the tags"},
		&cli.StringFlag{Name: "points", Destination: &m.documents.Points, Usage: "the member `NAME` of documents is an array of documents, each of which becomes a point, together with the other members"},
		&cli.StringFlag{Name: "time-format", Destination: &m.tables.TimeFormat, Usage: "times of CSV, and times of documents that are no dates, are `rfc3339|ns|us|ms|s|m|h|LAYOUT`, such as \"02.01.2006 15:04\""},
		&cli.StringFlag{Name: "timezone", Destination: &m.tables.Timezone, Usage: "dates of CSV without a zone are in the zone `NAME`; the default is UTC"},
		&cli.StringFlag{Name: "separator", Destination: &m.tables.Separator, Usage: "cells of CSV end with `CHARACTER`, or tab; the default goes by the first line"},
		&cli.BoolFlag{Name: "decimal-comma", Destination: &m.tables.DecimalComma, Usage: "numbers of CSV have a comma before their fraction: 3,5"},
	}
}

// check completes the options, and refuses flags that contradict each other.
func (m *fileImport) check(c *cli.Command) (err error) {
	if _, err := lineproto.Unit(m.precision, m.precision == "us"); err != nil {
		return usageError(c, "-precision is one of ns, us, ms, s, m and h, not %q", m.precision)
	}
	if !slices.Contains([]string{"", "line", "csv", "vm", "mongo"}, m.format) {
		return usageError(c, "-format is line, csv, vm or mongo, not %q", m.format)
	}
	if m.format == "mongo" {
		if m.documents.Types, err = csv.ColumnTypes(m.tables.Columns); err != nil {
			return usageError(c, "%v", err)
		}
		m.documents.TimeFormat, m.documents.Timezone = m.tables.TimeFormat, m.tables.Timezone
		m.documents.Database, m.documents.Policy = m.tables.Database, m.tables.Policy
		m.documents.Measurement = cmp.Or(m.tables.Measurement, "measurement") // of the files, below
		if err := m.documents.Check(); err != nil {
			return usageError(c, "%v", err)
		}
	} else if m.documents.Time != "" || m.documents.Meta != "" || m.documents.Points != "" {
		return usageError(c, "-time, -meta and -points are for -format mongo")
	}
	if m.ordered {
		m.requests.Workers = 1
	}
	if c.IsSet("precision") {
		m.tables.Unit = m.precision
		if m.tables.Unit == "u" || m.tables.Unit == "µ" {
			m.tables.Unit = "us"
		} else if m.tables.Unit == "n" {
			m.tables.Unit = "ns"
		}
	}
	if err := m.tables.Check(); err != nil {
		return usageError(c, "%v", err)
	}
	return nil
}

// fromServer imports from a server.
func (m *fileImport) fromServer(ctx context.Context, c *cli.Command, rest []string) error {
	if len(rest) > 0 {
		return usageError(c, "-from takes no files, such as %q", rest[0])
	}
	m.from.requests = m.requests
	f := &m.from.opt.Filter
	f.Database, f.RetentionPolicy = m.tables.Database, m.tables.Policy
	if m.tables.Measurement != "" {
		f.Measurements = []string{m.tables.Measurement}
		if err := f.CheckMeasurements(); err != nil {
			return usageError(c, "%v", err)
		}
	}
	return m.from.run(ctx, c)
}

// run imports files.
func (m *fileImport) run(ctx context.Context, c *cli.Command, rest []string) error {
	in, err := openImport(ctx, rest, m.format, m.stderr)
	if err != nil {
		return err
	}
	defer in.close()
	var parts []*mover.Part
	tables := 0 // that are no line protocol
	for _, f := range in.files {
		p, err := m.part(f)
		if err != nil {
			return usageError(c, "%v", err)
		}
		if parts = append(parts, p); f.format != "line" {
			tables++
		}
	}
	switch {
	case m.failed != "" && in.reads(m.failed):
		return usageError(c, "-failed %s is a file that is imported: name another one", m.failed)
	case m.failed != "" && tables > 0 && tables < len(parts):
		return usageError(c, "-failed takes lines, rows of CSV or documents: import files of several kinds one after the other")
	}
	// Later it waits for a server that is away; now that would be a riddle.
	if err := m.client.Ping(ctx); err != nil {
		return err
	}
	s, err := m.text(ctx, parts, m.requests, func(points int64) string {
		return pace(in.read.Load(), in.size, points, time.Since(m.begin))
	})
	if err != nil {
		if s != nil {
			fmt.Fprintf(m.stderr, "the import broke off after %d points\n", s.Written+s.Refused)
		}
		return err
	}
	if m.format == "vm" {
		return m.result(s, "lines")
	}
	return m.result(s, "points")
}

// part returns the part of a file.
func (m *fileImport) part(f importFile) (*mover.Part, error) {
	report := func(text string) { m.note("%s: %s", f.name, text) }
	tables, documents, precision := m.tables, m.documents, ""
	var read func(r *bufio.Reader, to mover.Lines) error
	switch f.format {
	case "csv":
		tables.Report = report
		read = func(r *bufio.Reader, to mover.Lines) error { return csv.Read(r, tables, to) }
	case "mongo":
		documents.Report = report
		if documents.Measurement = cmp.Or(m.tables.Measurement, collection(f.name)); documents.Measurement == "" {
			return nil, errors.New("documents from standard input need a measurement: -measurement NAME")
		}
		read = func(r *bufio.Reader, to mover.Lines) error { return mongo.Read(r, documents, to) }
	case "vm":
		read = func(r *bufio.Reader, to mover.Lines) error {
			return lines.Series(r, tables.Database, tables.Policy, to)
		}
	default:
		precision = m.precision
		read = func(r *bufio.Reader, to mover.Lines) error {
			return lines.Protocol(r, tables.Database, tables.Policy, to)
		}
	}
	p := lines.Part(f.name, f, read)
	p.Policy, p.Precision, p.Series = tables.Policy, precision, f.format == "vm"
	return p, nil
}

// importInput is what an import reads.
type importInput struct {
	files []importFile
	size  int64 // of all of them; 0 if it is not known
	read  atomic.Int64
	open  []*os.File
}

// importFile is one input.
type importFile struct {
	io.Reader
	name   string
	format string // line, csv, vm, or mongo
}

// collection returns the name of the collection that mongoexport has written to a file, ""
// for standard input.
func collection(file string) string {
	if file == standardInput {
		return ""
	}
	name := filepath.Base(file)
	for _, suffix := range []string{".gz", ".zst", ".json", ".jsonl", ".ndjson"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

const standardInput = "standard input"

// openImport opens files by their names; without a name, and by "-", standard
// input.
func openImport(ctx context.Context, names []string, format string, stderr io.Writer) (in *importInput, err error) {
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
				what := "line protocol"
				switch format {
				case "csv":
					what = "CSV"
				case "vm":
					what = "lines of VictoriaMetrics"
				case "mongo":
					what = "documents"
				}
				fmt.Fprintf(stderr, "reading %s from standard input, Ctrl-D ends it\n", what)
			}
			in.files, known = append(in.files, importFile{in.counted(endedBy(ctx, os.Stdin)), standardInput, cmp.Or(format, "line")}), false
			continue
		}
		plain := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".gz"), ".zst")
		of := cmp.Or(format, "line")
		if format == "" && strings.HasSuffix(plain, ".csv") {
			of = "csv"
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
			in.files = append(in.files, importFile{in.counted(f), name, of})
		default: // a pipe, which may never give anything
			in.files, known = append(in.files, importFile{in.counted(endedBy(ctx, f)), name, of}), false
		}
	}
	if !known {
		in.size = 0
	}
	return in, nil
}

// reads reports whether a file is one of the inputs.
func (in *importInput) reads(name string) bool {
	at, err := os.Stat(name)
	return err == nil && at.Mode().IsRegular() && slices.ContainsFunc(in.open, func(f *os.File) bool {
		st, err := f.Stat()
		return err == nil && os.SameFile(at, st)
	})
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
