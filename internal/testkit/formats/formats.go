// Package formats holds golden bytes of file formats, and the examples of their
// pages in docs/formats, against what the code writes. The flag -update writes
// golden files that do not exist yet, and the examples.
package formats

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet, and the examples of documents")

// Golden compares bytes with the golden file testdata/name.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && *update {
		want, err = got, errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, got, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %d bytes differ from the %d golden ones; formats do not change under one version", name, len(got), len(want))
	}
}

var example = regexp.MustCompile(`(?s)<!-- example (\S+) -->\n.*?<!-- end -->`)

// Examples compares the hex dumps in a page of docs/formats with the golden files
// that they name.
func Examples(t *testing.T, page string) {
	t.Helper()
	file := filepath.Join(root(t), "docs", "formats", page)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	got := example.ReplaceAllStringFunc(string(text), func(m string) string {
		found++
		name := example.FindStringSubmatch(m)[1]
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("<!-- example %s -->\n```\n%s```\n<!-- end -->", name, dump(b))
	})
	if found == 0 {
		t.Fatalf("%s has no example", page)
	}
	if got == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s: examples differ from the golden files; run with -update", page)
	}
	if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}

// root returns the path from the package under test to the root of the repository.
func root(t *testing.T) string {
	t.Helper()
	for dir := ".."; len(dir) < 100; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("the package is in no module")
	return ""
}

// dump is hex.Dump with runs of equal lines left out.
func dump(b []byte) string {
	var out strings.Builder
	previous, skipping := "", false
	for _, line := range strings.SplitAfter(hex.Dump(b), "\n") {
		if len(line) > 10 && line[10:] == previous {
			if !skipping {
				out.WriteString("*\n")
			}
			skipping = true
			continue
		}
		skipping = false
		if len(line) > 10 {
			previous = line[10:]
		}
		out.WriteString(line)
	}
	return out.String()
}
