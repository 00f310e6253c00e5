package apptest

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/backup"
	"tsdbd/cold/names"
	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/object/s3"
	"tsdbd/internal/vfs"
)

// TestColdRestore loses a machine with cold shards, and restores backups that lie in its cold
// store into empty directories: bodies stay in the store, and answers are those of the server.
func TestColdRestore(t *testing.T) {
	t.Parallel()
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		dir := filepath.ToSlash(filepath.Join(t.TempDir(), "nas"))
		coldRestore(t, "file://"+dir, nil, nil, object.OpenDir(vfs.OS, dir), nil)
	})
	t.Run("bucket", func(t *testing.T) {
		t.Parallel()
		bucket := objecttest.NewServer(t)
		objects, err := s3.Open(s3.Options{Endpoint: bucket.URL, Bucket: objecttest.Bucket, Prefix: "p", PathStyle: true, AccessKey: "a", SecretKey: "b"})
		if err != nil {
			t.Fatal(err)
		}
		env := []string{"TSDBD_COLD_ENDPOINT=" + bucket.URL, "TSDBD_COLD_PATH_STYLE=true", "TSDBD_COLD_ACCESS_KEY=a", "TSDBD_COLD_SECRET_KEY=b"}
		flags := []string{"-endpoint", bucket.URL, "-path-style", "-access-key", "a", "-secret-key", "b", "-stage", t.TempDir()}
		coldRestore(t, "s3://"+objecttest.Bucket+"/p", env, flags, objects, bucket)
	})
}

// size returns the bytes of the files in a directory.
func size(t *testing.T, dir string) (all int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func coldRestore(t *testing.T, place string, env, flags []string, objects object.Store, bucket *objecttest.Server) {
	ctx := context.Background()
	start := func(s *Server) *Server {
		s.Env = append(append([]string{"TSDBD_COLD_URL=" + place}, env...), coldEnv...)
		s.Restart()
		return s
	}
	tsdbd := func(args ...string) (string, error) {
		out, err := exec.Command(Binary(t), args...).CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := tsdbd(args...)
		if err != nil {
			t.Fatalf("tsdbd %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	backups := func(what string, args ...string) []string {
		return append(append(append([]string{what}, args...), flags...), place)
	}
	stored := func() (all []object.Info) {
		t.Helper()
		infos, err := objects.List(ctx, names.Objects)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			if strings.HasSuffix(i.Name, ".tsm") {
				all = append(all, i)
			}
		}
		return all
	}
	restored := func() (all []string) {
		t.Helper()
		nodes, err := names.Nodes(ctx, objects)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if strings.HasPrefix(n, "restored-") {
				all = append(all, n)
			}
		}
		return all
	}

	s := start(New(t))
	s.Query("", "CREATE DATABASE d")
	const first, step = int64(1_500_000_000_000_000_000), int64(30_000_000_000)
	r := rand.New(rand.NewPCG(1, 2))
	for part := range 6 {
		var lines strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&lines, "m,h=h%d v=%d,s=\"%x\" %d\n", i%5, r.IntN(1e9), r.Uint64(), first+int64(part*10_000+i)*step)
		}
		s.Write("d", lines.String())
	}
	s.chill(4)
	questions := []string{
		"SELECT count(v), sum(v), percentile(v, 42), count(s) FROM m GROUP BY h", "SELECT * FROM m WHERE h = 'h3' LIMIT 40",
		"SELECT last(s), first(v) FROM m GROUP BY time(1d) fill(none)", "SHOW SERIES",
	}
	answers := func(s *Server) (all []string) {
		t.Helper()
		for _, q := range questions {
			answer := s.Query("d", q)
			if strings.Contains(answer, "error") {
				t.Fatalf("%s: %s", q, answer)
			}
			all = append(all, answer)
		}
		return all
	}
	same := func(what string, s *Server, want []string) {
		t.Helper()
		for i, got := range answers(s) {
			if got != want[i] {
				t.Errorf("%s: %s: %.500s, want %.500s", what, questions[i], got, want[i])
			}
		}
	}
	must(backups("backup", "-host", s.URL)...)
	older := answers(s)
	name := strings.Fields(must(backups("backup", "-list")...))[0]
	// The objects of the second backup are others: deleted rows have left them.
	s.Query("d", "DELETE FROM m WHERE h = 'h1' AND time < 1500300000000000000")
	s.Write("d", "m,h=late v=1 1500000000000000001")
	if status, body := s.coldDo("sweep"); status != http.StatusOK || !strings.Contains(body, `"problems":[]`) {
		t.Fatalf("sweep: %d %s", status, body)
	}
	s.chill(4)
	must(backups("backup", "-host", s.URL)...)
	newer := answers(s)
	s.Kill()
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}

	// Both states come back. Only tails are read and written.
	var total int64
	for _, i := range stored() {
		total += i.Size
	}
	one, two := New(t), New(t)
	for _, c := range []struct {
		s    *Server
		args []string
	}{{one, nil}, {two, []string{"-backup", name}}} {
		var reads, bytes int64
		if bucket != nil {
			reads, bytes = bucket.Reads.Load(), bucket.ReadBytes.Load()
		}
		out := must(backups("restore", append(c.args, "-cold", "-data", c.s.Dir)...)...)
		if !strings.Contains(out, "tsdbd cold claim") {
			t.Errorf("restore says %s", out)
		}
		all := size(t, c.s.Dir)
		if bucket != nil {
			reads, bytes = bucket.Reads.Load()-reads, bucket.ReadBytes.Load()-bytes
		}
		t.Logf("%d bytes are cold, the directory has %d, %d requests read %d bytes of the bucket: %s", total, all, reads, bytes, out)
		if all > total/50 || reads > 30 || bytes > total/50 {
			t.Errorf("%d bytes are cold; the directory has %d; %d requests read %d bytes", total, all, reads, bytes)
		}
	}
	if n := len(restored()); n != 2 {
		t.Errorf("%d lists of restored directories, want 2", n)
	}

	// Before any of them is started, the older backup goes, and the states for readers that are as
	// old. What was restored from it has what it needs, as it has after a sweep of the other.
	states, err := objects.List(ctx, names.States)
	if err != nil || len(states) == 0 {
		t.Fatalf("states %+v, %v", states, err)
	}
	for _, i := range states[:len(states)-1] {
		if err := objects.Delete(ctx, i.Name); err != nil {
			t.Fatal(err)
		}
	}
	out := must(backups("backup", "-prune", "1")...)
	if !strings.Contains(out, "removed 1 backups") {
		t.Errorf("prune: %s", out)
	}
	whole := func(what string, s *Server) {
		t.Helper()
		if out := must("cold", "verify", "-deep", "-host", s.URL); !strings.Contains(out, " 0 damaged") || strings.HasPrefix(out, "0 objects") {
			t.Errorf("%s: %s", what, out)
		}
	}
	start(one)
	if status, body := one.coldDo("sweep"); status == http.StatusOK || !strings.Contains(body, "belongs to server") {
		t.Errorf("sweep of a store that is not claimed: %d %s", status, body)
	}
	same("the newest backup", one, newer)
	must("cold", "claim", "-host", one.URL)
	one.chill(4)
	whole("the newest backup", one)
	if left := restored(); len(left) != 1 {
		t.Errorf("lists of restored directories once one has published its own: %q", left)
	}
	start(two)
	same("an older backup", two, older)
	whole("an older backup", two)
	two.Kill()

	// The restored server goes on.
	one.Write("d", "m,h=h2 v=5,s=\"new\" 1500000000000000007")
	one.Query("d", "DELETE FROM m WHERE h = 'h4' AND time < 1500600000000000000")
	if got := one.Query("d", "SELECT v, s FROM m WHERE h = 'h2' AND time = 1500000000000000007"); !strings.Contains(got, "new") {
		t.Errorf("a late row: %s", got)
	}
	if got := one.Query("d", "SELECT count(v) FROM m WHERE h = 'h4' AND time < 1500600000000000000"); strings.Contains(got, "series") {
		t.Errorf("deleted rows: %s", got)
	}
	now := answers(one)
	one.Stop()
	one.Env = append(append([]string{"TSDBD_COLD_URL=" + place}, env...), coldEnv[1:]...) // nothing goes there
	one.Restart()
	if status, body := one.coldDo("fetch"); status != http.StatusOK {
		t.Errorf("fetch: %d %s", status, body)
	}
	same("fetched shards", one, now)
	must(backups("backup", "-host", one.URL)...)
	one.Kill()

	// A body that is gone is found before anything is written.
	if said, err := tsdbd(backups("restore", "-cold", "-data", t.TempDir())...); err == nil || !strings.Contains(said, "no file of it was cold") {
		t.Errorf("restore -cold of a backup without cold files: %v %s", err, said)
	}
	name = strings.Fields(must(backups("backup", "-list")...))[0]
	m, err := backup.ReadManifest(ctx, objects, name+".backup")
	if err != nil {
		t.Fatal(err)
	}
	gone := ""
	for _, sh := range m.Shards {
		for _, f := range sh.Files {
			if f.Cold {
				gone = f.Object.Name
			}
		}
	}
	if err := objects.Delete(ctx, names.Key(gone)); err != nil || gone == "" {
		t.Fatalf("delete %q: %v", gone, err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	said, err := tsdbd(backups("restore", "-cold", "-backup", name, "-data", dir)...)
	if err == nil || !strings.Contains(said, gone+" is missing") {
		t.Errorf("restore without an object: %v %s", err, said)
	}
	if all := size(t, dir); all > 0 || len(restored()) != 1 {
		t.Errorf("restore without an object leaves %d bytes, lists %q", all, restored())
	}
}
