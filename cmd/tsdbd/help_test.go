package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"

	"github.com/urfave/cli/v3"
)

// command is a command of the program and the words that call it.
type command struct {
	*cli.Command
	words []string
}

func (c *command) name() string { return strings.Join(c.words, " ") }

// run runs the command with arguments.
func (c *command) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, _, err := tsdbd(t, append(slices.Clip(c.words), args...)...)
	return out, err
}

// commandsOf returns the commands of the program that are its own.
func commandsOf(t *testing.T) (list []command) {
	t.Helper()
	walk(program(io.Discard, io.Discard), nil, func(words []string, c *cli.Command) {
		if words[0] != "help" && words[0] != "completion" {
			list = append(list, command{c, words})
		}
	})
	return list
}

// TestHelp asks every command for its help in all ways: it must name its use,
// every flag and an example, in paragraphs of a terminal's width.
func TestHelp(t *testing.T) {
	overview := must(t, "help")
	if must(t, "-h") != overview || must(t, "--help") != overview {
		t.Error("tsdbd -h is not tsdbd help")
	}
	for _, c := range commandsOf(t) {
		out, err := c.run(t, "-h")
		if err != nil {
			t.Fatal(err)
		}
		asks := [][]string{append(slices.Clip(c.words), "-help"), append(slices.Clip(c.words), "--help")}
		if len(c.words) == 1 {
			asks = append(asks, []string{"help", c.Name})
			if !strings.Contains(overview, "\n   "+c.Name+" ") {
				t.Errorf("tsdbd help does not show %s", c.Name)
			}
		}
		for _, ask := range asks {
			if must(t, ask...) != out {
				t.Errorf("%s is not %s -h", ask, c.name())
			}
		}
		if !strings.Contains(out, "\n   tsdbd "+c.name()) || !strings.Contains(out, "\n   Examples:\n     ") {
			t.Errorf("help of %s: %q", c.name(), out)
		}
		for _, f := range c.Flags {
			if !strings.Contains(out, "\n   --"+f.Names()[0]) {
				t.Errorf("help of %s lacks -%s", c.name(), f.Names()[0])
			}
		}
		text, _, _ := strings.Cut(out, "OPTIONS:")
		for line := range strings.Lines(text) {
			if len(line) > helpWidth+1 && !strings.HasPrefix(line, "     ") || strings.HasSuffix(line, " \n") {
				t.Errorf("help of %s has a line of %d: %s", c.name(), len(line), line)
			}
		}
		if _, err := c.run(t, "-no-such-flag"); err == nil || !strings.HasSuffix(err.Error(), "see tsdbd "+c.name()+" -help") {
			t.Errorf("%s with an unknown flag: %v", c.name(), err)
		}
	}
}

// TestHelpBesideArguments asks for help after an argument, and about what is no
// command.
func TestHelpBesideArguments(t *testing.T) {
	for _, args := range [][]string{{"inspect", "report", "-h"}, {"import", "file", "-help"}, {"help", "inspect", "report"}} {
		name := args[0]
		if name == "help" {
			name = args[1]
		}
		if must(t, args...) != must(t, "help", name) {
			t.Errorf("%q is not the help of %s", args, name)
		}
	}
	for _, args := range [][]string{{"help", "verfy"}, {"verfy", "-h"}, {"verfy"}} {
		if _, _, err := tsdbd(t, args...); err == nil || err.Error() != `unknown command "verfy", did you mean tsdbd verify? See tsdbd help` {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, _, err := tsdbd(t, "completion", "csh"); err == nil || err.Error() != `unexpected argument "csh", see tsdbd completion -help` {
		t.Errorf("completion for csh: %v", err)
	}
}

// TestFlagsBeforeCommands: flags of the server before a command have no effect on
// it, and are refused.
func TestFlagsBeforeCommands(t *testing.T) {
	for _, args := range [][]string{
		{"-config", "/nonexistent", "config"},
		{"--data", t.TempDir(), "config"},
		{"-http=127.0.0.1:1", "health"},
		{"-version", "config"},
		{"-log-level", "debug", "help"},
		{"import", "-db", "d", "prometheus", "dir"},
	} {
		if out, _, err := tsdbd(t, args...); err == nil || !strings.Contains(err.Error(), " is before the command ") || out != "" {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	must(t, "config", "-http", "127.0.0.1:1")
}

// TestExamplesParse runs the arguments of every example through the program,
// whose actions do nothing.
func TestExamplesParse(t *testing.T) {
	examples := 0
	for _, c := range commandsOf(t) {
		_, list, _ := strings.Cut(c.Description, "\nExamples:\n")
		for line := range strings.Lines(list) {
			line, _, _ = strings.Cut(line, " #")
			line, _, _ = strings.Cut(line, " |")
			line, _, _ = strings.Cut(line, " >")
			_, line, ok := strings.Cut(strings.TrimSpace(line)+" ", "tsdbd ")
			if !ok {
				continue // what the example above does
			}
			examples++
			args := strings.Fields(strings.ReplaceAll(line, "'", ""))
			ran := ""
			p := program(io.Discard, io.Discard)
			act := func(_ context.Context, c *cli.Command) error { ran = c.FullName(); return nil }
			p.Action = act
			walk(p, nil, func(_ []string, c *cli.Command) { c.Action = act })
			if err := p.Run(t.Context(), append([]string{"tsdbd"}, args...)); err != nil || ran != "tsdbd "+c.name() && (c.Name != "serve" || ran != "tsdbd") {
				t.Errorf("%s: tsdbd %s runs %q, %v", c.name(), line, ran, err)
			}
		}
	}
	if examples < 20 {
		t.Errorf("%d examples", examples)
	}
}

func TestHelpHidesThePassword(t *testing.T) {
	t.Setenv("TSDBD_PASSWORD", "sesame")
	for _, c := range commandsOf(t) {
		if out, err := c.run(t, "-h"); err != nil || strings.Contains(out, "sesame") {
			t.Error(out)
		}
	}
	if strings.Contains(must(t, "man"), "sesame") {
		t.Error("the password is in the manual")
	}
}

// TestManual reads the manual page as man does.
func TestManual(t *testing.T) {
	page := must(t, "man")
	for _, c := range commandsOf(t) {
		for _, f := range c.Flags {
			if !strings.Contains(page, "\n.B "+roff("--"+f.Names()[0])) {
				t.Errorf("%s -%s is missing", c.Name, f.Names()[0])
			}
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	cmd := exec.Command(groff, "-ww", "-man", "-Tutf8", "-rLL=100n")
	cmd.Stdin = strings.NewReader(page)
	var warnings strings.Builder
	cmd.Stderr = &warnings
	text, err := cmd.Output()
	if err != nil || warnings.Len() > 0 {
		t.Errorf("groff: %v\n%s", err, warnings.String())
	}
	if !strings.Contains(string(text), "keep the newest N backups") || strings.Contains(string(text), `\e`) {
		t.Errorf("%s", text)
	}
}

// TestCompletion asks for what completes a line, as the scripts of the shells do.
func TestCompletion(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		args := os.Args
		defer func() { os.Args = args }()
		os.Args = append(strings.Fields(line), "--generate-shell-completion") // where the library looks
		var words []string
		for l := range strings.Lines(must(t, os.Args[1:]...)) {
			word, _, _ := strings.Cut(strings.TrimSpace(l), ":")
			words = append(words, word)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	f("tsdbd", "serve query config health backup restore export import board inspect verify cluster cold man version help completion")
	f("tsdbd -da", "--data")
	f("tsdbd -log-level", "debug info warn error")
	f("tsdbd backup -pr", "--prune")
	f("tsdbd backup", "") // names of files
	f("tsdbd import -precision", "ns us ms s m h")
	f("tsdbd inspect", "wal tsm tsi series manifest shard encodings report")
	f("tsdbd inspect tsm", "")
	f("tsdbd cluster", "status verify scrub transfer-leader remove add finish-upgrade leave")
	f("tsdbd cluster remove", "") // the program does not know the names
	f("tsdbd -cluster-no", "--cluster-node")
	f("tsdbd restore -data", "")
	f("tsdbd completion", "bash zsh fish pwsh")
}

// TestCompletionScripts has each shell that is installed read its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := must(t, "completion", shell)
		if !strings.Contains(script, "--generate-shell-completion") || strings.Contains(script, "complete -c tsdbd -f") {
			t.Errorf("%s: %s", shell, script)
		}
		bin, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed: its script is not read by it", shell)
			continue
		}
		cmd := exec.Command(bin, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
	if _, _, err := tsdbd(t, "completion", "tcsh"); err == nil {
		t.Error("tcsh passes")
	}
}

// TestBashCompletion completes lines in a bash without the package bash-completion.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	script := apptest.TempFile(t, must(t, "completion", "bash"))
	f := func(line, want string) {
		t.Helper()
		cmd := exec.Command(bash, "--norc", "--noprofile", "-c",
			`source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMP_TYPE=$TYPE; _tsdbd_complete; printf '%s\n' "${COMPREPLY[@]}"`, script)
		cmd.Args = append(cmd.Args, strings.Split(line, " ")...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(apptest.Binary(t))+string(filepath.ListSeparator)+os.Getenv("PATH"), "TYPE=9")
		if strings.HasSuffix(line, "?") {
			cmd.Args[len(cmd.Args)-1] = strings.TrimSuffix(cmd.Args[len(cmd.Args)-1], "?")
			cmd.Env = append(cmd.Env, "TYPE=63")
		}
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %v %q, want %q", line, err, got, want)
		}
	}
	f("tsdbd ba", "backup")
	f("tsdbd inspect t", "tsm\ntsi")
	f("tsdbd -da", "-data")
	f("tsdbd --da", "--data")
	f("tsdbd backup -pr", "-prune")
	f("tsdbd -log-level w", "warn")
	f("tsdbd restore -data ", "")
	f("tsdbd -data $(echo >&2) ba", "backup") // it runs nothing
	f("tsdbd vers?", "version                  print the version")
}

func TestHealth(t *testing.T) {
	s := apptest.Start(t)
	if out := must(t, "health", "-host", s.URL); !strings.Contains(out, "ready") {
		t.Errorf("said %q", out)
	}
	t.Setenv("TSDBD_HOST", strings.TrimPrefix(s.URL, "http://"))
	if out := must(t, "health"); !strings.Contains(out, "ready") {
		t.Errorf("TSDBD_HOST: said %q", out)
	}
	if _, _, err := tsdbd(t, "health", "-host", "http://127.0.0.1:1"); err == nil {
		t.Error("TSDBD_HOST wins over -host")
	}
	s.Kill()
	if _, _, err := tsdbd(t, "health", "-host", s.URL); err == nil {
		t.Error("a server that is gone is well")
	}
}
