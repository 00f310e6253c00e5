package main

import (
	"context"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"tsdbd/config"
	"tsdbd/internal/version"
	"tsdbd/server"
)

func serveCommand() *cli.Command {
	var from config.Source
	return &cli.Command{
		Name:      "serve",
		Usage:     "run the server, as tsdbd does without a command",
		UsageText: "tsdbd serve [flags]",
		Description: `tsdbd serve runs the server until SIGTERM or SIGINT; a second signal ends it at once. SIGHUP reads the configuration again: the level of the log, most limits and the certificate change without a restart.

Without flags it keeps its data in ./data and listens on 127.0.0.1:8086. It prints its address on standard output, and logs on standard error: for people on a terminal, else as text or JSON (log.format).

` + settingsNote + `

Examples:
  tsdbd -data /var/lib/tsdbd -http :8086
                                      # keep data there and listen on all addresses
  tsdbd -config /etc/tsdbd/tsdbd.toml # with settings from a file, ours or an influxdb.conf
  TSDBD_LOG_FORMAT=json TSDBD_HTTP_AUTH_ENABLED=true tsdbd
                                      # with settings from the environment
  tsdbd -data /var/lib/tsdbd -cluster-node n1 -cluster-bind 10.0.0.1:8088 -cluster-secret-file /etc/tsdbd/secret -cluster-join n1=10.0.0.1:8088,n2=10.0.0.2:8088,n3=10.0.0.3:8088
                                      # as one of three nodes that hold the same data`,
		Flags: settingsFlags(&from),
		Action: action(func(ctx context.Context, c *cli.Command, _ []string, stdout, stderr io.Writer) error {
			if err := noArguments(c); err != nil {
				return err
			}
			load := func() (*config.Config, []config.Note, error) { return from.Load(os.Environ()) }
			settings, notes, err := load()
			if err != nil {
				return err
			}
			return server.Run(ctx, settings, server.Options{Version: version.String(), Notes: notes, Reload: load, Stdout: stdout, Stderr: stderr})
		}),
	}
}
