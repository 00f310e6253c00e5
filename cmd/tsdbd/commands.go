package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"tsdbd/config"
)

// command is a sub-command. Its help, the manual page and the completion of
// shells are made from it and from the flags that define declares.
type command struct {
	name     string
	summary  string    // a few words for the list of commands
	about    string    // sentences that begin with "tsdbd NAME", or with the program's name
	usage    []string  // what follows the name, one form each
	operands string    // what completes the arguments in turn: DIR, FILE, PATH, COMMAND, or words such as a|b
	examples []example // the first stands in the list of commands
	notes    string    // what is told after the flags
	define   func(f *commandFlags) action
}

// example is a command line and what it does.
type example struct{ line, does string }

// action runs a command whose flags are parsed, with the other arguments.
type action func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// commands returns all sub-commands as they are listed.
func commands() []*command {
	return []*command{
		serveCommand(), configCommand(), healthCommand(),
		backupCommand(), restoreCommand(), exportCommand(), importCommand(), inspectCommand(), verifyCommand(),
		completionCommand(), manCommand(), versionCommand(), helpCommand(),
	}
}

// commandNamed returns a command, nil if there is none of the name.
func commandNamed(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return c
		}
	}
	return nil
}

// otherNames are commands that other programs have.
var otherNames = map[string]string{"run": "serve", "start": "serve", "server": "serve", "report": "inspect report", "check": "verify", "dump": "export"}

// unknownCommand is the error of a command that there is not, with the nearest.
func unknownCommand(name string) error {
	var known []string
	for _, c := range commands() {
		known = append(known, c.name)
	}
	near := cmp.Or(otherNames[name], config.Nearest(name, known, len(name)/3+2))
	if near == "" {
		return fmt.Errorf("unknown command %q, see tsdbd help", name)
	}
	return fmt.Errorf("unknown command %q, did you mean tsdbd %s? See tsdbd help", name, near)
}

// run parses the arguments and runs the command, or tells its help.
func (c *command) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, do := c.flags()
	rest, err := f.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return c.writeHelp(stdout)
	}
	if err != nil {
		return f.usageError("%v", err)
	}
	return do(ctx, rest, stdout, stderr)
}

// flags declares the command's flags.
func (c *command) flags() (*commandFlags, action) {
	f := &commandFlags{flag.NewFlagSet(c.name, flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	return f, c.define(f)
}

// commandFlags are a sub-command's flags. A usage text names the flag's
// argument in back quotes: FILE and DIR complete as such, a|b|c as these words.
type commandFlags struct{ *flag.FlagSet }

// parse reads the arguments; flags may stand behind other arguments.
func (f *commandFlags) parse(args []string) (rest []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, f.Arg(0)), f.Args()[1:]
	}
}

// usageError is a wrong use of a sub-command.
func (f *commandFlags) usageError(format string, args ...any) error {
	return fmt.Errorf("%s, see tsdbd %s -help", fmt.Sprintf(format, args...), f.Name())
}

// nothingElse is the error of arguments where none are taken.
func (f *commandFlags) nothingElse(args []string) error {
	if len(args) == 0 {
		return nil
	}
	return f.usageError("unexpected argument %q", strings.Join(args, " "))
}
