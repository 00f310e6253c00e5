package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"tsdbd/cold/coldtest"
	"tsdbd/config"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store"
)

// TestColdStoreNotSet starts a server whose shards are in a cold store, without the setting that
// names it: the log and /health say so.
func TestColdStoreNotSet(t *testing.T) {
	c := nodeConfig(t)
	c.Log.Level = config.LogLevel(slog.LevelWarn)
	bucket := coldtest.Bucket{Objects: object.OpenDir(vfs.OS, t.TempDir())}
	st, err := store.Open(c.Data.Dir, bucket.Options())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Apply(t.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	writeLines(t, st, "m v=1 1\nm v=2 1000000")
	bucket.Chill(t, st)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := Open(t.Context(), c, Options{Stderr: &log})
	if err != nil {
		t.Fatal(err)
	}
	const want = "2 shards have files in a cold store, but cold.url names none"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		resp, err := http.Get(s.URL() + "/health")
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, err = body.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		if strings.Contains(body.String(), want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("health: %s", &body)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), want) {
		t.Errorf("log: %s", &log)
	}
}
