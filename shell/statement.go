package shell

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"tsdbd/query/syntax"
)

// maxLine bounds a line of an input.
const maxLine = 16 << 20

// Run runs the commands and statements of an input until one fails. A statement ends at
// ';' and may span lines. Without ';' a whole statement ends before a line that begins
// another one, and with the input: a line such as WHERE belongs to the statement above
// it, which is never run without it. PromQL is read line by line, unless a parenthesis or
// a quote is open.
func (s *Session) Run(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	pending := ""
	run := func() error {
		text := pending
		pending = ""
		return s.Line(ctx, text)
	}
	for lines.Scan() {
		line := lines.Text()
		if pending != "" && s.complete(pending) && s.begins(line) && !continues(pending+"\n"+line) {
			if err := run(); err != nil {
				return ended(err)
			}
		}
		if pending == "" {
			pending = strings.TrimSpace(line)
		} else {
			pending += "\n" + line
		}
		if isCommand(pending) || ignored(pending) || s.complete(pending) && (s.promQL() || strings.HasSuffix(strings.TrimSpace(pending), ";")) {
			if err := run(); err != nil {
				return ended(err)
			}
		}
	}
	return errors.Join(ended(run()), lines.Err())
}

// ended returns the error of an input: the command exit ends it without one.
func ended(err error) error {
	if errors.Is(err, ErrExit) {
		return nil
	}
	return err
}

// begins reports whether a line begins a statement or is a command.
func (s *Session) begins(line string) bool {
	word := strings.ToUpper(firstWord(line))
	return isCommand(line) || slices.Contains(syntax.Beginnings(), word)
}

// continues reports whether a text is a statement, or the beginning of one. Words such as
// DROP begin statements and clauses.
func continues(text string) bool {
	_, err := syntax.Parse(text, nil)
	return err == nil || strings.Contains(err.Error(), tooEarly)
}

// tooEarly is in the error of the grammar at the end of a text.
const tooEarly = "found EOF"

// complete reports whether a text can run: it ends as a statement does. An error other
// than its early end is the server's to explain.
func (s *Session) complete(text string) bool {
	if s.promQL() {
		return !open(text)
	}
	_, err := syntax.Parse(text, nil)
	return err == nil || !open(text) && !strings.Contains(err.Error(), tooEarly)
}

// completeLine reports whether what was typed at the prompt can run. An empty line at the
// end has it run in any case.
func (s *Session) completeLine(text string) bool {
	return isCommand(text) || ignored(text) || strings.HasSuffix(text, "\n") || s.complete(text)
}

// ignored reports whether a text is empty or a comment of one line.
func ignored(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || (strings.HasPrefix(text, "--") || strings.HasPrefix(text, "#")) && !strings.Contains(text, "\n")
}

// firstWord returns what is before the first space, ';' or end of a text.
func firstWord(text string) string {
	text = strings.TrimSpace(text)
	if end := strings.IndexAny(text, " \t\n;"); end >= 0 {
		return text[:end]
	}
	return text
}

// open reports whether a text ends inside of quotes, brackets or a comment.
func open(text string) bool {
	var quote rune
	escaped, depth := false, 0
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case quote != 0 && r == '\\':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"' || r == '`':
			quote = r
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		}
	}
	return quote != 0 || depth > 0
}
