package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"
)

// version is that of the next or present release.
const version = "0.1.0"

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
