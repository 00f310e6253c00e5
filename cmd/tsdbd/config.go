package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"tsdbd/config"
)

func configCommand() *cli.Command {
	var from config.Source
	return &cli.Command{
		Name:      "config",
		Usage:     "print the configuration in force",
		UsageText: "tsdbd config [flags]",
		Description: `tsdbd config prints all settings with the values that a server with the same flags would use, as a file that -config reads back. Secrets are hidden. It converts an influxdb.conf into such a file, and reports on standard error the keys that have another name or no effect.

` + settingsNote + `

Examples:
  tsdbd config > tsdbd.toml           # a file to edit
  tsdbd config -config /etc/tsdbd/tsdbd.toml
                                      # check a file
  tsdbd config -config /etc/influxdb/influxdb.conf > tsdbd.toml
                                      # convert InfluxDB's`,
		Flags: settingsFlags(&from),
		Action: action(func(_ context.Context, c *cli.Command, _ []string, stdout, stderr io.Writer) error {
			if err := noArguments(c); err != nil {
				return err
			}
			settings, notes, err := from.Load(os.Environ())
			if err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintf(stderr, "%s %s\n", n.Key, n.Text)
			}
			return settings.Print(stdout)
		}),
	}
}
