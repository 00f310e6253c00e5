package version

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

const hash = "caf0f708123456789abcdef0123456789abcdef0"

// TestOf builds programs by the linker's flag, from a tag, between tags, and from no
// repository.
func TestOf(t *testing.T) {
	tree := []debug.BuildSetting{
		{Key: "vcs.revision", Value: hash},
		{Key: "vcs.time", Value: "2026-11-29T06:42:04Z"},
		{Key: "vcs.modified", Value: "false"},
	}
	changed := append(tree[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	next := Next + "-dev"
	for _, c := range []struct {
		name, stamped, commit, main string
		settings                    []debug.BuildSetting
		version, text               string
	}{
		{"stamped", "1.2.3-rc1", hash, "(devel)", nil, "1.2.3-rc1", "tsdbd 1.2.3-rc1 (caf0f7081234)"},
		{"stamped over all", "1.2.3", "", "v9.9.9", changed, "1.2.3", "tsdbd 1.2.3 (caf0f7081234, changed)"},
		{"tag", "", "", "v1.2.3", tree, "1.2.3", "tsdbd 1.2.3 (caf0f7081234)"},
		{"tag of a candidate", "", "", "v1.2.3-rc1", tree, "1.2.3-rc1", "tsdbd 1.2.3-rc1 (caf0f7081234)"},
		{"changed tag", "", "", "v1.2.3+dirty", changed, next + "+caf0f708.changed", "tsdbd " + next + "+caf0f708.changed (caf0f7081234, changed)"},
		{"no tag", "", "", "v0.0.0-20261129064204-caf0f7081234", tree, next + "+caf0f708", "tsdbd " + next + "+caf0f708 (caf0f7081234)"},
		{"after a tag", "", "", "v1.2.4-0.20261129064204-caf0f7081234", tree, next + "+caf0f708", ""},
		{"after a candidate", "", "", "v1.2.4-rc1.0.20261129064204-caf0f7081234", tree, next + "+caf0f708", ""},
		{"changed after a tag", "", "", "v1.2.4-0.20261129064204-caf0f7081234+dirty", changed, next + "+caf0f708.changed", ""},
		{"no repository", "", "", "(devel)", nil, next, "tsdbd " + next},
		{"nothing", "", "", "", nil, next, ""},
	} {
		b := of(c.stamped, c.commit, &debug.BuildInfo{Main: debug.Module{Version: c.main}, Settings: c.settings})
		if b.Version != c.version {
			t.Errorf("%s: version %q, want %q", c.name, b.Version, c.version)
		}
		if want := c.text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH; c.text != "" && b.Text() != want {
			t.Errorf("%s: text %q, want %q", c.name, b.Text(), want)
		}
	}
}

// TestLinked builds a program as the Makefile does, which says what it is to say.
func TestLinked(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("it links a program by a shell script")
	}
	script := filepath.Join("..", "..", ".ci", "version")
	ask := func(environment []string, args ...string) string {
		cmd := exec.Command(script, args...)
		cmd.Env = append(cmd.Environ(), environment...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "error: " + string(out)
		}
		return strings.TrimSpace(string(out))
	}
	program := filepath.Join(t.TempDir(), "printed")
	flags := ask([]string{"VERSION=" + Next + "-rc7"}, "ldflags")
	if out, err := exec.Command("go", "build", "-ldflags", flags, "-o", program, "./testdata/printed").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != Next+"-rc7 tsdbd/"+Next+"-rc7\n" {
		t.Errorf("a program linked with %q prints %q, %v", flags, out, err)
	}
	for _, c := range []struct{ version, want string }{
		{Next, "^" + Next + "$"},
		{Next + "-rc1", "^" + Next + "~rc1$"},
		{"99.0.0", "^error: version: 99.0.0 is not of release " + Next},
		{"v" + Next, "^error: version: v" + Next + " is not of the form"},
	} {
		if got := ask([]string{"VERSION=" + c.version}, "package"); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("VERSION=%s: %q, want %q", c.version, got, c.want)
		}
	}
	// Without a version it is the tag's, or that of the next release.
	if got := ask([]string{"VERSION="}); !strings.HasPrefix(got, Next) {
		t.Errorf("version of this checkout: %q", got)
	}
}

// TestPackages sorts the versions of packages as dpkg does, the oldest first.
func TestPackages(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is not installed")
	}
	versions := []string{
		"0.9.0~dev20261129064204+ffffffff", "0.9.0~dev20261130000000+00000000", "0.9.0~rc1", "0.9.0~rc2", "0.9.0", "0.9.1~dev20270101000000+aaaaaaaa", "0.10.0",
	}
	for i := range versions[1:] {
		if err := exec.Command("dpkg", "--compare-versions", versions[i], "lt", versions[i+1]).Run(); err != nil {
			t.Errorf("%s is not before %s: %v", versions[i], versions[i+1], err)
		}
	}
}
