package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"tsdbd/config"
	"tsdbd/server"
)

// version is that of the next or present release.
const version = "0.1.0"

// run is the program. It returns when ctx ends or on failure.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	} else if len(args) > 0 {
		switch strings.TrimLeft(args[0], "-") {
		case "h", "help":
			name, args = "help", args[1:]
		case "version":
			name, args = "version", args[1:]
		}
	}
	c := commandNamed(name)
	if c == nil {
		return unknownCommand(name)
	}
	return c.run(ctx, args, stdout, stderr)
}

func serveCommand() *command {
	return &command{
		name:    "serve",
		summary: "run the server, as tsdbd does without a command",
		about: `tsdbd serve runs the server until SIGTERM or SIGINT; a second signal ends it at once. SIGHUP reads the configuration again: the level of the log, most limits and the certificate change without a restart.

Without flags it keeps its data in ./data and listens on 127.0.0.1:8086. It says on standard output where it listens, and logs on standard error: for people on a terminal, else as text or JSON (log.format).`,
		usage: []string{"[flags]"},
		examples: []example{
			{"tsdbd -data /var/lib/tsdbd -http :8086", "keep data there and listen on all addresses"},
			{"tsdbd -config /etc/tsdbd/tsdbd.toml", "with settings from a file, ours or an influxdb.conf"},
			{"TSDBD_LOG_FORMAT=json TSDBD_HTTP_AUTH_ENABLED=true tsdbd", "with settings from the environment"},
		},
		notes: settingsNote,
		define: func(f *commandFlags) action {
			from := f.settingsFlags()
			return func(ctx context.Context, rest []string, stdout, stderr io.Writer) error {
				if err := errors.Join(f.nothingElse(rest), f.notEmpty()); err != nil {
					return err
				}
				load := func() (*config.Config, []config.Note, error) { return from.Load(os.Environ()) }
				c, notes, err := load()
				if err != nil {
					return err
				}
				return server.Run(ctx, c, server.Options{Version: version, Notes: notes, Reload: load, Stdout: stdout, Stderr: stderr})
			}
		},
	}
}

const settingsNote = `Every setting of the file can be given by the environment as well: TSDBD_HTTP_BIND_ADDRESS is bind-address in [http]. Flags win over the environment, the environment over the file.`

func configCommand() *command {
	return &command{
		name:    "config",
		summary: "print the configuration in force",
		about:   `tsdbd config prints all settings with the values that a server with the same flags would use, as a file that -config reads back. Secrets are hidden. Of an influxdb.conf it makes a file of ours, and tells on standard error what became of keys that have another name or no effect.`,
		usage:   []string{"[flags]"},
		examples: []example{
			{"tsdbd config > tsdbd.toml", "a file to edit"},
			{"tsdbd config -config /etc/tsdbd/tsdbd.toml", "check a file"},
			{"tsdbd config -config /etc/influxdb/influxdb.conf > tsdbd.toml", "convert InfluxDB's"},
		},
		notes: settingsNote,
		define: func(f *commandFlags) action {
			from := f.settingsFlags()
			return func(_ context.Context, rest []string, stdout, stderr io.Writer) error {
				if err := errors.Join(f.nothingElse(rest), f.notEmpty()); err != nil {
					return err
				}
				c, notes, err := from.Load(os.Environ())
				if err != nil {
					return err
				}
				for _, n := range notes {
					fmt.Fprintf(stderr, "%s %s\n", n.Key, n.Text)
				}
				return c.Print(stdout)
			}
		},
	}
}

func versionCommand() *command {
	return &command{
		name:     "version",
		summary:  "print the version",
		about:    `tsdbd version prints the version, the commit if it is known, and what the program was built with and for.`,
		usage:    []string{""},
		examples: []example{{"tsdbd version", ""}},
		define: func(f *commandFlags) action {
			return func(_ context.Context, rest []string, stdout, _ io.Writer) error {
				if err := f.nothingElse(rest); err != nil {
					return err
				}
				_, err := fmt.Fprintln(stdout, versionText())
				return err
			}
		},
	}
}

// versionText tells what this binary was built from.
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
