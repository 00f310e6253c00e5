package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v3"

	"tsdbd/backup"
	"tsdbd/backup/location"
	"tsdbd/exchange"
	"tsdbd/transfer/mover"
	sinkserver "tsdbd/transfer/sink/server"
	"tsdbd/transfer/source/lines"
)

func restoreCommand() *cli.Command {
	m := new(move)
	var at location.Location
	var data string
	var cold bool
	var opt backup.RestoreOptions
	return &cli.Command{
		Name:      "restore",
		Usage:     "put a backup into an empty directory or a running server",
		UsageText: "tsdbd restore [flags] -data DIR BACKUPS\ntsdbd restore [flags] -host URL BACKUPS",
		Description: `tsdbd restore puts a backup back: as files into an empty data directory, for a server that is started on it afterwards, or as points into a running server, where they merge with what is there.

With -data the flags that choose data choose whole shards; with -host they are exact. With -cold as well, files stay in the place of the backups that were cold when the backup was taken: make it the cold store of the server.

Examples:
  tsdbd restore -data /var/lib/tsdbd /backups
                                      # the newest backup, as files
  tsdbd restore -host http://127.0.0.1:8086 -db telegraf -newdb old /backups
                                      # one database, in addition to the present one`,
		Flags: slices.Concat(clientFlags(&m.client, ""), []cli.Flag{
			&cli.StringFlag{Name: "data", Destination: &data, Usage: "restore files into the empty directory `DIR`"},
			&cli.BoolFlag{Name: "cold", Destination: &cold, Usage: "with -data: leave the files where the backups are that were in a cold store"},
			&cli.StringFlag{Name: "backup", Destination: &opt.Backup, Usage: "restore the backup `NAME`, not the newest; backup -list shows names"},
		}, filterFlags(&opt.Filter), at.Flags(), []cli.Flag{
			&cli.StringFlag{Name: "newdb", Destination: &opt.NewDatabase, Usage: "restore the database of -db as `NAME`"},
			&cli.StringFlag{Name: "newrp", Destination: &opt.NewPolicy, Usage: "restore the policy of -rp as `NAME`"},
			&cli.BoolFlag{Name: "definitions", Destination: &opt.Definitions, Usage: "with -host: also users, continuous queries, subscriptions and boards that the server lacks"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			if len(rest) != 1 {
				return usageError(c, "restore takes one place with backups")
			}
			if (data == "") == (m.client.URL == "") {
				return usageError(c, "restore takes either -data or -host")
			}
			if cold && data == "" {
				return usageError(c, "-cold is for -data")
			}
			if err := noURL(data); err != nil {
				return err
			}
			withScheme(&m.client)
			r, err := at.Open(rest[0], stderr)
			if err != nil {
				return err
			}
			defer r.Close()
			name, manifest, err := r.Manifest(ctx, opt.Backup)
			if err == nil && cold && manifest.ColdBytes() == 0 {
				err = fmt.Errorf("backup %s: no file of it was cold, restore it without -cold", name)
			}
			if err != nil {
				return err
			}
			for _, d := range manifest.Damaged {
				fmt.Fprintf(stderr, "not in the backup: %s of shard %d of database %s: %s\n", d.Name, d.Shard, d.Database, d.Reason)
			}
			m.start(stdout, stderr)
			if data != "" {
				to, err := absolute(data)
				if err != nil {
					return err
				}
				if opt.Progress = m.p.copied; cold {
					opt.Cold = r.Cold()
				}
				res, err := backup.Place(ctx, r, to, opt)
				m.p.clear()
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(stdout, "backup %s restored into %s: %d shards, %d files, %s\n", res.Name, to, res.Shards, res.Objects, mib(res.Bytes))
				if err == nil && cold {
					_, err = fmt.Fprintf(stdout, "%s stay in %s: start the server with that as cold.url, then run tsdbd cold claim\n", mib(res.Cold), rest[0])
				}
				return err
			}
			opt.Defined = func(d exchange.Defined) {
				m.p.clear()
				fmt.Fprintf(stdout, "%d users, %d continuous queries, %d downsamples, %d subscriptions, %d boards made; %d grants given to users that were there\n", d.Users, d.Queries, d.Downsamples, d.Subscriptions, d.Boards, d.Grants)
			}
			opt.Ungranted = func(n int) {
				m.p.clear()
				fmt.Fprintf(stdout, "%d grants on databases that the server lacked are not restored: without -definitions users need new ones\n", n)
			}
			var s *mover.Stats
			err = backup.Restore(ctx, r, &m.client, opt, func(ctx context.Context, text io.Reader) (err error) {
				part := lines.Part("backup", text, func(r *bufio.Reader, to mover.Lines) error { return lines.Protocol(r, "", "", to) })
				s, err = m.text(ctx, []*mover.Part{part}, sinkserver.Options{}, nil)
				return err
			})
			if err != nil {
				return err
			}
			return m.result(s, "points")
		}),
	}
}
