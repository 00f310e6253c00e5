package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"tsdbd/backup"
	"tsdbd/inspect"
	"tsdbd/internal/vfs"
	"tsdbd/transfer"
)

func exportCommand() *command {
	return &command{
		name:    "export",
		summary: "write points as line protocol",
		about:   `tsdbd export writes points as line protocol, with headers that tell tsdbd import how databases are made and where the points belong. It reads a data directory that no server runs on and does not change it, or a running server, or a backup (the newest without NAME).`,
		usage:   []string{"[flags] -data DIR", "[flags] -host URL", "[flags] -backup DIR [NAME]"},
		examples: []example{
			{"tsdbd export -host http://127.0.0.1:8086 -db telegraf -gzip -out telegraf.gz", "a database of a running server"},
			{"tsdbd export -data /var/lib/tsdbd -measurement 'cpu*' -start 2026-01-01 -lponly", "bare lines of some measurements"},
			{"tsdbd export -backup /backups", "the newest backup"},
		},
		define: defineExport,
	}
}

func defineExport(f *commandFlags) action {
	client := f.clientFlags("")
	data := f.String("data", "", "read the data directory `DIR`")
	repository := f.String("backup", "", "read the directory of backups `DIR`")
	out := f.String("out", "", "write to `FILE`, not to standard output")
	var opt transfer.ExportOptions
	f.filterFlags(&opt.Filter)
	f.Var((*listFlag)(&opt.Filter.Measurements), "measurement", "only the measurement `NAME`, where * and ? match any text and any character; may be given several times")
	f.BoolVar(&opt.Gzip, "gzip", false, "compress")
	f.BoolVar(&opt.LinesOnly, "lponly", false, "write no headers")
	f.IntVar(&opt.Workers, "workers", 0, "read with `N` threads, not with one for each CPU")
	return func(ctx context.Context, rest []string, stdout, stderr io.Writer) (err error) {
		f.complete(client)
		given := 0
		for _, s := range []string{*data, client.URL, *repository} {
			if s != "" {
				given++
			}
		}
		if given != 1 || len(rest) > 1 || len(rest) == 1 && *repository == "" {
			return f.usageError("export takes one of -data, -host and -backup")
		}
		w := stdout
		if *out != "" && *out != "-" {
			file, err := os.OpenFile(*out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
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
		points, err := export(ctx, client, *data, *repository, rest, buffered, opt)
		p.clear()
		if err == nil {
			err = buffered.Flush()
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stderr, "%d points exported\n", points)
		return err
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
