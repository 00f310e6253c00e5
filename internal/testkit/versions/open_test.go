package versions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// first is the first version whose data every later one reads.
const first = "0.9.0"

// TestVersions opens what each version has left.
func TestVersions(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(root, "*", "answers.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, file := range dirs {
		dir := filepath.Dir(file)
		found = found || filepath.Base(dir) == first
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			checkSize(t, dir)
			answers, coldAnswers := read(t, file, 20), read(t, filepath.Join(dir, "cold.json"), 5)
			t.Run("data", func(t *testing.T) {
				t.Parallel()
				data := unpack(t, filepath.Join(dir, "data.tar.gz"))
				if out := must(t, "verify", data); !strings.Contains(out, ": sound; ") {
					t.Errorf("verify: %s", out)
				}
				use(t, start(t, data), answers)
			})
			t.Run("backup", func(t *testing.T) {
				t.Parallel()
				place := unpack(t, filepath.Join(dir, "backup.tar.gz"))
				if out := must(t, "verify", "-backup", place); strings.Count(out, ": sound\n") != 2 {
					t.Errorf("verify: %s", out)
				}
				names, err := filepath.Glob(filepath.Join(place, "*.backup"))
				if err != nil || len(names) != 2 {
					t.Fatalf("backups: %q %v", names, err)
				}
				data := filepath.Join(t.TempDir(), "data")
				must(t, "restore", "-data", data, "-backup", strings.TrimSuffix(filepath.Base(names[0]), ".backup"), place)
				s := start(t, data)
				settle(t, s)
				expect(t, s, "restored", answers)
				// What this program takes goes on with the objects that are there.
				must(t, "backup", "-host", s.URL, place)
				if out := must(t, "verify", "-backup", place); strings.Count(out, ": sound\n") != 3 {
					t.Errorf("verify: %s", out)
				}
				s.Stop()
			})
			t.Run("cluster", func(t *testing.T) {
				t.Parallel()
				n := start(t, unpack(t, filepath.Join(dir, "cluster.tar.gz")), alone(t)...)
				await(t, "leader", func() bool {
					status, body, err := n.Do(t.Context(), http.MethodGet, "/health", nil, "")
					return err == nil && status == http.StatusOK && strings.Contains(body, " leads ")
				})
				use(t, n, answers)
			})
			t.Run("cold", func(t *testing.T) {
				t.Parallel()
				testCold(t, filepath.Join(dir, "cold.tar.gz"), coldAnswers)
			})
		})
	}
	if !found {
		t.Errorf("there is no version %s, which made the promise", first)
	}
}

// read reads questions with their answers, of which there are enough.
func read(t *testing.T, file string, enough int) (list []question) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) < enough {
		t.Fatalf("%s: %d answers, %v", file, len(list), err)
	}
	for i := range list {
		list[i].Answer = compact(t, list[i].Answer)
	}
	return list
}

// use does with a server of old data what one does with a database.
func use(t *testing.T, s *apptest.Server, answers []question) {
	t.Helper()
	settle(t, s)
	expect(t, s, "opened", answers)
	s.Stop()
	s.Restart()
	expect(t, s, "flushed", answers)

	// Rows in each shard, so that all files are merged into new ones.
	for round := range 3 {
		var lines strings.Builder
		for week := range 4 {
			fmt.Fprintf(&lines, "added,round=%d v=%di %d\n", round, week, origin+int64(week)*7*24*3600*1e9+int64(round))
		}
		s.Write("db", lines.String())
		s.Stop()
		s.Restart()
	}
	s.Stop()
	s.Env = append(s.Env, "TSDBD_DATA_COMPACT_AFTER=100ms")
	s.Restart()
	await(t, "merges", func() bool { return merged(t, s.Dir) })
	if n, err := s.Count("db", "SELECT count(v) FROM added"); err != nil || n != 12 {
		t.Errorf("%d rows that were written, want 12, %v", n, err)
	}
	s.Query("db", "DROP MEASUREMENT added")
	expect(t, s, "merged", answers)

	place, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	must(t, "backup", "-host", s.URL, place)
	must(t, "verify", "-backup", place)
	must(t, "restore", "-data", data, place)
	other := start(t, data)
	expect(t, other, "backed up and restored", answers)

	q := "SELECT count(usage) FROM cpu WHERE host = 'h1' AND time >= " + strconv.FormatInt(origin+24*3600*1e9, 10)
	before, err := other.Count("db", "SELECT count(usage) FROM cpu")
	part, err2 := other.Count("db", q)
	if err != nil || err2 != nil || part == 0 || part == before {
		t.Fatalf("%d rows, %d to be deleted, %v %v", before, part, err, err2)
	}
	other.Query("db", strings.Replace(q, "SELECT count(usage)", "DELETE", 1))
	for range 2 {
		if after, err := other.Count("db", "SELECT count(usage) FROM cpu"); err != nil || after != before-part {
			t.Errorf("%d rows after the delete, want %d, %v", after, before-part, err)
		}
		other.Kill()
		other.Restart()
	}
	other.Stop()
	if out := must(t, "verify", data); !strings.Contains(out, ": sound; ") {
		t.Errorf("verify: %s", out)
	}
	s.Stop()
	if out := must(t, "verify", s.Dir); !strings.Contains(out, ": sound; ") {
		t.Errorf("verify: %s", out)
	}
}

// TestBeforeThePromise refuses the data of a build whose formats are not read, changes
// nothing of it, and takes what that build exports.
func TestBeforeThePromise(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "18107fe4")
	data, place := unpack(t, filepath.Join(dir, "data.tar.gz")), unpack(t, filepath.Join(dir, "backup.tar.gz"))
	before := []map[string]string{tree(t, data), tree(t, place)}
	for _, c := range []struct {
		word string
		args []string
	}{
		{"", []string{"-data", data, "-http", "127.0.0.1:0"}},
		{data + ": OLDER\n", []string{"verify", data}},
		{`"state": "older"`, []string{"verify", "-json", data}},
		{"", []string{"export", "-data", data}},
		{"", []string{"inspect", "report", data}},
		{": OLDER\n", []string{"verify", "-backup", place}},
		{"", []string{"restore", "-data", filepath.Join(t.TempDir(), "new"), place}},
		{"", []string{"backup", "-list", place}},
	} {
		out, err := run(t, c.args...)
		for _, want := range []string{c.word, "was written by an older tsdbd", "tsdbd export of the older program (-data or -backup) and tsdbd import of this one"} {
			if err == nil || !strings.Contains(out, want) || strings.Contains(strings.ToLower(out), "damage") {
				t.Errorf("tsdbd %q: %v %s\nwant %q", c.args, err, out, want)
			}
		}
	}
	for i, dir := range []string{data, place} {
		after := tree(t, dir)
		for name, text := range before[i] {
			if after[name] != text {
				t.Errorf("%s was changed", name)
			}
		}
		if len(after) != len(before[i]) {
			t.Errorf("%s has %d files, it had %d", dir, len(after), len(before[i]))
		}
	}

	s := start(t, t.TempDir())
	must(t, "import", "-host", s.URL, filepath.Join(dir, "points.txt")) // as its tsdbd export -data has printed it
	want := `"columns":["time","city","note","temperature"],"values":[[1500000000000000000,"oslo","cold",-3.5],[1500000060000000000,"rome",null,21.5],[1500000120000000000,"bonn",null,11.5]]`
	if _, body, err := s.Do(t.Context(), http.MethodPost, "/query", url.Values{"db": {"demo"}, "epoch": {"ns"}, "q": {"SELECT * FROM weather"}}, ""); err != nil || !strings.Contains(body, want) {
		t.Errorf("%s %v, want %s", body, err, want)
	}
	s.Stop()
}
