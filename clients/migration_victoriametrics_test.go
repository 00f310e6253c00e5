package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestVictoriaMetrics moves the data of a real VictoriaMetrics by the commands of
// docs/migrating-from-victoriametrics.md, and compares all samples to the bit.
func TestVictoriaMetrics(t *testing.T) {
	s := newSuite(t, "move from VictoriaMetrics")
	bin := s.need("victoria-metrics", "apt-get install victoria-metrics")
	s.need("curl", "apt-get install curl")
	base := "http://" + startVictoriaMetrics(t, bin)
	s.version = "of " + filepath.Base(bin)
	if out, _, err := command(t, "", nil, "", bin, "-version"); err == nil && len(strings.Fields(out)) > 0 {
		s.version = strings.Fields(out)[0]
	}
	post := func(path, body string) {
		t.Helper()
		resp, err := http.Post(base+path, "application/json", strings.NewReader(body))
		s.must(err)
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("%s answers %s", path, resp.Status)
		}
	}
	const series, samples = 300, 700
	var b strings.Builder
	for i := range series {
		fmt.Fprintf(&b, `{"metric":{"__name__":"m_%d","job":"a \"b\" \\é","i":"%d"},"values":[`, i%7, i)
		for j := range samples {
			fmt.Fprintf(&b, "%s%g", strings.Repeat(",", min(j, 1)), math.Round(math.Sin(float64(i*j))*1e6)/1e3)
		}
		b.WriteString(`],"timestamps":[`)
		for j := range samples {
			fmt.Fprintf(&b, "%s%d", strings.Repeat(",", min(j, 1)), 1_700_000_000_000+int64(j)*15_000+int64(i))
		}
		b.WriteString("]}\n")
	}
	post("/api/v1/import", b.String())
	post("/api/v1/import/prometheus", "special +Inf 1700000000000\nspecial -Inf 1700000015000\nspecial 1e300 1700000030000\nspecial 0.1 1700000045000\n")
	post("/internal/force_flush", "")

	server := start(t)
	text, err := os.ReadFile(filepath.Join(root(), "docs", "migrating-from-victoriametrics.md"))
	s.must(err)
	var commands []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "curl ") || strings.HasPrefix(line, "tsdbd import ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	if len(commands) != 5 {
		t.Fatalf("the page has other commands: %q", commands)
	}
	dir := t.TempDir()
	run := func(line string) string {
		t.Helper()
		line = strings.NewReplacer("http://127.0.0.1:8428", base, "http://127.0.0.1:8086", server.URL, "tsdbd import", apptest.Binary(t)+" import").Replace(line)
		out, errs, err := command(t, dir, []string{"TSDBD_HOST=" + server.URL}, "", "bash", "-o", "pipefail", "-c", line)
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s%s", line, err, out, errs)
		}
		s.check("run", err)
		return out
	}
	want := exportedSamples(s, base)
	s.equal("what VictoriaMetrics has", len(want), series*samples+4)
	run(commands[0])
	out := run(commands[1])
	s.equal("import", strings.TrimSpace(out), "301 lines processed, 301 written, 0 refused")
	got := exportedSamples(s, server.URL)
	s.equal("samples", len(got), len(want))
	s.equal("samples", maps.Equal(got, want), true)
	// Once more, as a stream, changes nothing.
	s.equal("import again", strings.TrimSpace(run(commands[2])), "301 lines processed, 301 written, 0 refused")
	s.equal("samples once more", maps.Equal(exportedSamples(s, server.URL), want), true)
	count := func(answer string) string {
		_, rest, _ := strings.Cut(answer, `"value":`)
		return rest
	}
	s.equal("count", strings.Contains(count(run(commands[3])), `"300"`), strings.Contains(count(run(commands[4])), `"300"`))
}

var bareInfinity = regexp.MustCompile(`([\[,])([+-]Inf)`)

// startVictoriaMetrics starts a VictoriaMetrics and returns its address.
func startVictoriaMetrics(t *testing.T, bin string) string {
	t.Helper()
	address := apptest.FreeAddress(t)
	cmd := exec.Command(bin, "-storageDataPath="+t.TempDir(), "-httpListenAddr="+address, "-retentionPeriod=100y", "-loggerLevel=ERROR", "-memory.allowedBytes=64MB")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	await(t, "http://"+address+"/health", http.StatusOK)
	return address
}

// exportedSamples returns all samples that a server exports: the bits of the values by
// series and time. A stale marker, which is null, has bits of its own.
func exportedSamples(s *suite, base string) map[string]uint64 {
	resp, err := http.Get(base + "/api/v1/export?" + url.Values{"match[]": {`{__name__!=""}`}}.Encode())
	s.must(err)
	defer resp.Body.Close()
	out := map[string]uint64{}
	r := bufio.NewReader(resp.Body)
	for {
		text, err := r.ReadBytes('\n')
		if err == io.EOF && len(text) == 0 {
			return out
		}
		text = bareInfinity.ReplaceAll(text, []byte(`$1"$2"`)) // as 1.79 writes them
		var line struct {
			Metric     map[string]string
			Values     []any
			Timestamps []int64
		}
		s.must(json.Unmarshal(text, &line))
		name := ""
		for _, k := range slices.Sorted(maps.Keys(line.Metric)) {
			name += fmt.Sprintf("%q=%q ", k, line.Metric[k])
		}
		for i, v := range line.Values {
			var bits uint64
			switch v := v.(type) {
			case float64:
				bits = math.Float64bits(v)
			case string:
				sign := 1
				if v[0] == '-' {
					sign = -1
				}
				bits = math.Float64bits(math.Inf(sign))
			}
			out[fmt.Sprint(name, line.Timestamps[i])] = bits
		}
	}
}
