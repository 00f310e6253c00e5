package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"tsdbd/backup"
	"tsdbd/internal/vfs"
)

const backupHelp = `tsdbd backup copies a running server's data into a directory, without stopping
writes. All of it is of one moment. The first backup into a directory copies
everything, later ones what is new; each is whole and can be restored alone. One
that was broken off is gone on with by running it again.

Usage: tsdbd backup [flags] DIR
       tsdbd backup -list DIR
       tsdbd backup -prune N DIR    keep the newest N backups, remove the others

Flags:
` + clientHelp + filterHelp + `                       (whole shards that overlap the range)
  -json                write the result as JSON
`

func runBackup(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("backup", backupHelp, stdout)
	client := f.clientFlags(defaultHost)
	var opt backup.TakeOptions
	f.filterFlags(&opt.Filter, false)
	list := f.Bool("list", false, "")
	prune := f.Int("prune", 0, "")
	asJSON := f.Bool("json", false, "")
	rest, err := f.parse(args)
	if err != nil {
		return helped(err)
	}
	if len(rest) != 1 {
		return f.usageError("backup takes one directory")
	}
	normalise(client)
	dir, err := absolute(rest[0])
	if err != nil {
		return err
	}
	r := backup.OpenRepository(vfs.OS, dir)
	switch {
	case *list:
		return listBackups(r, stdout, *asJSON)
	case *prune != 0:
		backups, objects, err := r.Prune(*prune)
		if err == nil {
			_, err = fmt.Fprintf(stdout, "removed %d backups and %d objects\n", backups, objects)
		}
		return err
	}
	p := newProgress(stderr)
	opt.Progress = p.copied
	res, err := backup.Take(ctx, client, r, opt)
	p.clear()
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(stdout).Encode(res)
	}
	_, err = fmt.Fprintf(stdout, "backup %s: %d shards at sequence %d, %d objects, %s, of it %s copied, in %s\n",
		res.Name, res.Shards, res.Sequence, res.Objects, mib(res.Bytes), mib(res.Copied), res.Took.Round(time.Millisecond))
	return err
}

// listed is a line of backup -list.
type listed struct {
	Name      string        `json:"name"`
	Sequence  uint64        `json:"sequence"`
	Shards    int           `json:"shards"`
	Bytes     int64         `json:"bytes"`
	Databases []string      `json:"databases"`
	Filter    backup.Filter `json:"filter"`
}

func listBackups(r *backup.Repository, stdout io.Writer, asJSON bool) error {
	names, err := r.List()
	if err != nil {
		return err
	}
	out := []listed{}
	for _, n := range names {
		_, m, err := r.Manifest(n)
		if err != nil {
			return err
		}
		l := listed{Name: n, Sequence: m.Sequence, Shards: len(m.Shards), Bytes: m.Bytes(), Filter: m.Filter}
		for _, d := range m.Catalog.Databases {
			l.Databases = append(l.Databases, d.Name)
		}
		out = append(out, l)
	}
	if asJSON {
		return json.NewEncoder(stdout).Encode(out)
	}
	for _, l := range out {
		if _, err := fmt.Fprintf(stdout, "%s  sequence %d, %d shards, %s, databases %q\n", l.Name, l.Sequence, l.Shards, mib(l.Bytes), l.Databases); err != nil {
			return err
		}
	}
	return nil
}
