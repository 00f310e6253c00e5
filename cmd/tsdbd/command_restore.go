package main

import (
	"context"
	"fmt"
	"io"

	"tsdbd/backup"
	"tsdbd/internal/vfs"
)

const restoreHelp = `tsdbd restore puts a backup back: as files into an empty data directory, for a
server that is started on it afterwards, or as points into a running server,
where they merge with what is there.

Usage: tsdbd restore [flags] -data DIR BACKUPS   into an empty directory
       tsdbd restore [flags] -host URL BACKUPS   into a running server

Flags:
  -data DIR            the data directory
  -host URL            the server, such as http://127.0.0.1:8086
  -username, -password for a server that asks
  -backup NAME         which backup (default: the newest; see backup -list)
` + filterHelp + `                       (-data: whole shards that overlap the range)
  -newdb NAME          restore the database of -db under this name
  -newrp NAME          restore the policy of -rp under this name
`

func runRestore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("restore", restoreHelp, stdout)
	client := f.clientFlags("")
	data := f.String("data", "", "")
	var opt backup.RestoreOptions
	f.StringVar(&opt.Backup, "backup", "", "")
	f.filterFlags(&opt.Filter, false)
	f.StringVar(&opt.NewDatabase, "newdb", "", "")
	f.StringVar(&opt.NewPolicy, "newrp", "", "")
	rest, err := f.parse(args)
	if err != nil {
		return helped(err)
	}
	if len(rest) != 1 {
		return f.usageError("restore takes one directory of backups")
	}
	if (*data == "") == (client.URL == "") {
		return f.usageError("restore takes either -data or -host")
	}
	normalise(client)
	from, err := absolute(rest[0])
	if err != nil {
		return err
	}
	r := backup.OpenRepository(vfs.OS, from)
	p := newProgress(stderr)
	if *data != "" {
		to, err := absolute(*data)
		if err != nil {
			return err
		}
		opt.Progress = p.copied
		res, err := backup.Place(ctx, r, to, opt)
		p.clear()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "backup %s restored into %s: %d shards, %d files, %s\n", res.Name, to, res.Shards, res.Objects, mib(res.Bytes))
		return err
	}
	opt.Imported = func(s backup.ImportStats) { p.show("%d points written, %d refused", s.Written, s.Failed) }
	stats, err := backup.Restore(ctx, r, client, opt)
	p.clear()
	if err != nil {
		return err
	}
	return importResult(stats, stdout, stderr)
}

// importResult tells how an import went; refused points are an error.
func importResult(s backup.ImportStats, stdout, stderr io.Writer) error {
	for _, e := range s.Errors {
		fmt.Fprintln(stderr, e)
	}
	if _, err := fmt.Fprintf(stdout, "%d points processed, %d written, %d refused", s.Lines, s.Written, s.Failed); err != nil {
		return err
	}
	if s.Statements > 0 {
		fmt.Fprintf(stdout, "; %d statements, %d failed", s.Statements, s.FailedStatements)
	}
	fmt.Fprintln(stdout)
	if s.Failed > 0 {
		return fmt.Errorf("%d points were refused", s.Failed)
	}
	return nil
}
