package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..")

// TestCodeMap checks that the code map of ARCHITECTURE.md names every package of
// the module, and only directories that exist.
func TestCodeMap(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Code map\n")
	section, _, _ = strings.Cut(section, "\n## ")
	code := regexp.MustCompile("`([^`]+)`")
	var named []string
	for line := range strings.Lines(section) {
		columns := strings.Split(line, "|")
		if len(columns) < 3 {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(columns[1], -1) {
			named = append(named, m[1])
			if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
				t.Errorf("the code map names %s, which is not a directory", m[1])
			}
		}
	}
	list := exec.Command("go", "list", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, name := range strings.Fields(string(out)) {
		name = strings.TrimPrefix(name, module+"/")
		n := 0
		for _, other := range named {
			if other == name {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the code map of ARCHITECTURE.md names package %s %d times, want once", name, n)
		}
	}
}

// TestLinks checks that every relative link of every document leads to a file and
// to a heading in it.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	n := 0
	for _, page := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, page), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			n++
			path, heading, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if heading != "" && !slices.Contains(headings(t, target), heading) {
				t.Errorf("%s links to %s, but that page has no such heading", page, m[1])
			}
		}
	}
	if n == 0 {
		t.Error("no links found")
	}
}

// TestIndexOfDocuments checks that docs/README.md leads to every page beside it.
func TestIndexOfDocuments(t *testing.T) {
	dir := filepath.Join(root, "docs")
	index := prose(t, filepath.Join(dir, "README.md"))
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "]("+name) {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// TestDecisionNumbers checks that the pages of docs/decisions are numbered from
// 0001 without a gap, and that each begins with its number.
func TestDecisionNumbers(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "decisions", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	for i, page := range pages { // Glob sorts.
		name := filepath.Base(page)
		want := fmt.Sprintf("%04d", i+1)
		if !strings.HasPrefix(name, want+"-") {
			t.Errorf("%s: the next number is %s", name, want)
		}
		if !strings.HasPrefix(prose(t, page), "# "+want+" ") {
			t.Errorf("%s does not begin with %q", name, "# "+want)
		}
	}
}

// documents returns the Markdown pages of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var pages []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "data", "dist", "node_modules"}, d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

var fenced = regexp.MustCompile("(?ms)^```.*?^```")

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(text), "")
}

var (
	headingLine = regexp.MustCompile(`(?m)^#+ +(.*?) *$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// headings returns the anchors of a page's headings, as GitHub makes them.
func headings(t *testing.T, page string) []string {
	t.Helper()
	var anchors []string
	for _, m := range headingLine.FindAllStringSubmatch(prose(t, page), -1) {
		anchor := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}
