package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"tsdbd/internal/version"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name:  "man",
		Usage: "print the manual page",
		Description: `tsdbd man prints the manual page of tsdbd, with all commands, in the language of man.

Examples:
  tsdbd man | man -l -                # read it
  tsdbd man > /usr/local/share/man/man1/tsdbd.1
                                      # install it`,
		Action: action(func(_ context.Context, c *cli.Command, _ []string, stdout, _ io.Writer) error {
			if err := noArguments(c); err != nil {
				return err
			}
			_, err := io.WriteString(stdout, manual(c.Root()))
			return err
		}),
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

// manual returns the manual page of a program.
func manual(root *cli.Command) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH TSDBD 1 \"\" \"tsdbd %s\" \"User Commands\"\n", version.String())
	fmt.Fprintf(&b, ".SH NAME\ntsdbd \\- %s\n.SH SYNOPSIS\n.B tsdbd\n.RI [ COMMAND ]\n.RI [ flags ]\n.SH DESCRIPTION\n", roff(root.Usage))
	roffText(&b, root.Description)
	b.WriteString(".SH COMMANDS\n")
	walk(root, nil, func(words []string, c *cli.Command) {
		if c.Hidden || words[0] == "completion" && len(words) > 1 {
			return
		}
		fmt.Fprintf(&b, ".SS %s\n", strings.Join(words, " "))
		b.WriteString(".nf\n")
		for form := range strings.Lines(cmp.Or(c.UsageText, "tsdbd "+strings.Join(words, " "))) {
			fmt.Fprintf(&b, ".B %s\n", roff(strings.TrimSpace(form)))
		}
		b.WriteString(".fi\n.PP\n")
		roffText(&b, cmp.Or(c.Description, c.Usage))
		for _, f := range c.VisibleFlags() {
			typed, does, _ := strings.Cut(f.String(), "\t")
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(typed), roff(does))
		}
	})
	b.WriteString(".SH ENVIRONMENT\n")
	roffText(&b, settingsNote+`

TSDBD_CONFIG names the file of settings; TSDBD_HOST, TSDBD_USERNAME and TSDBD_PASSWORD are the server and the login of commands that talk to one. TSDBD_S3_ENDPOINT, TSDBD_S3_ACCESS_KEY and TSDBD_S3_SECRET_KEY are those of backups in a bucket. GOMEMLIMIT is the limit of the heap.`)
	b.WriteString(".SH FILES\n.TP\n.I /etc/tsdbd/tsdbd.toml\nSettings of the packaged service.\n.TP\n.I /var/lib/tsdbd\nData of the packaged service.\n")
	b.WriteString(".SH EXIT STATUS\n0 on success. 1 on failure, also when verify found damage, import was refused points, health finds a server that does not take writes, cluster status a degraded cluster, or cluster verify nodes that differ.\n")
	b.WriteString(".SH SIGNALS\nSIGTERM and SIGINT stop the server in order, a second one at once. SIGHUP reads the configuration again.\n")
	b.WriteString(".SH SEE ALSO\n.BR curl (1),\n.BR influx (1),\n.BR telegraf (1)\n")
	return b.String()
}
