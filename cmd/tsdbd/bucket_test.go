package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/testkit/apptest"
)

// inBucket starts a server with the API of S3 and sets the environment for it.
func inBucket(t *testing.T) (bucket *objecttest.Server, place string) {
	t.Helper()
	bucket = objecttest.NewServer(t)
	t.Setenv("TSDBD_S3_ENDPOINT", bucket.URL)
	t.Setenv("TSDBD_S3_ACCESS_KEY", "some key")
	t.Setenv("TSDBD_S3_SECRET_KEY", "not to be shown")
	t.Setenv("TSDBD_S3_STAGE", t.TempDir())
	return bucket, "s3://" + objecttest.Bucket + "/of/server"
}

// TestBackupInBucket goes once around with backups in a bucket: backup, list, verify,
// damage, export, restore as files and into a running server, prune.
func TestBackupInBucket(t *testing.T) {
	s := apptest.Start(t)
	fill(t, s)
	want := answers(s)
	bucket, place := inBucket(t)

	// A kill in the middle. The next command goes on at once, without its lease.
	var once sync.Once
	stored, dead := make(chan struct{}), make(chan struct{})
	bucket.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/objects/") && len(bucket.Keys(t, "of/server/objects/")) > 0 {
			once.Do(func() { close(stored) })
			<-dead
			return true
		}
		return false
	})
	killed := exec.Command(apptest.Binary(t), "backup", "-host", s.URL, place)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	<-stored
	if _, _, err := tsdbd(t, "backup", "-host", s.URL, place); !errors.Is(err, object.ErrHeld) || !strings.Contains(err.Error(), "in use by process ") {
		t.Errorf("a backup beside another one: %v", err)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	close(dead)
	bucket.Fault(nil)
	had := bucket.Keys(t, "of/server/objects/")

	var res struct{ Bytes, Copied int64 }
	take := func() {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, "backup", "-json", "-host", s.URL, place)), &res); err != nil {
			t.Fatal(err)
		}
	}
	if take(); res.Copied == 0 || res.Copied >= res.Bytes || len(had) == 0 {
		t.Errorf("after a kill with %d objects: %+v", len(had), res)
	}
	if take(); res.Copied != 0 {
		t.Errorf("nothing is new: %+v", res)
	}
	names := strings.Split(strings.TrimSpace(must(t, "backup", "-list", place)), "\n")
	if len(names) != 2 || !strings.Contains(names[0], `databases ["my db" "small"]`) {
		t.Errorf("list: %q", names)
	}
	if out := must(t, "verify", "-backup", place); strings.Count(out, ": sound\n") != 2 {
		t.Errorf("verify: %s", out)
	}

	key := bucket.Keys(t, "of/server/objects/")[0]
	clean := bucket.Object(t, key)
	bad := bytes.Clone(clean)
	bad[len(bad)/2] ^= 1
	bucket.Replace(t, key, bad)
	if out, _, err := tsdbd(t, "verify", "-backup", place); !errors.Is(err, errDamaged) || !strings.Contains(out, "s3://"+objecttest.Bucket+"/"+key) {
		t.Errorf("verify of a damaged object: %v\n%s", err, out)
	}
	for _, to := range [][]string{{"-data", t.TempDir()}, {"-host", s.URL}} {
		if _, _, err := tsdbd(t, "restore", to[0], to[1], place); err == nil || !strings.Contains(err.Error(), filepath.Base(key)) {
			t.Errorf("restore %s of a damaged object: %v", to[0], err)
		}
	}
	bucket.Replace(t, key, clean)

	lines := filepath.Join(t.TempDir(), "lines")
	must(t, "export", "-host", s.URL, "-out", lines)
	_, said, err := tsdbd(t, "export", "-backup", place, "-out", lines+"2")
	if err != nil || !strings.Contains(said, "of the backup to "+os.Getenv("TSDBD_S3_STAGE")) {
		t.Errorf("export: %v\n%s", err, said)
	}
	if a, b := sortedLines(t, lines), sortedLines(t, lines+"2"); a != b || len(a) < 1000 {
		t.Errorf("an export of the backup has %d bytes, one of the server %d", len(b), len(a))
	}

	other := apptest.Start(t)
	must(t, "restore", "-host", other.URL, place)
	sameAnswers(t, "restored into a running server", answers(other), want)
	other.Stop()
	other.Dir = t.TempDir()
	must(t, "restore", "-data", other.Dir, place)
	must(t, "verify", other.Dir)
	other.Restart()
	sameAnswers(t, "restored as files", answers(other), want)

	if out := must(t, "backup", "-prune", "1", place); out != "removed 1 backups and 0 objects\n" {
		t.Errorf("prune: %s", out)
	}
	must(t, "verify", "-backup", place)
}

func sortedLines(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("sort", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestBucketRefusals says what is wrong with a place, and shows no secret.
func TestBucketRefusals(t *testing.T) {
	bucket, place := inBucket(t)
	check := func(want string, args ...string) {
		t.Helper()
		out, said, err := tsdbd(t, args...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
		if strings.Contains(out+said+err.Error(), "not to be shown") {
			t.Errorf("%q shows the secret:\n%s%s%v", args, out, said, err)
		}
	}
	check("no backup in it", "backup", "-list", place)
	check("no backup in it", "restore", "-data", t.TempDir(), place)
	check("there is no bucket elsewhere at "+bucket.URL, "backup", "-list", "s3://elsewhere/x")
	check("there is no bucket elsewhere at "+bucket.URL, "backup", "-host", "http://127.0.0.1:1", "s3://elsewhere/x")
	check("objects cannot be in gs://x", "backup", "gs://x")
	check("without a login", "backup", "s3://user:pw@x/y")
	check("no prefix", "backup", "s3://x/../y")
	check("no bucket is named", "backup", "s3:///x")
	check("names no directory of this machine", "backup", "file://host/x")
	bucket.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		objecttest.Refuse(w, http.StatusForbidden, "AccessDenied")
		return true
	})
	check("lack the right to list", "verify", "-backup", place)
	check("lack the right to list", "backup", "-prune", "1", place)
	for _, c := range []string{"backup", "restore", "verify", "export"} {
		if out := must(t, c, "-help"); strings.Contains(out, "not to be shown") || !strings.Contains(out, "TSDBD_S3_SECRET_KEY") {
			t.Errorf("help of %s: %s", c, out)
		}
	}
	t.Setenv("TSDBD_S3_ACCESS_KEY", "")
	check("belong together", "backup", "-list", place)
	for _, v := range []string{"TSDBD_S3_SECRET_KEY", "AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(v, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	check("no credentials", "backup", "-list", place)
}

// TestFileURL takes file:// for a directory.
func TestFileURL(t *testing.T) {
	s := apptest.Start(t)
	s.Query("", "CREATE DATABASE d")
	dir := t.TempDir()
	must(t, "backup", "-host", s.URL, "file://"+filepath.ToSlash(dir))
	must(t, "verify", "-backup", dir)
}
