package apptest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"tsdbd/internal/version"
)

// TestVersion asks one program in every way which version it is.
func TestVersion(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(Binary(t), "version").Output()
	m := regexp.MustCompile(`^tsdbd (\S+)( \([0-9a-f]{12}(, changed)?\))? go\S+ \w+/\w+\n$`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("tsdbd version: %q, %v", out, err)
	}
	want := string(m[1])
	if !strings.HasPrefix(want, version.Next) {
		t.Errorf("version %s is not of release %s", want, version.Next)
	}
	if flag, err := exec.Command(Binary(t), "-version").Output(); err != nil || string(flag) != string(out) {
		t.Errorf("tsdbd -version: %q, %v", flag, err)
	}
	if page, err := exec.Command(Binary(t), "man").Output(); err != nil || !strings.Contains(string(page), `"tsdbd `+want+`"`) {
		t.Errorf("the manual page does not name version %s: %v", want, err)
	}

	s := Start(t)
	for _, path := range []string{"/ping?verbose=true", "/health"} {
		resp, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Version, Tsdbd string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		_ = resp.Body.Close()
		// Clients choose what they do by version, which is that of an InfluxDB.
		if err != nil || answer.Tsdbd != want || !strings.HasPrefix(answer.Version, "1.8") {
			t.Errorf("%s: %+v, %v, want tsdbd %s", path, answer, err, want)
		}
		if got := resp.Header.Get("X-Tsdbd-Version"); got != want {
			t.Errorf("%s: X-Tsdbd-Version %q, want %q", path, got, want)
		}
		if got := resp.Header.Get("X-Influxdb-Version"); got != answer.Version {
			t.Errorf("%s: X-Influxdb-Version %q, and %q in the body", path, got, answer.Version)
		}
	}
	status, metrics, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil, "")
	if err != nil || status != http.StatusOK || !regexp.MustCompile(`(?m)^tsdbd_build_info\{.*version="`+regexp.QuoteMeta(want)+`"\} 1$`).MatchString(metrics) {
		t.Errorf("no tsdbd_build_info of version %s: %d, %v", want, status, err)
	}

	// The program says it to servers that it asks.
	agent := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case agent <- r.UserAgent():
		default:
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	defer other.Close()
	for _, args := range [][]string{{"health", "-host", other.URL}, {"query", "-host", other.URL, "SHOW DATABASES"}, {"backup", "-host", other.URL, t.TempDir()}} {
		if out, err := exec.Command(Binary(t), args...).CombinedOutput(); err == nil {
			t.Errorf("%q of no server: %s", args, out)
		}
		if got := <-agent; got != "tsdbd/"+want {
			t.Errorf("%q: User-Agent %q, want %q", args, got, "tsdbd/"+want)
		}
	}
}
