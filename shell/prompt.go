package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"unicode/utf8"

	"github.com/reeflective/readline"
	"github.com/reeflective/readline/inputrc"
	"golang.org/x/term"
)

// Prompt reads lines from the terminal and runs them until the user ends it. The lines
// are kept in historyFile; "" keeps none. Interrupt ends the statement that runs.
func (s *Session) Prompt(ctx context.Context, historyFile string) error {
	rl := readline.NewShell()
	past := openHistory(historyFile)
	s.history, s.secret = past.list, ReadPassword
	rl.History.Delete()
	rl.History.Add("tsdbd", past)
	rl.Prompt.Primary(func() string {
		prompt := s.Database
		if s.RetentionPolicy != "" {
			prompt += "." + s.RetentionPolicy
		}
		if s.promQL() {
			prompt = strings.TrimSpace(prompt + " " + s.Language)
		}
		return prompt + "> "
	})
	rl.Prompt.Secondary(func() string { return ". " })
	readAhead(rl)
	dropLine(rl)
	rl.AcceptMultiline = func(line []rune) bool { return s.completeLine(string(line)) }
	c := &completer{session: s}
	rl.Completer = func(line []rune, cursor int) readline.Completions {
		word, candidates := c.complete(string(line[:cursor]))
		found := readline.CompleteValues(fitting(candidates)...).NoSpace('(')
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
			if can := hint(err); can != "" {
				fmt.Fprintln(s.Out, "hint:", can)
			}
		}
	}
}

// ReadPassword asks for a password on the terminal, and does not show what is typed.
func ReadPassword(question string) (string, error) {
	fmt.Fprint(os.Stderr, question)
	defer fmt.Fprintln(os.Stderr)
	password, err := term.ReadPassword(int(os.Stdin.Fd()))
	return string(password), err
}

// readAhead keeps what is typed while a statement runs or a line is drawn. The library
// asks the terminal for the position of the cursor whenever it draws, and drops keys that
// arrive with the answer. Without the question it does not know whether there are rows
// below the line, so each drawing of the line makes two, one of them for a line that ends
// at the right edge: index, which scrolls in the last row, and up.
func readAhead(rl *readline.Shell) {
	const rowsBelow = "\x1bD\x1bD\x1b[2A"
	_ = rl.Config.Set("cursor-position-probe", false)
	rl.SyntaxHighlighter = func(line []rune) string { return string(line) + rowsBelow }
}

// dropLine has Ctrl-C drop the line in lists of completions and in searches as well,
// which otherwise end and keep the line.
func dropLine(rl *readline.Shell) {
	const name = "drop-line"
	abort := rl.Keymap.Commands()["abort"]
	rl.Keymap.Register(map[string]func(){name: func() {
		if rl.Keymap.Local() != "" {
			abort()
		}
		rl.Display.ResetHelpers()
		rl.Display.AcceptLine()
		rl.History.Accept(false, false, readline.ErrInterrupt)
	}})
	for _, binds := range rl.Config.Binds {
		binds["\x03"] = inputrc.Bind{Action: name}
	}
}

// fitting returns as many of the candidates as fit on the terminal below the line.
func fitting(candidates []string) []string {
	columns, rows, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		return candidates
	}
	longest := 0
	for _, c := range candidates {
		longest = max(longest, utf8.RuneCountInString(c))
	}
	const gap, keep = 2, 4 // columns between names, and rows for the line and what is above
	return candidates[:min(len(candidates), max(1, columns/(longest+gap))*max(1, rows-keep))]
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
