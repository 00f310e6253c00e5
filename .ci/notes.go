// Command notes prints what CHANGELOG.md says about a version: the notes of its release.
// A candidate such as 0.9.0-rc1 has the notes of 0.9.0. It fails if the version has no
// heading or nothing below it.
//
//	notes [-file CHANGELOG.md] 0.9.0
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

func main() {
	file := flag.String("file", "CHANGELOG.md", "the changelog")
	source := flag.String("source", "", "URL of the repository at the version; links lead there")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: notes [-file FILE] [-source URL] VERSION")
		os.Exit(2)
	}
	text, err := os.ReadFile(*file)
	if err == nil {
		var cut string
		if cut, err = notes(string(text), flag.Arg(0)); err == nil {
			fmt.Print(absolute(cut, *source))
			return
		}
	}
	fmt.Fprintln(os.Stderr, "notes:", err)
	os.Exit(1)
}

// heading is that of a version: "## 0.9.0" or "## 0.9.0, 2026-12-01".
var heading = regexp.MustCompile(`(?m)^## (\S+?)(?:, (\d{4}-\d{2}-\d{2}))?[ \t]*$`)

// notes returns the lines below the heading of a version, up to the next heading.
func notes(changelog, version string) (string, error) {
	release, _, _ := strings.Cut(version, "-")
	all := heading.FindAllStringSubmatchIndex(changelog, -1)
	for i, at := range all {
		if changelog[at[2]:at[3]] != release {
			continue
		}
		end := len(changelog)
		if i+1 < len(all) {
			end = all[i+1][0]
		}
		body := strings.TrimSpace(changelog[at[1]:end])
		if !strings.Contains(body, "\n- [") && !strings.HasPrefix(body, "- [") {
			return "", fmt.Errorf("version %s has no lines that begin with - [CHANGE], - [FEATURE], - [PERF] or - [BUGFIX]", release)
		}
		return body + "\n", nil
	}
	if len(all) == 0 {
		return "", errors.New("no heading of a version")
	}
	return "", fmt.Errorf("no heading \"## %s\"", release)
}

var link = regexp.MustCompile(`\]\(([^):#\s]+)(#[^)\s]*)?\)`)

// absolute has relative links lead to the repository, as the notes stand elsewhere.
func absolute(text, source string) string {
	if source == "" {
		return text
	}
	return link.ReplaceAllStringFunc(text, func(s string) string {
		m := link.FindStringSubmatch(s)
		return "](" + strings.TrimSuffix(source, "/") + "/" + path.Clean(m[1]) + m[2] + ")"
	})
}
