// Package script runs tests that are written as stories: files of commands with
// their input and what they print. The flag -rewrite writes what they print now.
//
// A file begins with the story in lines that begin with "#", which may also stand
// between commands. A command is a line, lines of input, "----", and its output up
// to an empty line. A command that prints nothing may leave "----" out.
package script

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the outputs of the scripts in testdata")

// Command is one command of a script.
type Command struct {
	Name  string
	Args  []string // of its line, behind the name
	Input []string // the lines below it
}

// Run runs the scripts that match a pattern. begin is called at the start of each
// and returns what runs a command and prints to lines.
func Run(t *testing.T, pattern string, begin func(t *testing.T) func(c Command) (lines []string)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			run := begin(t)
			var out []string
			lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
			for i := 0; i < len(lines); i++ {
				out = append(out, lines[i])
				if lines[i] == "" || lines[i][0] == '#' {
					continue
				}
				words := strings.Fields(lines[i])
				c := Command{Name: words[0], Args: words[1:]}
				at := i + 1
				for i++; i < len(lines) && lines[i] != "" && lines[i] != "----"; i++ {
					c.Input = append(c.Input, lines[i])
					out = append(out, lines[i])
				}
				var want []string
				quiet := i == len(lines) || lines[i] == ""
				for !quiet {
					if i++; i == len(lines) || lines[i] == "" {
						break
					}
					want = append(want, lines[i])
				}
				got := run(c)
				if !*rewrite && strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", file, at, strings.Join(words, " "), strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if !quiet || len(got) > 0 {
					out = append(append(out, "----"), got...)
				}
				out = append(out, "")
			}
			if *rewrite {
				text := strings.TrimRight(strings.Join(out, "\n"), "\n") + "\n"
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
