package files

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v3"
)

// Use and About describe the command.
const (
	Use = "tsdbd board list [flags]\ntsdbd board export [flags] [ID|NAME...]\ntsdbd board import -db NAME [flags] FILE..."

	About = `tsdbd board moves boards between a running server and JSON files.

  list                  the boards of a database, or of all
  export [ID|NAME...]   write boards as JSON; without ID and NAME all of them.
                        One board goes to standard output, several go into
                        the directory -out
  import FILE...        create a board of each file: what export or the page
                        has written, or a dashboard of Grafana

What a format cannot hold is said on standard error, by name.

Examples:
  tsdbd board list
  tsdbd board export -db telegraf -out boards/
  tsdbd board export -db telegraf -format grafana Hosts > dashboard.json
  tsdbd board import -db telegraf dashboard.json
  tsdbd board import -db telegraf -replace boards/*.json`
)

// useError is the error of flags and arguments that do not fit.
func useError(format string, args ...any) error {
	return fmt.Errorf("%s, see tsdbd board -help", fmt.Sprintf(format, args...))
}

// Flags are the flags of the command beside those of the client.
func (s *Server) Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "db", Destination: &s.database, Usage: "boards of the database `NAME`"},
		&cli.StringFlag{Name: "out", Destination: &s.out, Usage: "export a file for each board into `DIR`"},
		&cli.StringFlag{Name: "format", Destination: &s.format, Value: "tsdbd", Usage: "export as `tsdbd|grafana`"},
		&cli.StringFlag{Name: "name", Destination: &s.name, Usage: "call the imported board `NAME`, not as its file says"},
		&cli.BoolFlag{Name: "replace", Destination: &s.replace, Usage: "save what is imported as a new edition of the board with the same name, if there is one"},
		&cli.BoolFlag{Name: "json", Destination: &s.asJSON, Usage: "list as JSON"},
	}
}

// Run runs the command with its arguments. Its results go to stdout, and what a format cannot hold to stderr.
func (s *Server) Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s.stdout, s.stderr = stdout, stderr
	what := ""
	if len(args) > 0 {
		what, args = args[0], args[1:]
	}
	switch {
	case what == "list" && len(args) > 0:
		return useError("unexpected argument %q", args[0])
	case what == "list":
		return s.list(ctx)
	case what == "export" && s.format != "tsdbd" && s.format != "grafana":
		return useError("-format is tsdbd or grafana, not %q", s.format)
	case what == "export":
		return s.export(ctx, args)
	case what == "import" && s.database == "":
		return useError("import needs the database, -db NAME")
	case what == "import" && len(args) == 0:
		return useError("import takes files")
	case what == "import" && s.name != "" && len(args) > 1:
		return useError("-name is for one file")
	case what == "import":
		return s.importFiles(ctx, args)
	}
	return useError("board takes list, export or import")
}
