package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"tsdbd/exchange"
	"tsdbd/shell"
)

func queryCommand() *cli.Command {
	s := shell.Session{Client: &exchange.Client{}, Settings: shell.Settings{ChunkSize: 10_000}}
	out := ""
	return &cli.Command{
		Name:      "query",
		Usage:     "ask a running server: a statement, or a prompt",
		UsageText: "tsdbd query [flags] ['STATEMENT'...]",
		Description: `tsdbd query runs each STATEMENT, or those that standard input has, one in a line. Without both it shows a prompt with history and completion; \h lists its commands, which are those of the influx shell and a few more. Ctrl-C ends a statement at the server, too.

The exit code is 1 when a statement failed.

Examples:
  tsdbd query -db demo                # a prompt
  tsdbd query -db demo 'SELECT mean(usage) FROM cpu WHERE time > now() - 1h GROUP BY host'
  tsdbd query -db demo -plot 'SELECT usage FROM cpu WHERE time > now() - 1h'
  tsdbd query -db demo -format csv 'SELECT * FROM cpu' > cpu.csv`,
		Flags: slices.Concat(clientFlags(s.Client, defaultHost), []cli.Flag{
			&cli.StringFlag{Name: "db", Destination: &s.Database, Usage: "ask the database `NAME`"},
			&cli.StringFlag{Name: "rp", Destination: &s.RetentionPolicy, Usage: "and its retention policy `NAME`"},
			&cli.StringFlag{Name: "precision", Destination: &s.Precision, Value: "rfc3339", Usage: "write times as `rfc3339|ns|u|ms|s|m|h`"},
			&cli.StringFlag{Name: "format", Destination: &s.Format, Value: "table", Usage: "write answers as `table|column|json|csv|line`"},
			&cli.StringFlag{Name: "out", Destination: &out, Usage: "write answers to `FILE`, not to standard output"},
			&cli.BoolFlag{Name: "pretty", Destination: &s.Pretty, Usage: "indent json"},
			&cli.BoolFlag{Name: "read-only", Destination: &s.ReadOnly, Usage: "have the server refuse what changes something"},
			&cli.BoolFlag{Name: "partial", Destination: &s.Partial, Usage: "answer from what is left where damage has taken points"},
			&cli.BoolFlag{Name: "plot", Destination: &s.Plot, Usage: "draw numbers over time"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, statements []string, stdout, stderr io.Writer) (err error) {
			if err := s.Check(); err != nil {
				return usageError(c, "%v", err)
			}
			withScheme(s.Client)
			if out != "" {
				file, failed := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
				if failed != nil {
					return failed
				}
				defer func() { err = errors.Join(err, file.Close()) }()
				stdout = file
			}
			s.Out = stdout
			if f, ok := stdout.(*os.File); ok {
				if width, _, err := term.GetSize(int(f.Fd())); err == nil {
					s.Width = width
				}
			}
			switch {
			case len(statements) > 0:
				return runStatements(ctx, &s, slices.Values(statements))
			case !term.IsTerminal(int(os.Stdin.Fd())):
				in := bufio.NewScanner(endedBy(ctx, os.Stdin))
				in.Buffer(nil, 16<<20)
				err := runStatements(ctx, &s, func(yield func(string) bool) {
					for in.Scan() && yield(in.Text()) {
					}
				})
				return errors.Join(err, in.Err())
			}
			if err := s.Client.Ping(ctx); err != nil {
				return err
			}
			fmt.Fprintf(stderr, "connected to %s, \\h for help\n", s.Client.URL)
			// At the prompt an interrupt ends a statement, not the program.
			return s.Prompt(context.WithoutCancel(ctx), historyFile())
		}),
	}
}

// runStatements runs lines until one fails.
func runStatements(ctx context.Context, s *shell.Session, lines func(yield func(string) bool)) error {
	for line := range lines {
		switch err := s.Line(ctx, line); {
		case errors.Is(err, shell.ErrExit):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// historyFile is where the prompt keeps its lines: in the home directory, or nowhere.
func historyFile() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".tsdbd_history")
}
