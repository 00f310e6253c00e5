package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"tsdbd/internal/version"
)

// run is the program. It returns when ctx ends or on failure.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return program(stdout, stderr).Run(ctx, append([]string{"tsdbd"}, args...))
}

const programAbout = `tsdbd is a time-series database server with the HTTP API, the line protocol
and the query language of InfluxDB 1.x. Start here:

  tsdbd                                            # in one terminal
  curl -X POST 'http://127.0.0.1:8086/query' --data-urlencode 'q=CREATE DATABASE demo'
  curl -X POST 'http://127.0.0.1:8086/write?db=demo' --data-binary 'weather,city=oslo temperature=-3.5'
  curl -G 'http://127.0.0.1:8086/query' --data-urlencode 'db=demo' --data-urlencode 'q=SELECT * FROM weather'

` + settingsNote + `

tsdbd COMMAND -help describes a command.`

// program returns the command line. It holds what the flags of one run say.
func program(stdout, stderr io.Writer) *cli.Command {
	settings := serveCommand()
	root := &cli.Command{
		Name:        "tsdbd",
		Usage:       "time-series database server",
		UsageText:   "tsdbd [COMMAND] [flags]",
		Description: programAbout,
		Flags:       append(settings.Flags, &cli.BoolFlag{Name: "version", Usage: "print the version", Local: true}),
		Commands: []*cli.Command{
			serveCommand(), queryCommand(), configCommand(), healthCommand(),
			backupCommand(), restoreCommand(), exportCommand(), importCommand(), boardCommand(), inspectCommand(), verifyCommand(),
			clusterCommand(), coldCommand(),
			manCommand(), versionCommand(),
		},
		EnableShellCompletion: true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden, c.HideHelpCommand, c.OnUsageError = false, true, wrongUse
			c.Usage = "print a completion script for a shell"
			for _, shell := range c.Commands {
				shell.HideHelpCommand, shell.OnUsageError = true, wrongUse
				switch shell.Name {
				case "bash":
					shell.Action = action(func(_ context.Context, _ *cli.Command, _ []string, stdout, _ io.Writer) error {
						_, err := io.WriteString(stdout, bashCompletion)
						return err
					})
				case "fish":
					shell.Action = completeFiles(shell.Action)
				}
			}
		},
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(context.Context, *cli.Command, error) {}, // main exits
		OnUsageError:              wrongUse,
		Before:                    noFlagsBefore,
		ShellComplete:             complete(),
		Writer:                    stdout,
		ErrWriter:                 stderr,
	}
	root.Action = func(ctx context.Context, c *cli.Command) error {
		if c.Args().Present() {
			return unknownCommand(c, c.Args().First())
		}
		if c.Bool("version") {
			_, err := fmt.Fprintln(stdout, version.Of().Text())
			return err
		}
		return settings.Action(ctx, c)
	}
	walk(root, nil, func(_ []string, c *cli.Command) {
		c.HideHelpCommand, c.OnUsageError = true, wrongUse
		if c.ShellComplete == nil {
			c.ShellComplete = complete()
		}
	})
	return root
}
