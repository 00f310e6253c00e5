package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"tsdbd/inspect"
	"tsdbd/internal/vfs"
)

func inspectCommand() *cli.Command {
	var asJSON, all bool
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what data files hold",
		UsageText: "tsdbd inspect WHAT [flags] PATH",
		Description: `tsdbd inspect shows what data files hold. It changes nothing.

  wal PATH        a log directory, or one segment in it (data/wal)
  tsm PATH        a TSM file
  tsi PATH        a TSI file
  series PATH     a database's series directory (data/db-1/series)
  manifest PATH   a shard's manifest (data/db-1/shard-1)
  shard PATH      a shard's directory: manifest and all files
  encodings PATH  a TSM file, or a directory of a shard, a database or all
                  data: blocks, values and bytes of each encoding
  report DIR      a data directory: disk space and cardinality of each
                  measurement; refused while a server runs on it

Examples:
  tsdbd inspect report /var/lib/tsdbd # disk space and cardinality
  tsdbd inspect wal -all data/wal     # every entry of the log
  tsdbd inspect encodings data        # how all values are written`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "write JSON"},
			&cli.BoolFlag{Name: "all", Destination: &all, Usage: "list every entry of a log, every series of a TSM or series file"},
		},
		ShellComplete: complete("wal", "tsm", "tsi", "series", "manifest", "shard", "encodings", "report"),
		Action: action(func(_ context.Context, c *cli.Command, rest []string, stdout, _ io.Writer) error {
			if len(rest) != 2 {
				return usageError(c, "inspect takes what to inspect and a path")
			}
			name, err := absolute(rest[1])
			if err != nil {
				return err
			}
			var report inspect.Texter
			switch rest[0] {
			case "wal":
				report, err = inspect.WAL(vfs.OS, name, all)
			case "tsm":
				report, err = inspect.TSM(vfs.OS, name, all)
			case "tsi":
				report, err = inspect.TSI(vfs.OS, name)
			case "series":
				report, err = inspect.Series(vfs.OS, name, all)
			case "manifest":
				report, err = inspect.Manifest(vfs.OS, name)
			case "shard":
				report, err = inspect.Shard(vfs.OS, name)
			case "encodings":
				report, err = inspect.Encodings(vfs.OS, name)
			case "report":
				report, err = inspect.Report(name)
			default:
				return usageError(c, "inspect does not know %q", rest[0])
			}
			if err != nil {
				return fmt.Errorf("inspect %s: %w", rest[0], err)
			}
			if err := inspect.Write(stdout, report, asJSON); err != nil {
				return err
			}
			if len(inspect.Damages(report)) > 0 {
				return errDamaged
			}
			return nil
		}),
	}
}
