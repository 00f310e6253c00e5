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
)

const exportHelp = `tsdbd export writes points as line protocol, with headers that tell tsdbd import
how databases are made and where the points belong.

Usage: tsdbd export [flags] -data DIR      from a data directory without a server
       tsdbd export [flags] -host URL      from a running server
       tsdbd export [flags] -backup DIR [NAME]
                                           from a backup (default: the newest)

Flags:
  -data DIR            the data directory; it is not changed
  -host URL            the server, such as http://127.0.0.1:8086
  -username, -password for a server that asks
  -backup DIR          a directory of backups
` + filterHelp + `  -measurement NAME    only this measurement; * and ? match any text and any
                       character; may be given several times
  -out FILE            write to a file (default: standard output)
  -gzip                compress
  -lponly              no headers
  -workers N           how many threads read (default: as many as there are CPUs)
`

func runExport(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := newFlags("export", exportHelp, stdout)
	client := f.clientFlags("")
	data := f.String("data", "", "")
	repository := f.String("backup", "", "")
	out := f.String("out", "", "")
	var opt backup.ExportOptions
	f.filterFlags(&opt.Filter, true)
	f.BoolVar(&opt.Gzip, "gzip", false, "")
	f.BoolVar(&opt.LinesOnly, "lponly", false, "")
	f.IntVar(&opt.Workers, "workers", 0, "")
	rest, err := f.parse(args)
	if err != nil {
		return helped(err)
	}
	normalise(client)
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

// export runs an export from where the flags say.
func export(ctx context.Context, client *backup.Client, data, repository string, rest []string, w io.Writer, opt backup.ExportOptions) (n int64, err error) {
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
		return backup.Export(ctx, st, w, opt)
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
	return backup.Export(ctx, st, w, opt)
}
