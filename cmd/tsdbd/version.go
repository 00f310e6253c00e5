package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"

	"tsdbd/internal/version"
)

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
			_, err := fmt.Fprintln(stdout, version.Of().Text())
			return err
		}),
	}
}
