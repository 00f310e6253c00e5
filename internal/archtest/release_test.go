package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsdbd/internal/version"
)

// TestReleaseNotes cuts the notes of releases from changelogs.
func TestReleaseNotes(t *testing.T) {
	cutter := filepath.Join(t.TempDir(), "notes")
	build := exec.Command("go", "build", "-o", cutter, ".ci/notes.go")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const changelog = "# Changelog\n\nWords.\n\n## Unreleased\n\n- [FEATURE] Next.\n\n## 1.2.0, 2027-01-02\n\nBetter.\n\n### Storage\n\n" +
		"- [PERF] Fast. [docs/a.md](docs/a.md#b), [out](https://example.org/x), [here](#there).\n\n## 1.1.0\n\n- [BUGFIX] Right.\n\n## 1.0.0\n\nWords only.\n"
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	if err := os.WriteFile(file, []byte(changelog), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"1.2.0", "Better.\n\n### Storage\n\n- [PERF] Fast. [docs/a.md](docs/a.md#b), [out](https://example.org/x), [here](#there).\n"},
		{"-source https://example.org/r/ 1.2.0-rc1", "Better.\n\n### Storage\n\n- [PERF] Fast. [docs/a.md](https://example.org/r/docs/a.md#b), [out](https://example.org/x), [here](#there).\n"},
		{"1.1.0", "- [BUGFIX] Right.\n"},
		{"1.0.0", "notes: version 1.0.0 has no lines that begin with - [CHANGE], - [FEATURE], - [PERF] or - [BUGFIX]\n"},
		{"1.3.0", "notes: no heading \"## 1.3.0\"\n"},
		{"2", "notes: no heading \"## 2\"\n"},
	} {
		out, err := exec.Command(cutter, append([]string{"-file", file}, strings.Fields(c.args)...)...).CombinedOutput()
		if string(out) != c.want || (err != nil) != strings.HasPrefix(c.want, "notes: ") {
			t.Errorf("notes %s: %q, %v, want %q", c.args, out, err, c.want)
		}
	}
	// The next release has notes, so that its tag makes one.
	ours := exec.Command(cutter, version.Next)
	ours.Dir = root
	if out, err := ours.CombinedOutput(); err != nil || !strings.Contains(string(out), "\n- [FEATURE] ") {
		t.Errorf("notes of %s: %v, %.200q", version.Next, err, out)
	}
}

// TestPinnedActions wants every action of a workflow by the hash of a commit, for a tag
// can be moved to other code.
func TestPinnedActions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	pinned := regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	hashes := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.+)$`).FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s uses %s, want OWNER/NAME@HASH # VERSION", filepath.Base(file), m[1])
			}
			name, hash, _ := strings.Cut(m[1], "@")
			if was := hashes[name]; was != "" && was != hash {
				t.Errorf("%s is used as %s and as %s", name, was, hash)
			}
			hashes[name] = hash
		}
	}
	if len(hashes) < 3 {
		t.Errorf("only these actions were found: %v", hashes)
	}
}
