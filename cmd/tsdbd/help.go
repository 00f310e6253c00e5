package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// helpWidth is how long lines of help are.
const helpWidth = 80

const programAbout = `tsdbd is a time-series database server with the HTTP API, the line protocol and the query language of InfluxDB 1.x.`

const helpStart = `Start here:
  tsdbd                                            # in one terminal
  curl -X POST 'http://127.0.0.1:8086/query' --data-urlencode 'q=CREATE DATABASE demo'
  curl -X POST 'http://127.0.0.1:8086/write?db=demo' --data-binary 'weather,city=oslo temperature=-3.5'
  curl -G 'http://127.0.0.1:8086/query' --data-urlencode 'db=demo' --data-urlencode 'q=SELECT * FROM weather'
`

func helpCommand() *command {
	return &command{
		name:     "help",
		summary:  "tell what the program and its commands do",
		about:    `tsdbd help tells what the program does, and with the name of a command what that does.`,
		usage:    []string{"[COMMAND]"},
		operands: "COMMAND",
		examples: []example{{"tsdbd help backup", "what tsdbd backup does, its flags and examples"}},
		define: func(f *commandFlags) action {
			return func(_ context.Context, rest []string, stdout, _ io.Writer) error {
				if len(rest) == 0 {
					return writeOverview(stdout)
				}
				c := commandNamed(rest[0])
				if c == nil || len(rest) > 1 {
					return unknownCommand(strings.Join(rest, " "))
				}
				return c.writeHelp(stdout)
			}
		},
	}
}

// writeOverview tells what the program does.
func writeOverview(w io.Writer) error {
	var b bytes.Buffer
	wrap(&b, programAbout, "", helpWidth)
	b.WriteString("\nUsage: tsdbd [COMMAND] [flags]\n\n" + helpStart + "\nCommands, each with an example:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-12s%s\n", c.name, c.summary)
		fmt.Fprintf(&b, "  %-12s  %s\n", "", c.examples[0].line)
	}
	b.WriteString("\nFlags of serve and config:\n")
	f, _ := serveCommand().flags()
	f.writeFlags(&b)
	b.WriteByte('\n')
	wrap(&b, settingsNote, "", helpWidth)
	b.WriteString("\ntsdbd COMMAND -help tells all about a command.\n")
	_, err := w.Write(b.Bytes())
	return err
}

// writeHelp tells all about a command.
func (c *command) writeHelp(w io.Writer) error {
	var b bytes.Buffer
	wrap(&b, c.about, "", helpWidth)
	b.WriteByte('\n')
	for i, u := range c.usage {
		b.WriteString([]string{"Usage: ", "       "}[min(i, 1)] + c.line(u) + "\n")
	}
	f, _ := c.flags()
	if f.any() {
		b.WriteString("\nFlags:\n")
		f.writeFlags(&b)
	}
	if c.notes != "" {
		b.WriteByte('\n')
		wrap(&b, c.notes, "", helpWidth)
	}
	b.WriteString("\nExamples:\n")
	for _, e := range c.examples {
		b.WriteString("  " + e.line + "\n")
		if e.does != "" {
			b.WriteString("      " + e.does + "\n")
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// line returns a form of the command as it is typed.
func (c *command) line(usage string) string {
	return strings.TrimSpace("tsdbd " + c.name + " " + usage)
}

// any tells whether there are flags.
func (f *commandFlags) any() bool {
	found := false
	f.VisitAll(func(*flag.Flag) { found = true })
	return found
}

// flagText returns a flag as it is typed and what it does, with its default. An
// argument that is one of some words is typed as the end of the flag's name.
func flagText(f *flag.Flag) (typed, argument, does string) {
	argument, does = flag.UnquoteUsage(f)
	typed = "-" + f.Name
	switch {
	case words(argument) != nil:
		typed += " " + strings.ToUpper(f.Name[strings.LastIndexByte(f.Name, '-')+1:])
	case argument != "":
		typed += " " + argument
	}
	if d := f.DefValue; d != "" && d != "0" && d != "false" {
		does += " (default " + d + ")"
	}
	return typed, argument, does
}

// writeFlags lists the flags.
func (f *commandFlags) writeFlags(b *bytes.Buffer) {
	const column = 22
	f.VisitAll(func(f *flag.Flag) {
		typed, _, does := flagText(f)
		start := fmt.Sprintf("  %-*s", column-2, typed+" ")
		if len(start) > column {
			b.WriteString(strings.TrimRight(start, " ") + "\n")
			start = strings.Repeat(" ", column)
		}
		var text bytes.Buffer
		wrap(&text, does, strings.Repeat(" ", column), helpWidth)
		b.WriteString(start + text.String()[column:])
	})
}

// wrap writes text in lines of a width, each behind indent. Lines that begin
// with two spaces stay as they are; others are paragraphs.
func wrap(b *bytes.Buffer, text, indent string, width int) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "  ") {
			b.WriteString(strings.TrimRight(indent+line, " ") + "\n")
			continue
		}
		at := 0
		for word := range strings.FieldsSeq(line) {
			switch {
			case at == 0:
				b.WriteString(indent)
				at = len(indent)
			case at+1+len(word) > width:
				b.WriteString("\n" + indent)
				at = len(indent)
			default:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += len(word)
		}
		b.WriteByte('\n')
	}
}

// words are the choices that an argument's name lists, nil if it lists none.
func words(argument string) []string {
	if !strings.Contains(argument, "|") {
		return nil
	}
	return strings.Split(argument, "|")
}

// commandNames returns the names of all commands.
func commandNames() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return names
}
