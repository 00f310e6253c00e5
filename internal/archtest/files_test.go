package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxTrackedBytes bounds a file of the repository. A built binary is larger.
const maxTrackedBytes = 1 << 20

// largeFixtures names the tracked files that may be larger than
// maxTrackedBytes. There are none yet.
var largeFixtures = map[string]bool{}

// TestTrackedFilesAreSmall keeps built binaries and data out of the repository.
func TestTrackedFilesAreSmall(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "-c", "safe.directory="+root, "-C", root, "ls-files", "-z")
	out, err := list.Output()
	if err != nil {
		t.Skipf("no git checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || largeFixtures[name] {
			continue
		}
		if info.Size() > maxTrackedBytes {
			t.Errorf("%s is tracked and has %d bytes, more than %d: "+
				"is it a built binary? A test fixture belongs into largeFixtures", name, info.Size(), maxTrackedBytes)
		}
	}
}
