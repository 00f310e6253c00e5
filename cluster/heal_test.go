package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/store/layout"
)

// shardFiles returns the files of a server's shards with a suffix, the largest first.
func (s *server) shardFiles(suffix string) (files []string) {
	s.g.t.Helper()
	size := map[string]int64{}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, suffix) && strings.Contains(path, layout.ShardPrefix) && !strings.Contains(path, "quarantine") {
			files = append(files, path)
			if info, err := d.Info(); err == nil {
				size[path] = info.Size()
			}
		}
		return err
	})
	if err != nil || len(files) == 0 {
		s.g.t.Fatalf("no files %s: %v", suffix, err)
	}
	slices.SortFunc(files, func(a, b string) int { return int(size[b] - size[a]) })
	return files
}

// sound waits until a server knows of no damage, and has healed.
func (g *group) sound(name string) {
	g.t.Helper()
	g.await(name+" has healed", func() bool {
		n, st := g.servers[name].now()
		return n != nil && n.replica.Ready() && damageOf(st).files == 0
	})
}

// change changes the bytes of a file.
func change(t *testing.T, name string, how func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, how(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHeals damages the files of a follower in every way. It gets well by itself while
// points are written and deleted, and has the same points as the others then.
func TestHeals(t *testing.T) {
	g := settled(t)
	g.write("n1", "d", 0, 400)
	g.send("n1", "/write?db=d", "gone,host=x v=1 1\ngone,host=x v=2 2000000000\n")
	s := g.servers["n3"]
	flip := func(b []byte) []byte {
		for at := len(b) / 8; at < len(b)/2; at += 40 {
			b[at] ^= 0x10
		}
		return b
	}
	for i, c := range []struct {
		what string
		harm func()
		heal int64 // parts that are fetched at least; -1: the whole state
	}{
		{"a file cut", func() { change(t, s.shardFiles(".tsm")[0], func(b []byte) []byte { return b[:len(b)-100] }) }, 1},
		{"a file of zeros", func() { change(t, s.shardFiles(".tsm")[0], func(b []byte) []byte { return make([]byte, len(b)) }) }, 1},
		{"flipped bits", func() { change(t, s.shardFiles(".tsm")[0], flip) }, 1},
		{"a missing file", func() { must(t, os.Remove(s.shardFiles(".tsm")[0])) }, 1},
		{"a missing shard", func() { must(t, os.RemoveAll(filepath.Dir(s.shardFiles(".tsm")[0]))) }, 1},
		{"missing manifests", func() {
			dir := filepath.Dir(s.shardFiles(".tsm")[0])
			must(t, os.Remove(filepath.Join(dir, "MANIFEST")))
			must(t, os.Remove(filepath.Join(dir, "MANIFEST.copy")))
		}, 1},
		{"a manifest of zeros", func() {
			dir := filepath.Dir(s.shardFiles(".tsm")[0])
			change(t, filepath.Join(dir, "MANIFEST"), func(b []byte) []byte { return make([]byte, len(b)) })
		}, 0},
		{"an index of zeros", func() { change(t, s.shardFiles(".tsi")[0], func(b []byte) []byte { return make([]byte, len(b)) }) }, 0},
		{"series of zeros", func() {
			change(t, filepath.Join(s.dir, "db-1", "series", "series.log"), func(b []byte) []byte { return make([]byte, len(b)) })
		}, 1},
		{"series cut", func() {
			change(t, filepath.Join(s.dir, "db-1", "series", "series.log"), func(b []byte) []byte { return b[:len(b)/2] }) // the last block may be series without rows
		}, 1},
		{"missing series", func() { must(t, os.RemoveAll(filepath.Join(s.dir, "db-1", "series"))) }, 1},
		{"a missing database", func() { must(t, os.RemoveAll(filepath.Join(s.dir, "db-1"))) }, -1},
	} {
		g.equal("n1", "n2", "n3")
		s.stop() // which flushes
		c.harm()
		s.start()
		for k := range 20 { // beside the healing
			g.write("n1", "d", 400+100*i+k, 30)
			g.send("n2", "/delete?db=d", fmt.Sprintf("%d", 3*i+k))
		}
		g.await("n3 follows", func() bool { n, _ := s.now(); return n != nil && n.replica.Ready() })
		g.verify("n1") // it reads all: what flipped is met
		g.sound("n3")
		if c.heal >= 0 {
			g.await("the status says what was healed", func() bool {
				n, _ := s.now()
				return n != nil && n.Status().Healing.Healed >= c.heal
			})
			if n, _ := s.now(); c.heal == 0 && n.Status().Healing.Healed > 0 {
				t.Errorf("%s: fetched although nothing was lost", c.what)
			}
		}
		if v := g.verify("n1"); !v.Equal {
			t.Fatalf("%s: %+v", c.what, v)
		}
		g.equal("n1", "n2", "n3")
		s.mu.Lock()
		reopens := s.reopens
		s.mu.Unlock()
		if (c.heal < 0) != (reopens > 0) {
			t.Errorf("%s: the whole state was copied %d times", c.what, reopens)
		}
	}
}
