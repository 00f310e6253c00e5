package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"

	"tsdbd/config"
	"tsdbd/server"
)

// version is that of the next or present release.
const version = "0.1.0"

// run is the program. It returns when ctx ends or on failure.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return program(stdout, stderr).Run(ctx, append([]string{"tsdbd"}, args...))
}

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
                                      # with settings from the environment`,
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
			return server.Run(ctx, settings, server.Options{Version: version, Notes: notes, Reload: load, Stdout: stdout, Stderr: stderr})
		}),
	}
}

const settingsNote = `Every setting of the file can be given by the environment as well: TSDBD_HTTP_BIND_ADDRESS is bind-address in [http]. Flags win over the environment, the environment over the file.`

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

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Description: `tsdbd version prints the version, the commit if it is known, and what the program was built with and for.

Examples:
  tsdbd version`,
		Action: action(func(_ context.Context, c *cli.Command, _ []string, stdout, _ io.Writer) error {
			if err := noArguments(c); err != nil {
				return err
			}
			_, err := fmt.Fprintln(stdout, versionText())
			return err
		}),
	}
}

// versionText returns the version and what the binary was built from.
func versionText() string {
	text := "tsdbd " + version
	if info, ok := debug.ReadBuildInfo(); ok {
		revision, modified := "", ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				revision = s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = ", changed"
			}
		}
		if revision != "" {
			text += " (" + revision + modified + ")"
		}
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
