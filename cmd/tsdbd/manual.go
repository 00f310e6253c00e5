package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

func manCommand() *command {
	return &command{
		name:     "man",
		summary:  "print the manual page",
		about:    `tsdbd man prints the manual page of tsdbd, with all commands, in the language of man.`,
		usage:    []string{""},
		examples: []example{{"tsdbd man | man -l -", "read it"}, {"tsdbd man > /usr/local/share/man/man1/tsdbd.1", "install it"}},
		define: func(f *commandFlags) action {
			return func(_ context.Context, rest []string, stdout, _ io.Writer) error {
				if err := f.nothingElse(rest); err != nil {
					return err
				}
				_, err := io.WriteString(stdout, manual())
				return err
			}
		},
	}
}

// roff escapes text for man: hyphens are those of command lines, and no line
// begins with what roff takes for a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// roffText writes paragraphs, and lines that begin with two spaces as they are.
func roffText(b *bytes.Buffer, text string) {
	literal := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if as := strings.HasPrefix(line, "  "); as != literal {
			literal = as
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[as])
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if literal {
		b.WriteString(".fi\n")
	}
}

// manual returns the manual page.
func manual() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH TSDBD 1 \"\" \"tsdbd %s\" \"User Commands\"\n", version)
	b.WriteString(".SH NAME\ntsdbd \\- time-series database server with the InfluxDB 1.x HTTP API\n.SH SYNOPSIS\n.B tsdbd\n.RI [ COMMAND ]\n.RI [ flags ]\n.SH DESCRIPTION\n")
	roffText(&b, programAbout)
	b.WriteString(".SH COMMANDS\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, ".SS %s\n", c.name)
		for i, u := range c.usage {
			if i > 0 {
				b.WriteString(".br\n")
			}
			fmt.Fprintf(&b, ".B %s\n", roff(c.line(u)))
		}
		b.WriteString(".PP\n")
		roffText(&b, c.about)
		f, _ := c.flags()
		f.VisitAll(func(f *flag.Flag) {
			typed, _, does := flagText(f)
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(typed), roff(does))
		})
		b.WriteString(".PP\nExamples:\n")
		for _, e := range c.examples {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(e.line), roff(e.does))
		}
	}
	b.WriteString(".SH ENVIRONMENT\n")
	roffText(&b, settingsNote+`

TSDBD_CONFIG names the file of settings; TSDBD_HOST, TSDBD_USERNAME and TSDBD_PASSWORD are the server and the login of commands that talk to one. GOMEMLIMIT is taken as the limit of the heap.`)
	b.WriteString(".SH FILES\n.TP\n.I /etc/tsdbd/tsdbd.toml\nSettings of the packaged service.\n.TP\n.I /var/lib/tsdbd\nData of the packaged service.\n")
	b.WriteString(".SH EXIT STATUS\n0 on success. 1 on failure, also when verify found damage, import was refused points, or health finds a server that does not take writes.\n")
	b.WriteString(".SH SIGNALS\nSIGTERM and SIGINT stop the server in order, a second one at once. SIGHUP reads the configuration again.\n")
	b.WriteString(".SH SEE ALSO\n.BR curl (1),\n.BR influx (1),\n.BR telegraf (1)\n")
	return b.String()
}
