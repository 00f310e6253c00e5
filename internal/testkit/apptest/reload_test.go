package apptest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReloadLimits changes limits of a running server, both ways.
func TestReloadLimits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tsdbd.toml")
	configure := func(series, body, rows, points int) {
		t.Helper()
		text := fmt.Sprintf("[data]\nmax-series-per-database = %d\n[http]\nmax-body-size = %d\nmax-row-limit = %d\n[query]\nmax-select-point = %d\n", series, body, rows, points)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure(1, 30, 0, 0)
	s := Start(t, "-config", file)
	s.Query("", "CREATE DATABASE d")
	write := func(status int, answer, body string) {
		t.Helper()
		if got, text := s.Send("/write?db=d", body); got != status || !strings.Contains(text, answer) {
			t.Errorf("write %s: %d %s, want %d %s", body, got, text, status, answer)
		}
	}
	ask := func(answer string) {
		t.Helper()
		if text := s.Query("d", "SELECT v FROM m"); !strings.Contains(text, answer) {
			t.Errorf("answer %s, want %s", text, answer)
		}
	}
	const long = "m,h=b v=2 2\nm,h=b v=3 3\nm,h=b v=4 4"
	write(204, "", "m,h=a v=1 1")
	write(400, "max-series-per-database limit exceeded: (1) dropped=1", "m,h=b v=1 1")
	write(413, "", long)

	configure(2, 1000, 3, 0)
	s.Reload(`changed="data.max-series-per-database, http.max-body-size, http.max-row-limit" at_restart=nothing`)
	if said := s.Log(); !strings.Contains(said, "key=data.max-series-per-database was=1 is=2") {
		t.Errorf("the log does not tell the values: %s", said)
	}
	write(204, "", long)
	write(400, "max-series-per-database limit exceeded: (2) dropped=1", "m,h=c v=1 1")
	ask(`[[1,1],[2,2],[3,3]],"partial":true`)

	configure(0, 20, 0, 2)
	s.Reload(`changed="data.max-series-per-database, http.max-body-size, http.max-row-limit, query.max-select-point" at_restart=nothing`)
	write(204, "", "m,h=c v=1 1")
	write(413, "", long)
	ask("max-select-point limit exceeded")

	configure(1, 1000, 0, 0)
	s.Reload(`http.max-body-size, query.max-select-point" at_restart=nothing`)
	write(204, "", long) // what there is stays above the limit
	write(400, "max-series-per-database limit exceeded: (1) dropped=1", "m,h=d v=1 1")
	s.Stop()
}
