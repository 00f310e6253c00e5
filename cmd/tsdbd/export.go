package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v3"

	"tsdbd/backup"
	"tsdbd/cluster"
	"tsdbd/inspect"
	"tsdbd/internal/vfs"
	"tsdbd/transfer"
)

func exportCommand() *cli.Command {
	var client transfer.Client
	var data, repository, out string
	var opt transfer.ExportOptions
	return &cli.Command{
		Name:      "export",
		Usage:     "write points as line protocol",
		UsageText: "tsdbd export [flags] -data DIR\ntsdbd export [flags] -host URL\ntsdbd export [flags] -backup DIR [NAME]",
		Description: `tsdbd export writes points as line protocol, with headers that tell tsdbd import how to create databases and where the points belong. It reads a data directory that no server runs on and does not change it, or a running server, or a backup (the newest without NAME).

Examples:
  tsdbd export -host http://127.0.0.1:8086 -db telegraf -gzip -out telegraf.gz
                                      # a database of a running server
  tsdbd export -data /var/lib/tsdbd -measurement 'cpu*' -start 2026-01-01 -lponly
                                      # bare lines of some measurements
  tsdbd export -backup /backups       # the newest backup`,
		Flags: slices.Concat(clientFlags(&client, ""), []cli.Flag{
			&cli.StringFlag{Name: "data", Destination: &data, Usage: "read the data directory `DIR`"},
			&cli.StringFlag{Name: "backup", Destination: &repository, Usage: "read the directory of backups `DIR`"},
			&cli.StringFlag{Name: "out", Destination: &out, Usage: "write to `FILE`, not to standard output"},
		}, filterFlags(&opt.Filter), []cli.Flag{
			&cli.StringSliceFlag{Name: "measurement", Destination: &opt.Filter.Measurements, Usage: "only the measurement `NAME`, where * and ? match any text and any character; may be given several times"},
			&cli.BoolFlag{Name: "gzip", Destination: &opt.Gzip, Usage: "compress"},
			&cli.BoolFlag{Name: "lponly", Destination: &opt.LinesOnly, Usage: "write no headers"},
			&cli.IntFlag{Name: "workers", Destination: &opt.Workers, HideDefault: true, Usage: "read with `N` threads, not with one for each CPU"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) (err error) {
			withScheme(&client)
			given := 0
			for _, s := range []string{data, client.URL, repository} {
				if s != "" {
					given++
				}
			}
			if given != 1 || len(rest) > 1 || len(rest) == 1 && repository == "" {
				return usageError(c, "export takes one of -data, -host and -backup")
			}
			w := stdout
			if out != "" && out != "-" {
				file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
				if err != nil {
					return err
				}
				defer func() {
					if err == nil {
						err = file.Sync()
					}
					err = errors.Join(err, file.Close())
				}()
				w = file
			}
			buffered := bufio.NewWriterSize(w, 1<<20)
			p := newProgress(stderr)
			opt.Progress = func(n int64) { p.show("%d points", n) }
			points, err := export(ctx, &client, data, repository, rest, buffered, opt)
			p.clear()
			if err == nil {
				err = buffered.Flush()
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(stderr, "%d points exported\n", points)
			return err
		}),
	}
}

// export runs an export from where the flags say.
func export(ctx context.Context, client *transfer.Client, data, repository string, rest []string, w io.Writer, opt transfer.ExportOptions) (n int64, err error) {
	if client.URL != "" {
		return client.Export(ctx, w, opt)
	}
	if data != "" {
		dir, err := absolute(data)
		if err != nil {
			return 0, err
		}
		if err := cluster.CheckSingle(vfs.OS, dir); err != nil {
			return 0, fmt.Errorf("points that only the log of a cluster has would be missing, export them from a running node with -host: %w", err)
		}
		st, err := inspect.Open(dir, nil)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, st.Close()) }()
		return transfer.Export(ctx, st, w, opt)
	}
	dir, err := absolute(repository)
	if err != nil {
		return 0, err
	}
	name := ""
	if len(rest) == 1 {
		name = rest[0]
	}
	st, _, err := backup.Open(backup.OpenRepository(vfs.OS, dir), name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return transfer.Export(ctx, st, w, opt)
}
