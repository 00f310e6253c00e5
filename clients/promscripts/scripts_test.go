package promscripts

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

// variable names the store of TestEvaluate.
const variable = "TSDBD_PROMSCRIPTS"

// TestEvaluate evaluates the scripts. TestScripts runs it in a process of its own,
// because it fails where an answer differs.
func TestEvaluate(t *testing.T) {
	kind := os.Getenv(variable)
	if kind == "" {
		t.Skip("part of TestScripts")
	}
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	promqltest.RunBuiltinTestsWithStorage(t, engine, func(t testing.TB) storage.Storage {
		return newTested(t, kind == "files")
	})
}

// TestScripts holds the queries whose answers differ from Prometheus' against
// testdata/differences.txt: one that is not in the list fails the test, and so does
// one in the list that differs no more.
func TestScripts(t *testing.T) {
	text, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			want = append(want, line)
		}
	}
	if len(want) > 10 {
		t.Errorf("%d differences, want 10 at most", len(want))
	}
	for _, kind := range []string{"memory", "files"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			passed, failed := evaluate(t, kind)
			t.Logf("%d queries have Prometheus' answer, %d have not", passed, len(failed))
			if passed < 2200 {
				t.Errorf("only %d queries passed", passed)
			}
			for _, name := range failed {
				if !slices.Contains(want, name) {
					t.Errorf("differs: %s", name)
				}
			}
			for _, name := range want {
				if !slices.Contains(failed, name) {
					t.Errorf("differs no more: %s", name)
				}
			}
		})
	}
}

// evaluate returns how many queries have passed, and the names of those that have not.
func evaluate(t *testing.T, kind string) (passed int, failed []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEvaluate$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+kind)
	out, err := cmd.CombinedOutput()
	result := regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): TestEvaluate/testdata/(.*) \([0-9.]+s\)$`)
	for _, m := range result.FindAllStringSubmatch(string(out), -1) {
		_, query, ok := strings.Cut(m[2], "/")
		switch {
		case !ok || query == "": // a file
		case m[1] == "PASS":
			passed++
		default:
			failed = append(failed, m[2])
		}
	}
	if passed == 0 || err != nil && len(failed) == 0 {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(failed) > 0 {
		t.Logf("%s", out)
	}
	return passed, failed
}
