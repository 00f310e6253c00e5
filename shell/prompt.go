package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/reeflective/readline"
)

// Prompt reads lines from the terminal and runs them until the user ends it. The lines
// are kept in historyFile; "" keeps none. Interrupt ends the statement that runs.
func (s *Session) Prompt(ctx context.Context, historyFile string) error {
	rl := readline.NewShell()
	past := openHistory(historyFile)
	s.history = past.list
	rl.History.Delete()
	rl.History.Add("tsdbd", past)
	rl.Prompt.Primary(func() string {
		switch {
		case s.RetentionPolicy != "":
			return s.Database + "." + s.RetentionPolicy + "> "
		case s.Database != "":
			return s.Database + "> "
		}
		return "> "
	})
	rl.Prompt.Secondary(func() string { return ". " })
	rl.AcceptMultiline = func(line []rune) bool { return complete(string(line)) }
	c := &completer{session: s}
	rl.Completer = func(line []rune, cursor int) readline.Completions {
		word, candidates := c.complete(string(line[:cursor]))
		found := readline.CompleteValues(candidates...).NoSpace('(')
		found.PREFIX = word
		return found
	}
	for {
		line, err := rl.Readline()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch err := s.interruptible(ctx, line); {
		case errors.Is(err, ErrExit):
			return nil
		case errors.Is(err, ErrStatement): // it has been written
		case errors.Is(err, errInterrupted):
			fmt.Fprintln(s.Out, err)
		case err != nil:
			fmt.Fprintln(s.Out, "ERR:", err)
		}
	}
}

// interruptible runs a line that an interrupt ends: the request is cut, and the server
// ends its query.
func (s *Session) interruptible(ctx context.Context, line string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	err := s.Line(ctx, line)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// errInterrupted is the error of a line that the user has ended.
var errInterrupted = errors.New("interrupted")

// complete reports whether what was typed can run. Open quotes, open parentheses and a
// comma at the end ask for another line, unless the last line is empty.
func complete(text string) bool {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, `\`) || strings.HasSuffix(text, "\n") {
		return true
	}
	return !strings.HasSuffix(trimmed, ",") && !open(trimmed)
}

// open reports whether a text ends inside of quotes or parentheses.
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
		case r == '\'' || r == '"':
			quote = r
		case r == '(':
			depth++
		case r == ')':
			depth--
		}
	}
	return quote != 0 || depth > 0
}
