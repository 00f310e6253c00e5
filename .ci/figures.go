// Command figures puts what the tests of a nightly run have done into the table of
// docs/reliability.md. FILES are those that TSDBD_FIGURES named.
//
//	go run .ci/figures.go FILE...
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"tsdbd/internal/testkit/figure"
)

const page = "docs/reliability.md"

func main() {
	if err := renew(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func renew(files []string) error {
	var lines []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines = append(lines, strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })...)
	}
	commit, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := figure.Renew(string(old), lines, strings.TrimSpace(string(commit)))
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(text), 0o644)
}
