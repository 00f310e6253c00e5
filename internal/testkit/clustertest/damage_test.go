//go:build linux

package clustertest

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"tsdbd/internal/testkit/figure"
)

var (
	flipFirst = flag.Int("flip-first", 0, "number of the first byte that TestFlippedLog flips, of those that are a stride apart")
	flipCount = flag.Int("flip-count", 2, "how many bytes TestFlippedLog flips; 0: all")
)

// flipStride is how far apart the bytes are.
const flipStride = 97

// TestFlippedLog flips a byte of the log of a node that is down, every 97th of it in
// turn. The node heals, or does not start and a new one takes its place. Its content
// is never another one than that of the others, and nothing that was acknowledged is
// lost.
func TestFlippedLog(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, env: []string{"TSDBD_DATA_FLUSH_IDLE=1h"}})
	c.nodes[0].must("", "CREATE DATABASE db")
	for i := range 40 {
		c.nodes[i%3].write("db", fmt.Sprintf("m,s=%d v=%di %d\nm,s=%d,t=a v=%di,f%d=\"text\" %d", i, i, i, i, i, i%5, i))
	}
	c.healthy()
	n := c.nodes[2]
	dir := filepath.Join(n.Dir, "cluster", "log")
	end := *flipFirst + *flipCount
	if *flipCount == 0 { // once through the log as it is now: each flip adds to it
		end = int(logSize(t, dir) / flipStride)
	}
	flips, rejoined, refused := 0, 0, 0
	for i := *flipFirst; i < end; i++ {
		before := c.idOf(n)
		n.Kill()
		flipped := flipLog(t, dir, int64(i)*flipStride%logSize(t, dir), 1<<(i%8))
		flips++
		n.Begin()
		if err := n.Await(); err != nil {
			refused++
			t.Logf("%s: the node does not start: %.600v", flipped, err)
			n.wipe()
			c.nodes[0].expel(n.name)
			c.restart(n)
		}
		c.healthy()
		if c.idOf(n) != before {
			rejoined++
		} else {
			t.Logf("%s: the node goes on", flipped)
		}
		c.nodes[i%3].write("db", fmt.Sprintf("m,flip=%d v=1i %d", i, i))
		c.healthy()
		for _, n := range c.nodes {
			want := int64(80 + flips)
			if got, err := n.count("db", "SELECT count(v) FROM m", 0); err != nil || got != want {
				c.fatalf("%s: %s has %d points, want %d: %v", flipped, n.name, got, want, err)
			}
		}
		c.verify()
	}
	figure.Report(t, "a byte of the log of a node flipped, every 97th", figure.Count{N: flips, Of: "bytes"})
	t.Logf("the node went on %d times, copied the data of another one %d times, and did not start %d times", flips-rejoined, rejoined-refused, refused)
	c.stop()
}

// idOf returns the id of a node in the cluster, "" if the others do not know it.
func (c *cluster) idOf(n *node) (id string) {
	c.t.Helper()
	c.await("the members", func() error {
		s, err := c.others(n)[0].status()
		if err != nil {
			return err
		}
		for _, m := range s.Members {
			if m.Name == n.name {
				id = m.ID
			}
		}
		return nil
	})
	return id
}

// logFiles returns the files of a log with what they hold, without the zeros at their
// ends.
func logFiles(t *testing.T, dir string) (paths []string, used []int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		paths, used = append(paths, path), append(used, int64(len(bytes.TrimRight(b, "\x00"))))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths, used
}

func logSize(t *testing.T, dir string) (size int64) {
	t.Helper()
	_, used := logFiles(t, dir)
	for _, n := range used {
		size += n
	}
	return size
}

// flipLog flips bits of a byte of a log, whose files count as one, and returns where
// that is.
func flipLog(t *testing.T, dir string, at int64, bits byte) string {
	t.Helper()
	paths, used := logFiles(t, dir)
	i := 0
	for ; at >= used[i]; i++ {
		at -= used[i]
	}
	b, err := os.ReadFile(paths[i])
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= bits
	if err := os.WriteFile(paths[i], b, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("byte %d of %s", at, filepath.Base(paths[i]))
}
