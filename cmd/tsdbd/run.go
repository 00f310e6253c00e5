package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is that of the next or present release.
const version = "0.1.0"

const usage = `tsdbd is a time-series database server with the InfluxDB 1.x HTTP API.

Usage: tsdbd [command] [flags]

Commands:
  serve     run the server (the default)
  config    print the configuration in force
  inspect   show what data files hold
  verify    check data files, of a stopped or a running server
  backup    copy a running server's data
  restore   put a backup into an empty directory or a running server
  export    write points as line protocol
  import    send line protocol to a running server
  version   print the version
  help      print this text

tsdbd COMMAND -help tells the flags of a command.

Flags of serve and config:
  -data DIR         where the data is kept (default ./data)
  -http HOST:PORT   where to listen (default 127.0.0.1:8086)
  -config FILE      a TOML file with settings
  -log-level LEVEL  debug, info, warn or error (default info)

Every setting of the file can be given by the environment as well:
TSDBD_HTTP_BIND_ADDRESS is bind-address in [http]. Flags win over the
environment, the environment over the file.
`

// run is the program. It returns when ctx ends or on failure.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	command := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	if c := commands[command]; c != nil {
		return c(ctx, args, stdout, stderr)
	}
	switch command {
	case "serve", "config":
	case "version":
		_, err := fmt.Fprintln(stdout, versionText())
		return err
	case "help":
		_, err := io.WriteString(stdout, usage)
		return err
	default:
		return fmt.Errorf("unknown command %q, see tsdbd help", command)
	}
	cfg, err := loadConfig(args, os.Environ())
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(stdout, usage)
		return err
	}
	if err != nil {
		return err
	}
	if command == "config" {
		return cfg.print(stdout)
	}
	return serve(ctx, cfg, func() (*config, error) { return loadConfig(args, os.Environ()) }, stdout, stderr)
}

// versionText tells what this binary was built from.
func versionText() string {
	text := "tsdbd " + version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				text += " (" + s.Value[:12] + ")"
			}
		}
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
