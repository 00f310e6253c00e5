package figure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `| promises | what | how much | violations | command | commit |
|---|---|--:|--:|---|---|
| P1 | a power cut | 1 crash point | 0 | ` + "`make crash-long`" + ` | ` + "`950ebce3`" + ` |
| P3 | a read | 2 reads, 3 writes | 0 | ` + "`go test -run 'A\\|B'`" + ` | with this page |
`

func TestRenew(t *testing.T) {
	got, err := Renew(sample, []string{"a read\t33000\treads\t1\twrites", "a read\t319\treads\t1000016\twrites"}, "0123abcd")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(sample, "2 reads, 3 writes", "33,319 reads, 1,000,017 writes", 1)
	want = strings.Replace(want, "with this page", "`0123abcd`", 1)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, line := range []string{"a write\t1\twrites", "a read\tx\treads", "a read\t1"} {
		if _, err := Renew(sample, []string{line}, "0123abcd"); err == nil {
			t.Errorf("no error for %q", line)
		}
	}
}

// TestReport has two tests report into a file. That of the test that fails is not in it.
func TestReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "figures")
	t.Setenv(Variable, name)
	const what = "damage of each kind of file of a node, in turn"
	report := func(fail, wantError bool, what string) {
		r := &recorder{TB: t, failed: fail}
		Report(r, what, Count{3, "rounds"}, Count{1, "kill"})
		if r.failed != (fail || wantError) {
			t.Errorf("%s: failed %v", what, r.failed)
		}
		for _, f := range r.cleanups {
			f()
		}
	}
	report(false, false, what)
	report(true, false, what)
	report(false, true, "no row")
	b, err := os.ReadFile(name)
	if want := what + "\t3\trounds\t1\tkill\n"; err != nil || string(b) != want {
		t.Errorf("%q, %v, want %q", b, err, want)
	}
}

// recorder is a test that keeps what it is told.
type recorder struct {
	testing.TB
	failed   bool
	cleanups []func()
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Cleanup(f func())      { r.cleanups = append(r.cleanups, f) }
