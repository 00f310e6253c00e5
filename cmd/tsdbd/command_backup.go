package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"tsdbd/backup"
	"tsdbd/internal/vfs"
	"tsdbd/transfer"
)

func backupCommand() *command {
	return &command{
		name:    "backup",
		summary: "copy a running server's data",
		about: `tsdbd backup copies a running server's data into a directory, without stopping writes. All of it is of one moment. The first backup into a directory copies everything, later ones what is new; each is whole and can be restored alone. One that was broken off is gone on with by running it again.

-db, -rp, -shard, -start and -end choose whole shards: those that overlap the range.`,
		usage:    []string{"[flags] DIR", "-list DIR", "-prune N DIR"},
		operands: "DIR",
		examples: []example{
			{"tsdbd backup /backups", "the first time everything, later what is new"},
			{"tsdbd backup -list /backups", "what is there"},
			{"tsdbd backup -prune 7 /backups", "keep the newest seven"},
			{"tsdbd backup -host https://db.example.org:8086 -username admin /backups", "with the password in TSDBD_PASSWORD"},
		},
		define: defineBackup,
	}
}

func defineBackup(f *commandFlags) action {
	client := f.clientFlags(defaultHost)
	var opt backup.TakeOptions
	f.filterFlags(&opt.Filter)
	list := f.Bool("list", false, "list the backups in DIR")
	prune := f.Int("prune", 0, "keep the newest `N` backups in DIR and remove the others")
	f.BoolVar(&opt.SkipDamaged, "skip-damaged", false, "leave out files that are damaged on the server, tell them, and exit with 1")
	asJSON := f.Bool("json", false, "write the result as JSON")
	return func(ctx context.Context, rest []string, stdout, stderr io.Writer) error {
		if len(rest) != 1 {
			return f.usageError("backup takes one directory")
		}
		f.complete(client)
		dir, err := absolute(rest[0])
		if err != nil {
			return err
		}
		r := backup.OpenRepository(vfs.OS, dir)
		switch {
		case *list:
			return listBackups(r, stdout, *asJSON)
		case f.given("prune"):
			if *prune < 1 {
				return f.usageError("-prune keeps one backup at least")
			}
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
			return errors.Join(json.NewEncoder(stdout).Encode(res), incomplete(res.Name, res.Damaged, stderr))
		}
		_, err = fmt.Fprintf(stdout, "backup %s: %d shards at sequence %d, %d objects, %s, of it %s copied, in %s\n",
			res.Name, res.Shards, res.Sequence, res.Objects, mib(res.Bytes), mib(res.Copied), res.Took.Round(time.Millisecond))
		return errors.Join(err, incomplete(res.Name, res.Damaged, stderr))
	}
}

// incomplete tells what a backup lacks for damage, and is an error then.
func incomplete(name string, damaged []backup.DamagedFile, stderr io.Writer) error {
	if len(damaged) == 0 {
		return nil
	}
	for _, d := range damaged {
		fmt.Fprintf(stderr, "left out: %s of shard %d of database %s: %s\n", d.Name, d.Shard, d.Database, d.Reason)
	}
	return fmt.Errorf("backup %s is INCOMPLETE: %d damaged files were left out", name, len(damaged))
}

// listed is a line of backup -list.
type listed struct {
	Name      string          `json:"name"`
	Sequence  uint64          `json:"sequence"`
	Shards    int             `json:"shards"`
	Bytes     int64           `json:"bytes"`
	Databases []string        `json:"databases"`
	Filter    transfer.Filter `json:"filter"`
	Damaged   int             `json:"damaged,omitempty"` // files left out
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
		l := listed{Name: n, Sequence: m.Sequence, Shards: len(m.Shards), Bytes: m.Bytes(), Filter: m.Filter, Damaged: len(m.Damaged)}
		for _, d := range m.Catalog.Databases {
			l.Databases = append(l.Databases, d.Name)
		}
		out = append(out, l)
	}
	if asJSON {
		return json.NewEncoder(stdout).Encode(out)
	}
	if len(out) == 0 {
		return errors.New("there is no backup in it")
	}
	for _, l := range out {
		lacks := ""
		if l.Damaged > 0 {
			lacks = fmt.Sprintf(", INCOMPLETE: %d damaged files were left out", l.Damaged)
		}
		if _, err := fmt.Fprintf(stdout, "%s  sequence %d, %d shards, %s, databases %q%s\n", l.Name, l.Sequence, l.Shards, mib(l.Bytes), l.Databases, lacks); err != nil {
			return err
		}
	}
	return nil
}
