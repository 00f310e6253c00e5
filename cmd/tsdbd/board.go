package main

import (
	"context"
	"io"
	"slices"

	"github.com/urfave/cli/v3"

	"tsdbd/board/files"
)

func boardCommand() *cli.Command {
	var s files.Server
	return &cli.Command{
		Name: "board", Usage: "list, export and import boards of a running server",
		UsageText: files.Use, Description: files.About,
		Flags: slices.Concat(clientFlags(&s.Client, defaultHost), s.Flags()), ShellComplete: complete("list", "export", "import"),
		Action: action(func(ctx context.Context, c *cli.Command, args []string, stdout, stderr io.Writer) error {
			withScheme(&s.Client)
			return s.Run(ctx, args, stdout, stderr)
		}),
	}
}
