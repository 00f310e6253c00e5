package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/testkit/script"
)

var changed = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestBoard moves boards between a server and files, as the scripts say.
//
//	board ARGUMENT...   runs the command; DIR is a directory
//	file NAME           writes its input into a file of the directory
//	cat NAME            prints a file of it
//	query STATEMENT     runs a statement at the server
func TestBoard(t *testing.T) {
	script.Run(t, "testdata/script/board*.txt", func(t *testing.T) func(script.Command) []string {
		s := apptest.Start(t)
		dir := t.TempDir()
		return func(c script.Command) []string {
			switch c.Name {
			case "file":
				if err := os.WriteFile(filepath.Join(dir, c.Args[0]), []byte(strings.Join(c.Input, "\n")+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				return nil
			case "cat":
				b, err := os.ReadFile(filepath.Join(dir, c.Args[0]))
				if err != nil {
					t.Fatal(err)
				}
				return strings.Split(strings.TrimRight(string(b), "\n"), "\n")
			case "query":
				s.Query("", strings.Join(c.Args, " "))
				return nil
			}
			args := []string{"board"}
			for _, a := range c.Args {
				args = append(args, strings.ReplaceAll(a, "DIR", dir))
			}
			args = append(args, "-host", s.URL)
			out, errs, err := tsdbd(t, args...)
			text := out + errs
			if err != nil {
				text += "error: " + err.Error() + "\n"
			}
			var lines []string
			for line := range strings.Lines(strings.ReplaceAll(text, filepath.ToSlash(dir), "DIR")) {
				lines = append(lines, changed.ReplaceAllString(strings.TrimRight(line, "\n "), "TIME"))
			}
			return lines
		}
	})
}
