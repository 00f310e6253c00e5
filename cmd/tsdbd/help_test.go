package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelp asks every command for its help in all ways: it must name its use,
// every flag and an example, on lines of a terminal's width.
func TestHelp(t *testing.T) {
	overview := must(t, "help")
	if must(t, "-h") != overview || must(t, "--help") != overview {
		t.Error("tsdbd -h is not tsdbd help")
	}
	for _, c := range commands() {
		out := must(t, "help", c.name)
		for _, flag := range []string{"-h", "-help", "--help"} {
			if must(t, c.name, flag) != out {
				t.Errorf("%s %s is not help %s", c.name, flag, c.name)
			}
		}
		if !strings.HasPrefix(out, "tsdbd "+c.name+" ") || !strings.Contains(out, "\nUsage: tsdbd "+c.name) {
			t.Errorf("help of %s: %q", c.name, out)
		}
		for _, e := range c.examples {
			if !strings.Contains(out, "\n  "+e.line+"\n") {
				t.Errorf("help of %s lacks %s", c.name, e.line)
			}
		}
		if !strings.Contains(overview, "\n  "+c.name+" ") || !strings.Contains(overview, c.examples[0].line) {
			t.Errorf("tsdbd help does not show %s", c.name)
		}
		f, _ := c.flags()
		f.VisitAll(func(f *flag.Flag) {
			if typed, _, does := flagText(f); !strings.Contains(out, "\n  "+typed) || does == "" {
				t.Errorf("help of %s lacks %s", c.name, typed)
			}
		})
		for line := range strings.Lines(out) {
			if len(line) > helpWidth+1 && !strings.HasPrefix(line, "  tsdbd") {
				t.Errorf("help of %s has a line of %d: %s", c.name, len(line), line)
			}
		}
		if _, _, err := tsdbd(t, c.name, "-no-such-flag"); err == nil || !strings.HasSuffix(err.Error(), "see tsdbd "+c.name+" -help") {
			t.Errorf("%s with an unknown flag: %v", c.name, err)
		}
	}
}

// TestExamplesParse runs the flags of every example through its command's.
func TestExamplesParse(t *testing.T) {
	for _, c := range commands() {
		for _, e := range c.examples {
			_, line, ok := strings.Cut(" "+e.line, " tsdbd ")
			if !ok {
				if _, ok = strings.CutSuffix(" "+e.line, " tsdbd"); ok {
					continue
				}
				_, line, ok = strings.Cut(e.line, "(tsdbd ")
			}
			if !ok {
				t.Errorf("%s: no tsdbd in %s", c.name, e.line)
				continue
			}
			line, _, _ = strings.Cut(line, " |")
			line, _, _ = strings.Cut(line, " >")
			args := strings.Fields(strings.NewReplacer(")", "", "'", "").Replace(line))
			name := c.name
			if args[0] == c.name {
				args = args[1:]
			} else if !strings.HasPrefix(args[0], "-") {
				t.Errorf("%s: an example of another command: %s", c.name, e.line)
			}
			f, _ := commandNamed(name).flags()
			if _, err := f.parse(args); err != nil {
				t.Errorf("%s: %v", e.line, err)
			}
		}
	}
}

func TestHelpHidesThePassword(t *testing.T) {
	t.Setenv("TSDBD_PASSWORD", "sesame")
	for _, c := range commands() {
		if out := must(t, "help", c.name); strings.Contains(out, "sesame") {
			t.Error(out)
		}
	}
	if strings.Contains(manual()+bashCompletion()+zshCompletion()+fishCompletion(), "sesame") {
		t.Error("the password is in generated text")
	}
}

// TestManual reads the manual page as man does.
func TestManual(t *testing.T) {
	page := must(t, "man")
	for _, c := range commands() {
		f, _ := c.flags()
		f.VisitAll(func(f *flag.Flag) {
			if !strings.Contains(page, "\n.B "+roff("-"+f.Name)) {
				t.Errorf("%s -%s is missing", c.name, f.Name)
			}
		})
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

// TestBashCompletion types into a shell that has read the script.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	dir := t.TempDir()
	for _, name := range []string{"points.txt", "backups/x"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := must(t, "completion", "bash")
	f := func(line, want string) {
		t.Helper()
		words := strings.Split(line, " ")
		typed := make([]string, len(words))
		for i, w := range words {
			typed[i] = quoteShell(w)
		}
		cmd := exec.Command(bash, "--norc", "-c", script+"\ncompopt() { :; }\nCOMP_WORDS=("+strings.Join(typed, " ")+"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _tsdbd; echo ${COMPREPLY[*]}")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", line, got, err, want)
		}
	}
	f("tsdbd ba", "backup")
	f("tsdbd -da", "-data")
	f("tsdbd -log-level de", "debug")
	f("tsdbd backup -pr", "-prune")
	f("tsdbd backup ba", "backups")
	f("tsdbd import po", "points.txt")
	f("tsdbd import -precision m", "ms m")
	f("tsdbd inspect ts", "tsm tsi")
	f("tsdbd inspect tsm po", "points.txt")
	f("tsdbd restore -data ", "backups")
	f("tsdbd help res", "restore")
	f("tsdbd completion f", "fish")
}

// TestOtherCompletions reads the scripts of the other shells where they are
// installed; the names in them are checked everywhere.
func TestOtherCompletions(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		script := must(t, "completion", shell)
		for _, c := range commands() {
			f, _ := c.flags()
			f.VisitAll(func(f *flag.Flag) {
				if !strings.Contains(script, "-"+f.Name+"[") && !strings.Contains(script, "-o "+f.Name+" ") {
					t.Errorf("%s: %s -%s is missing", shell, c.name, f.Name)
				}
			})
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
	if fish, err := exec.LookPath("fish"); err == nil {
		for line, want := range map[string]string{
			"tsdbd ba": "backup\t", "tsdbd -da": "-data\t", "tsdbd serve -da": "-data\t", "tsdbd backup -pr": "-prune\t",
			"tsdbd import -precision m": "m\t", "tsdbd help res": "restore",
		} {
			cmd := exec.Command(fish, "--no-config", "-c", must(t, "completion", "fish")+"\ncomplete -C "+quoteShell(line))
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), want) {
				t.Errorf("fish: %s: %q %v, want %s", line, out, err, want)
			}
		}
	}
	if _, _, err := tsdbd(t, "completion", "tcsh"); err == nil {
		t.Error("tcsh passes")
	}
}

func TestHealth(t *testing.T) {
	s := startServer(t, t.TempDir())
	if out := must(t, "health", "-host", s.base); !strings.Contains(out, "ready") {
		t.Errorf("said %q", out)
	}
	t.Setenv("TSDBD_HOST", strings.TrimPrefix(s.base, "http://"))
	if out := must(t, "health"); !strings.Contains(out, "ready") {
		t.Errorf("TSDBD_HOST: said %q", out)
	}
	if _, _, err := tsdbd(t, "health", "-host", "http://127.0.0.1:1"); err == nil {
		t.Error("TSDBD_HOST wins over -host")
	}
	s.kill()
	if _, _, err := tsdbd(t, "health", "-host", s.base); err == nil {
		t.Error("a server that is gone is well")
	}
}
