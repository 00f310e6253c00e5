package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// helpWidth is how long lines of help are.
const helpWidth = 80

func init() {
	cli.HelpPrinter = func(w io.Writer, template string, data any) {
		cli.HelpPrinterCustom(w, template, data, map[string]any{"wrap": wrap})
	}
	cli.ShowCommandHelp = showHelp
}

// showHelp prints the help of the command of c that name is. A command that has
// none, which was given an argument and -help, prints its own.
func showHelp(ctx context.Context, c *cli.Command, name string) error {
	switch {
	case c.Command(name) != nil:
		return cli.DefaultShowCommandHelp(ctx, c, name)
	case c == c.Root():
		return unknownCommand(c, name)
	case len(c.Commands) == 0 || c.UsageText != "":
		return cli.DefaultShowCommandHelp(ctx, c.Root(), c.Name)
	}
	return usageError(c, "unexpected argument %q", name)
}

// noFlagsBefore is the error of the server's flags before a command, which has
// flags of its own.
func noFlagsBefore(ctx context.Context, c *cli.Command) (context.Context, error) {
	name := c.Args().First()
	if c.Command(name) == nil {
		return ctx, nil
	}
	for _, f := range c.Flags {
		if f.IsSet() {
			return ctx, usageError(c, "-%s is before the command %s, flags of a command go after it", f.Names()[0], name)
		}
	}
	return ctx, nil
}

// wrap breaks the paragraphs of a text into lines, all but the first behind an
// indent. Lines that begin with a space, and those of flags, which have a tab,
// stay as they are.
func wrap(text string, indent int) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || line[0] == ' ' || strings.Contains(line, "\t") {
			lines = append(lines, line)
			continue
		}
		line = words[0]
		for _, w := range words[1:] {
			if indent+len(line)+1+len(w) > helpWidth {
				lines, line = append(lines, line), w
			} else {
				line += " " + w
			}
		}
		lines = append(lines, line)
	}
	margin := strings.Repeat(" ", indent)
	for i, line := range lines {
		if i > 0 && line != "" {
			lines[i] = margin + line
		}
	}
	return strings.Join(lines, "\n")
}

// walk calls f with the commands below c, and the words by which each is called.
func walk(c *cli.Command, words []string, f func(words []string, c *cli.Command)) {
	for _, sub := range c.Commands {
		named := append(slices.Clip(words), sub.Name)
		f(named, sub)
		walk(sub, named, f)
	}
}

// local makes flags those of one command only, not of the commands below it.
func local(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			f.Local = true
		case *cli.IntFlag:
			f.Local = true
		case *cli.BoolFlag:
			f.Local = true
		}
	}
	return flags
}

// otherNames are commands that other programs have.
var otherNames = map[string]string{"run": "serve", "start": "serve", "server": "serve", "report": "inspect report", "check": "verify", "dump": "export"}

// otherFlags are flags that other programs have, with ours for the same. The first that a
// command has counts.
var otherFlags = map[string][]string{
	// influxd, Prometheus and VictoriaMetrics
	"port": {"http", "host"}, "host": {"http"}, "bind-address": {"http"}, "http-bind-address": {"http"}, "listen": {"http"},
	"web.listen-address": {"http"}, "httpListenAddr": {"http"}, "config.file": {"config"}, "config-file": {"config"},
	"data-dir": {"data"}, "data-path": {"data"}, "datadir": {"data"}, "engine-path": {"data"}, "storage.tsdb.path": {"data"}, "storageDataPath": {"data"},
	"log.level": {"log-level"}, "loggerLevel": {"log-level"},
	// influx
	"database": {"db"}, "retention": {"rp"}, "ssl": {"host"}, "user": {"username"},
}

// unknownCommand is the error of a command that does not exist, with the nearest.
func unknownCommand(root *cli.Command, name string) error {
	near, ok := otherNames[name]
	if !ok {
		near = cli.SuggestCommand(root.Commands, name)
	}
	return fmt.Errorf("unknown command %q, did you mean tsdbd %s? See tsdbd help", name, near)
}

// wrongUse is the error of flags that cannot be parsed.
func wrongUse(_ context.Context, c *cli.Command, err error, _ bool) error {
	if c.Root() == c && c.Args().Present() {
		return unknownCommand(c, c.Args().First()) // its flags are not the server's
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		name = strings.TrimLeft(name, "-")
		for _, ours := range otherFlags[name] {
			if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), ours) }) {
				return usageError(c, "flag provided but not defined: -%s, did you mean -%s?", name, ours)
			}
		}
		if near := cli.SuggestFlag(c.Flags, name, true); near != "" {
			return usageError(c, "flag provided but not defined: -%s, did you mean -%s?", name, strings.TrimLeft(near, "-"))
		}
	}
	return usageError(c, "%v", err)
}

// usageError is a wrong use of a command.
func usageError(c *cli.Command, format string, args ...any) error {
	name := c.FullName()
	return fmt.Errorf("%s, see %s -help", fmt.Sprintf(format, args...), name)
}

// action makes a command's action of a function that takes the arguments, too.
func action(f func(ctx context.Context, c *cli.Command, args []string, stdout, stderr io.Writer) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		return f(ctx, c, c.Args().Slice(), c.Root().Writer, c.Root().ErrWriter)
	}
}

// noArguments is the error of arguments where none are taken, and of a flag
// that is given and empty, such as -data "$DIR" of a variable that is not set.
func noArguments(c *cli.Command) error {
	if c.Args().Present() {
		return usageError(c, "unexpected argument %q", strings.Join(c.Args().Slice(), " "))
	}
	var errs []error
	for _, f := range c.Flags {
		if s, ok := f.(*cli.StringFlag); ok && s.IsSet() && c.String(s.Name) == "" {
			errs = append(errs, usageError(c, "-%s is empty", s.Name))
		}
	}
	return errors.Join(errs...)
}

// complete returns what completes a command: its flags and commands, and the
// words that a flag or the first argument may be. It prints nothing else, so
// that the shell completes names of files.
func complete(first ...string) cli.ShellCompleteFunc {
	return func(ctx context.Context, c *cli.Command) {
		args := c.Args().Slice()
		words := first
		if n := len(args); n > 0 {
			words = nil
			for _, f := range c.Flags {
				if s, ok := f.(*cli.StringFlag); ok && strings.TrimLeft(args[n-1], "-") == s.Name {
					words = choices(s.Usage)
				}
			}
		}
		if words == nil {
			cli.DefaultCompleteWithFlags(ctx, c)
		}
		for _, w := range words {
			fmt.Fprintln(c.Root().Writer, w)
		}
	}
}

// bashCompletion completes a line in bash. It is in place of the library's script, which
// needs the package bash-completion and runs what stands in the line. A second Tab
// shows what the words mean.
const bashCompletion = `# Completion of tsdbd for bash, from version 3.2 on.
_tsdbd_complete() {
  local line word words=("${COMP_WORDS[@]:0:COMP_CWORD}") cur="${COMP_WORDS[COMP_CWORD]}"
  words[0]="${words[0]/#\~/$HOME}"
  [[ $cur == -* ]] && words+=("$cur")
  COMPREPLY=()
  while read -r line; do
    [[ $cur == -[!-]* ]] && line="${line#-}"
    word="${line%%:*}"
    [[ -n $word && $word == "$cur"* ]] || continue
    if [[ ${COMP_TYPE:-} == 63 && $line == *:* ]]; then
      word="$(printf '%-24s %s' "$word" "${line#*:}")"
    fi
    COMPREPLY+=("$word")
  done < <("${words[@]}" --generate-shell-completion 2>/dev/null)
}
complete -o bashdefault -o default -F _tsdbd_complete tsdbd
`

// completeFiles has the script for fish complete names of files, too, as the
// scripts for other shells do.
func completeFiles(print cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		root := c.Root()
		stdout, script := root.Writer, new(strings.Builder)
		root.Writer = script
		err := print(ctx, c)
		root.Writer = stdout
		_, failed := io.WriteString(stdout, strings.Replace(script.String(), "complete -c tsdbd -f -a", "complete -c tsdbd -a", 1))
		return errors.Join(err, failed)
	}
}

// choices returns the words of an argument that a flag's usage names as a|b|c.
func choices(usage string) []string {
	_, argument, _ := strings.Cut(usage, "`")
	argument, _, _ = strings.Cut(argument, "`")
	if !strings.Contains(argument, "|") {
		return nil
	}
	return strings.Split(argument, "|")
}
