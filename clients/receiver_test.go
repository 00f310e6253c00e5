package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The suite of remote write receivers is tests of a module. Its go.mod gives the module
// another name than its path, so that no go.mod can require it.
const (
	receiverModule  = "github.com/prometheus/compliance/remotewrite/receiver"
	receiverVersion = "v0.0.0-20260806071727-67b8327a2e93"
)

// receiverSuite returns the program with the suite, which it builds once.
func receiverSuite(s *suite) string {
	s.t.Helper()
	bin := filepath.Join(root(), "bin", "receiver-"+receiverVersion, "receiver.test")
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	out, errs, err := command(s.t, os.TempDir(), nil, "", "go", "mod", "download", "-json", receiverModule+"@"+receiverVersion)
	var module struct{ Dir, Error string }
	if json.Unmarshal([]byte(out), &module) != nil || err != nil {
		s.skip("the suite cannot be fetched: %v: %s%s", err, module.Error, errs)
	}
	s.must(os.MkdirAll(filepath.Dir(bin), 0o755))
	if out, errs, err := command(s.t, module.Dir, []string{"CGO_ENABLED=0"}, "", "go", "test", "-c", "-o", bin, "."); err != nil {
		s.skip("the suite cannot be built: %v\n%s%s", err, out, errs)
	}
	return bin
}

// receiverFailures reads the tests that are expected to fail.
func receiverFailures(s *suite) (want []string) {
	s.t.Helper()
	text, err := os.ReadFile("testdata/receiver-failures.txt")
	s.must(err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			want = append(want, line)
		}
	}
	return want
}

// TestReceiver runs the compliance suite of remote write receivers, 1.0 and 2.0. A test
// that fails and is not in testdata/receiver-failures.txt is a failure here, and so is
// one in the file that passes.
func TestReceiver(t *testing.T) {
	s := newSuite(t, "remote write receivers")
	bin := receiverSuite(s)
	s.version = receiverVersion[len("v0.0.0-"):][:len("20060102")]
	server := start(t)
	dir := t.TempDir()
	config := fmt.Sprintf("remote_write:\n- name: tsdbd\n  url: %s/api/v1/write\n", server.URL)
	s.must(os.WriteFile(filepath.Join(dir, "config.yml"), []byte(config), 0o600))
	out, errs, err := command(t, dir, []string{"PROMETHEUS_RW2_COMPLIANCE_CONFIG_FILE=config.yml"}, "", bin, "-test.v")
	passed, failed := receiverResults(out)
	if len(passed)+len(failed) != 205 || err != nil && len(failed) == 0 {
		s.check("run", fmt.Errorf("%d tests passed and %d failed, want 205: %w\n%s%s", len(passed), len(failed), err, out, errs))
	}
	want := receiverFailures(s)
	s.passed += len(passed)
	for _, name := range failed {
		if !slices.Contains(want, name) {
			s.check(name, errors.New("failed"))
		}
	}
	for _, name := range want {
		if slices.Contains(passed, name) || !slices.Contains(failed, name) {
			s.check(name, errors.New("is expected to fail and does not"))
		}
	}
	if s.failed > 0 {
		t.Logf("%s", out)
	}
	t.Logf("%d of %d tests of the suite passed", len(passed), len(passed)+len(failed))
}

// receiverResults returns the tests that have no tests below them.
func receiverResults(out string) (passed, failed []string) {
	lines := regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) \([0-9.]+s\)$`).FindAllStringSubmatch(out, -1)
	for _, line := range lines {
		name := line[2]
		if slices.ContainsFunc(lines, func(other []string) bool { return strings.HasPrefix(other[2], name+"/") }) {
			continue
		}
		if line[1] == "PASS" {
			passed = append(passed, name)
		} else {
			failed = append(failed, name)
		}
	}
	return passed, failed
}
