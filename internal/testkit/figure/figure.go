// Package figure has tests report how much they have done, for the table of docs/reliability.md.
// A nightly run collects what they report, and Renew puts it into the table.
package figure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Variable names the environment variable with the file that figures are added to. Without it they
// are logged only.
const Variable = "TSDBD_FIGURES"

// Count is how often something was done, such as 10,381 crash points.
type Count struct {
	N  int
	Of string
}

// Report tells what a test has done. It is the text of a row in docs/reliability.md, and an error
// of the test if there is none. A test that fails adds nothing to the file, whenever it fails.
func Report(t testing.TB, what string, counts ...Count) {
	t.Helper()
	t.Logf("%s: %s", what, text(counts))
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "| "+what+" |") {
		t.Errorf("docs/reliability.md has no row %q", what)
	}
	name := os.Getenv(Variable)
	if name == "" {
		return
	}
	line := what
	for _, c := range counts {
		line += fmt.Sprintf("\t%d\t%s", c.N, c.Of)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err == nil {
			_, err = f.WriteString(line + "\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// root returns the directory of the repository.
func root(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "ARCHITECTURE.md")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above the test has ARCHITECTURE.md")
		}
		dir = filepath.Dir(dir)
	}
}

// Renew returns a page with what tests have reported in the lines of files. Reports of the same row
// are added up. In the row it sets how much was done, and the commit.
func Renew(page string, lines []string, commit string) (string, error) {
	var order []string
	sums := map[string][]Count{}
	for _, line := range lines {
		cells := strings.Split(line, "\t")
		what := cells[0]
		if len(cells)%2 == 0 {
			return "", fmt.Errorf("not a figure: %q", line)
		}
		if sums[what] == nil {
			order = append(order, what)
		}
		for i := 1; i < len(cells); i += 2 {
			n, err := strconv.Atoi(cells[i])
			if err != nil {
				return "", fmt.Errorf("not a figure: %q", line)
			}
			sums[what] = add(sums[what], Count{n, cells[i+1]})
		}
	}
	rows := strings.Split(page, "\n")
	for _, what := range order {
		found := false
		for i, row := range rows {
			cells := strings.Split(row, " | ")
			if len(cells) != 6 || cells[1] != what {
				continue
			}
			found = true
			cells[2], cells[5] = text(sums[what]), "`"+commit+"` |"
			rows[i] = strings.Join(cells, " | ")
		}
		if !found {
			return "", fmt.Errorf("the page has no row %q", what)
		}
	}
	return strings.Join(rows, "\n"), nil
}

func add(counts []Count, c Count) []Count {
	for i := range counts {
		if counts[i].Of == c.Of {
			counts[i].N += c.N
			return counts
		}
	}
	return append(counts, c)
}

// text writes counts as the table has them: 33,319 reads, 16,980 writes.
func text(counts []Count) string {
	var parts []string
	for _, c := range counts {
		parts = append(parts, thousands(c.N)+" "+c.Of)
	}
	return strings.Join(parts, ", ")
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
