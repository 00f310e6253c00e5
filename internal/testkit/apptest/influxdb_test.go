package apptest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInfluxDataIsLeftAlone starts on a directory such as an influxdb.conf
// names.
func TestInfluxDataIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "telegraf", "_series"), 0o700); err != nil {
		t.Fatal(err)
	}
	if text := Refusal(t, "-data", dir); !strings.Contains(text, "there is the data of an InfluxDB") {
		t.Errorf("said %s", text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

// TestServerWithAnInfluxConf starts on the full file and reloads it.
func TestServerWithAnInfluxConf(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../config/testdata/influxdb-1.8.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := TempFile(t, string(text))
	s := Start(t, "-config", file)
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `level = "info"`, `level = "warn"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Reload("configuration reloaded")
	s.Stop()
	for _, want := range []string{
		`level=WARN msg="setting is InfluxDB's" key=data.wal-dir note="has no effect: everything is kept below data.dir"`,
		`level=INFO msg="setting is InfluxDB's" key=data.wal-fsync-delay note="is taken for data.wal-sync-interval"`,
		`msg="configuration reloaded" changed=log.level at_restart=nothing`,
	} {
		if !strings.Contains(s.Log(), want) {
			t.Errorf("%s is not logged:\n%s", want, s.Log())
		}
	}
}
