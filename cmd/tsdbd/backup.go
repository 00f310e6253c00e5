package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/backup"
	"tsdbd/backup/location"
	"tsdbd/exchange"
	"tsdbd/internal/binio"
)

func backupCommand() *cli.Command {
	var client exchange.Client
	var opt backup.TakeOptions
	var at location.Location
	var list, asJSON bool
	var prune int
	return &cli.Command{
		Name:      "backup",
		Usage:     "copy a running server's data",
		UsageText: "tsdbd backup [flags] PLACE\ntsdbd backup -list PLACE\ntsdbd backup -prune N PLACE",
		Description: `tsdbd backup copies a running server's data into a directory or a bucket of S3, without stopping writes. All of it is of one moment. The first backup into a place copies everything, later ones what is new; each is whole and can be restored alone. To continue an interrupted backup, run it again.

-db, -rp, -shard, -start and -end choose whole shards: those that overlap the range.

Examples:
  tsdbd backup /backups               # the first time everything, later what is new
  tsdbd backup -list /backups         # what is there
  tsdbd backup -prune 7 /backups      # keep the newest seven
  tsdbd backup -endpoint https://s3.example.org s3://bucket/tsdbd
                                      # into a bucket, with the keys in TSDBD_S3_ACCESS_KEY
                                      # and TSDBD_S3_SECRET_KEY
  tsdbd backup -host https://db.example.org:8086 -username admin /backups
                                      # with the password in TSDBD_PASSWORD`,
		Flags: slices.Concat(clientFlags(&client, defaultHost), filterFlags(&opt.Filter), at.Flags(), []cli.Flag{
			&cli.BoolFlag{Name: "list", Destination: &list, Usage: "list the backups"},
			&cli.IntFlag{Name: "prune", Destination: &prune, HideDefault: true, Usage: "keep the newest `N` backups and remove the others"},
			&cli.BoolFlag{Name: "skip-damaged", Destination: &opt.SkipDamaged, Usage: "leave out files that are damaged on the server, report them, and exit with 1"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "write the result as JSON"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			if len(rest) != 1 {
				return usageError(c, "backup takes one place: a directory, or s3://BUCKET/PREFIX")
			}
			withScheme(&client)
			r, err := at.Open(rest[0], stderr)
			if err != nil {
				return err
			}
			defer r.Close()
			switch {
			case list:
				return listBackups(ctx, r, stdout, asJSON)
			case c.IsSet("prune"):
				if prune < 1 {
					return usageError(c, "-prune keeps one backup at least")
				}
				backups, objects, err := r.Prune(ctx, prune)
				if err == nil {
					_, err = fmt.Fprintf(stdout, "removed %d backups and %d objects\n", backups, objects)
				}
				return err
			}
			p := newProgress(stderr)
			opt.Progress = p.copied
			res, err := backup.Take(ctx, &client, r, opt)
			p.clear()
			if err != nil {
				return err
			}
			if asJSON {
				return errors.Join(json.NewEncoder(stdout).Encode(res), incomplete(res.Name, res.Damaged, stderr))
			}
			_, err = fmt.Fprintf(stdout, "backup %s: %d shards at sequence %d, %d objects, %s, of it %s copied, in %s\n",
				res.Name, res.Shards, res.Sequence, res.Objects, mib(res.Bytes), mib(res.Copied), res.Took.Round(time.Millisecond))
			return errors.Join(err, incomplete(res.Name, res.Damaged, stderr))
		}),
	}
}

// incomplete prints the files that a backup lacks, and returns an error if there
// are any.
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
	Filter    exchange.Filter `json:"filter"`
	Damaged   int             `json:"damaged,omitempty"` // files left out
}

func listBackups(ctx context.Context, r *backup.Repository, stdout io.Writer, asJSON bool) error {
	names, err := r.List(ctx)
	if err != nil {
		return err
	}
	out := []listed{}
	var others error // of backups that another build has taken
	for _, n := range names {
		_, m, err := r.Manifest(ctx, n)
		if errors.Is(err, binio.ErrVersion) {
			others = errors.Join(others, err)
			continue
		}
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
		return errors.Join(json.NewEncoder(stdout).Encode(out), others)
	}
	if len(out) == 0 && others == nil {
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
	return others
}
