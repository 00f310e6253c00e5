package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"tsdbd/exchange"
	"tsdbd/internal/whole"
	"tsdbd/shell"
)

func queryCommand() *cli.Command {
	s := shell.Session{Client: &exchange.Client{}, Settings: shell.Settings{ChunkSize: 10_000}}
	var out, file string
	var execute []string
	var at address
	return &cli.Command{
		Name:      "query",
		Usage:     "ask a running server: a statement, or a prompt",
		UsageText: "tsdbd query [flags] ['STATEMENT'...]",
		Description: `tsdbd query runs each STATEMENT, or those of a file or of standard input. There a statement ends with ; and may span lines. Without ; it ends before a line that begins another one. Without statements tsdbd query shows a prompt with history and completion; \h lists its commands, which are those of the influx shell and a few more. Ctrl-C ends a statement at the server, too.

On a terminal $PAGER, or less, shows an answer that is longer than the screen, and tables end after 10,000 rows of a statement.

With -username and without a password tsdbd query asks for it on a terminal.

The flags of the influx shell work as well: -execute, -database, -port, -ssl, -path-prefix, and a host without http://.

The exit code is 1 when a statement failed.

Examples:
  tsdbd query -db demo                # a prompt
  tsdbd query -db demo 'SELECT mean(usage) FROM cpu WHERE time > now() - 1h GROUP BY host'
  tsdbd query -db demo -plot 'SELECT usage FROM cpu WHERE time > now() - 1h'
  tsdbd query -db demo -format csv 'SELECT * FROM cpu' > cpu.csv
  tsdbd query -db demo -file statements.iql
  tsdbd query -db demo -lang promql 'sum by (host) (cpu_usage)'
  tsdbd query -db demo -lang promql -start 6h -step 5m -plot 'rate(http_requests_total[5m])'`,
		Flags: slices.Concat(clientFlags(s.Client, defaultHost), []cli.Flag{
			&cli.IntFlag{Name: "port", Destination: &at.port, Usage: "the `PORT` of the server, if -host has none; without both 8086"},
			&cli.BoolFlag{Name: "ssl", Destination: &at.ssl, Usage: "ask by https, if -host does not say"},
			&cli.StringFlag{Name: "path-prefix", Destination: &at.prefix, Usage: "the `PATH` at which a proxy has the server"},
			&cli.StringFlag{Name: "db", Aliases: []string{"database"}, Destination: &s.Database, Usage: "ask the database `NAME`"},
			&cli.StringFlag{Name: "rp", Destination: &s.RetentionPolicy, Usage: "and its retention policy `NAME`"},
			&cli.GenericFlag{Name: "execute", Aliases: []string{"e"}, Value: textsFlag{&execute}, Usage: "run `STATEMENT`, as an argument; may be given several times"},
			&cli.StringFlag{Name: "file", Destination: &file, Usage: "run the statements of `FILE`"},
			&cli.StringFlag{Name: "lang", Destination: &s.Language, Value: "influxql", Usage: "ask in `influxql|promql`"},
			&cli.StringFlag{Name: "start", Destination: &s.Range.Start, Usage: "ask PromQL for a range from `TIME` on: RFC 3339, or a duration before now such as 6h"},
			&cli.StringFlag{Name: "end", Destination: &s.Range.End, Usage: "up to `TIME`, not now; without -start the time to ask for"},
			&cli.StringFlag{Name: "step", Destination: &s.Range.Step, Usage: "with a value each `DURATION`; without it 240 values"},
			&cli.StringFlag{Name: "precision", Destination: &s.Precision, Value: "rfc3339", Usage: "write times as `rfc3339|ns|u|ms|s|m|h`"},
			&cli.StringFlag{Name: "format", Destination: &s.Format, Value: "table", Usage: "write answers as `table|column|vertical|json|csv|line`"},
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
			if s.Client.URL, err = at.of(s.Client.URL); err != nil {
				return usageError(c, "%v", err)
			}
			if s.Client.Username != "" && s.Client.Password == "" && term.IsTerminal(int(os.Stdin.Fd())) {
				if s.Client.Password, err = shell.ReadPassword("password: "); err != nil {
					return err
				}
			}
			if term.IsTerminal(int(os.Stdin.Fd())) { // who types can scroll
				s.Pager = pager()
			}
			statements = append(execute, statements...)
			if file != "" && len(statements) > 0 {
				return usageError(c, "-file and statements exclude each other")
			}
			if out == "" {
				return ask(ctx, &s, statements, file, stdout, stderr)
			}
			return whole.Write(out, func(f *os.File) error { return ask(ctx, &s, statements, file, f, stderr) })
		}),
	}
}

// ask runs statements, those of a file, or what somebody types, and writes the answers to out.
func ask(ctx context.Context, s *shell.Session, statements []string, file string, out, stderr io.Writer) error {
	s.Out = out
	if f, ok := out.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil {
			s.Width, s.Height = width, height
		}
	}
	switch {
	case len(statements) > 0:
		return runStatements(ctx, s, statements)
	case file != "":
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		return s.Run(ctx, endedBy(ctx, f))
	case term.IsTerminal(int(os.Stdin.Fd())):
		if err := s.Client.Ping(ctx); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "connected to %s, \\h for help\n", s.Client.URL)
		// At the prompt an interrupt ends a statement, not the program.
		return s.Prompt(context.WithoutCancel(ctx), historyFile())
	}
	return s.Run(ctx, endedBy(ctx, os.Stdin))
}

// runStatements runs statements until one fails.
func runStatements(ctx context.Context, s *shell.Session, statements []string) error {
	for _, statement := range statements {
		switch err := s.Line(ctx, statement); {
		case errors.Is(err, shell.ErrExit):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// address are the parts of the server's address that the influx shell has flags for.
type address struct {
	port   int
	ssl    bool
	prefix string
}

// of returns the URL of a host, which is a name, HOST:PORT or a URL. A part that both
// the host and a flag have must be the same, except that the default host has none.
func (a address) of(host string) (string, error) {
	if host == defaultHost && (a.port != 0 || a.ssl) {
		host = "127.0.0.1"
	}
	bare := !strings.Contains(host, "://")
	if bare {
		host = map[bool]string{true: "https://", false: "http://"}[a.ssl] + host
	}
	u, err := url.Parse(host)
	switch {
	case err != nil:
		return "", err
	case a.ssl && u.Scheme != "https":
		return "", fmt.Errorf("-ssl is not what -host %s says", host)
	case a.port != 0 && u.Port() != "" && u.Port() != strconv.Itoa(a.port):
		return "", fmt.Errorf("-port %d is not what -host %s says", a.port, host)
	case a.port < 0 || a.port > 65535:
		return "", fmt.Errorf("-port %d is no port", a.port)
	case u.Port() == "" && (bare || a.port != 0):
		port := a.port
		if port == 0 {
			port = 8086
		}
		u.Host += ":" + strconv.Itoa(port)
	}
	if a.prefix != "" {
		u.Path = strings.TrimRight(u.Path, "/") + "/" + strings.Trim(a.prefix, "/")
	}
	return u.String(), nil
}

// pager is the command that shows long answers.
func pager() string {
	if command, set := os.LookupEnv("PAGER"); set {
		return command
	}
	return "less"
}

// historyFile is where the prompt keeps its lines: in the home directory, or nowhere.
func historyFile() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".tsdbd_history")
}
