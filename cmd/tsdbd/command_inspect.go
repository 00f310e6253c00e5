package main

import (
	"context"
	"fmt"
	"io"

	"tsdbd/inspect"
	"tsdbd/internal/vfs"
)

func inspectCommand() *command {
	return &command{
		name:    "inspect",
		summary: "show what data files hold",
		about: `tsdbd inspect shows what data files hold. It changes nothing.

  wal PATH        a log directory, or one segment in it (data/wal)
  tsm PATH        a TSM file
  tsi PATH        a TSI file
  series PATH     a database's series directory (data/db-1/series)
  manifest PATH   a shard's manifest (data/db-1/shard-1)
  shard PATH      a shard's directory: manifest and all files
  encodings PATH  a TSM file, or a directory of a shard, a database or all
                  data: blocks, values and bytes of each encoding
  report DIR      a data directory: disk space and cardinality of each
                  measurement; refused while a server runs on it`,
		usage:    []string{"WHAT [flags] PATH"},
		operands: "wal|tsm|tsi|series|manifest|shard|encodings|report PATH",
		examples: []example{
			{"tsdbd inspect report /var/lib/tsdbd", "disk space and cardinality"},
			{"tsdbd inspect wal -all data/wal", "every entry of the log"},
			{"tsdbd inspect encodings data", "how all values are written"},
		},
		define: defineInspect,
	}
}

func defineInspect(f *commandFlags) action {
	asJSON := f.Bool("json", false, "write JSON")
	all := f.Bool("all", false, "list every entry of a log, every series of a TSM or series file")
	return func(_ context.Context, rest []string, stdout, _ io.Writer) error {
		if len(rest) != 2 {
			return f.usageError("inspect takes what to inspect and a path")
		}
		name, err := absolute(rest[1])
		if err != nil {
			return err
		}
		var report inspect.Texter
		switch rest[0] {
		case "wal":
			report, err = inspect.WAL(vfs.OS, name, *all)
		case "tsm":
			report, err = inspect.TSM(vfs.OS, name, *all)
		case "tsi":
			report, err = inspect.TSI(vfs.OS, name)
		case "series":
			report, err = inspect.Series(vfs.OS, name, *all)
		case "manifest":
			report, err = inspect.Manifest(vfs.OS, name)
		case "shard":
			report, err = inspect.Shard(vfs.OS, name)
		case "encodings":
			report, err = inspect.Encodings(vfs.OS, name)
		case "report":
			report, err = inspect.Report(name)
		default:
			return f.usageError("inspect does not know %q", rest[0])
		}
		if err != nil {
			return fmt.Errorf("inspect %s: %w", rest[0], err)
		}
		if err := inspect.Write(stdout, report, *asJSON); err != nil {
			return err
		}
		if len(inspect.Damages(report)) > 0 {
			return errDamaged
		}
		return nil
	}
}
