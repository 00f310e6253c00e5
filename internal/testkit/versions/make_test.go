package versions

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

var makes = flag.String("make", "", "have TestMake write the directory of this version")

// most bounds what a version may have in the repository.
const most = 300_000

// TestMake writes the directory of a version.
func TestMake(t *testing.T) {
	if *makes == "" {
		t.Skip("make version-data VERSION=... runs it")
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(*makes) {
		t.Fatalf("%q is no version such as 0.9.1", *makes)
	}
	to := filepath.Join(root, *makes)
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	keep := func(name, dir string) {
		t.Helper()
		if err := pack(filepath.Join(to, name), dir); err != nil {
			t.Fatal(err)
		}
	}

	s := start(t, t.TempDir())
	fill(t, s)
	keep("data.tar.gz", s.Dir)
	s.Restart()
	settle(t, s)
	answers := ask(t, s, questions())
	backups := t.TempDir()
	for range 2 { // the second one has new rows
		must(t, "backup", "-host", s.URL, backups)
		s.Write("late", "m v=1 1")
	}
	s.Stop()
	keep("backup.tar.gz", backups)

	n := start(t, t.TempDir(), alone(t)...)
	await(t, "leader", func() bool {
		_, err := run(t, "cluster", "finish-upgrade", "-host", n.URL)
		return err == nil
	})
	fill(t, n)
	keep("cluster.tar.gz", n.Dir)
	n.Restart()
	settle(t, n)
	expect(t, n, "a cluster beside a server", answers)
	n.Stop()

	old := t.TempDir()
	c := startCold(t, old)
	fillCold(t, c)
	coldAnswers := ask(t, c, coldQuestions())
	c.Kill()
	if err := os.RemoveAll(filepath.Join(c.Dir, "cold-cache")); err != nil {
		t.Fatal(err)
	}
	keep("cold.tar.gz", old)

	for name, list := range map[string][]question{"answers.json": answers, "cold.json": coldAnswers} {
		text, err := json.MarshalIndent(list, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"names.txt": strings.Join(names(t), "\n") + "\n", "config.toml": must(t, "config")} {
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	checkSize(t, to)
}

// checkSize returns an error for a version that takes too much of the repository.
func checkSize(t testing.TB, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	if sum > most {
		t.Errorf("%s has %d bytes, at most %d", dir, sum, most)
	}
}

func TestMain(m *testing.M) { apptest.Main(m) }
