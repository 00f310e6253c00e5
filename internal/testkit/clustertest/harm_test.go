//go:build linux

package clustertest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// harm is damage of files of a kind.
type harm struct {
	files   string // which, as a pattern in the directory of a node
	all     bool   // all of one directory are damaged, not one file
	running bool   // it is also done while the node runs
}

// harms has each kind of file that a node of this test has, as docs/data-directory.md lists them.
// What was deleted, and the names of moved series, are in manifests.
var harms = map[string]harm{
	"data file":                {files: "db-*/shard-*/*.tsm", running: true},
	"data files of a shard":    {files: "db-*/shard-*/*.tsm", all: true},
	"index":                    {files: "db-*/shard-*/*.tsi", running: true},
	"manifest":                 {files: "db-*/shard-*/MANIFEST"},
	"copy of a manifest":       {files: "db-*/shard-*/MANIFEST.copy"},
	"manifest and its copy":    {files: "db-*/shard-*/MANIFEST*", all: true},
	"list of series":           {files: "db-*/series/series.log", running: true},
	"directory of a shard":     {files: "db-*/shard-*"},
	"directory of a database":  {files: "db-*"},
	"catalog":                  {files: "meta/catalog.*"},
	"ledger":                   {files: "meta/ledger", running: true},
	"windows to compute":       {files: "meta/touched"},
	"identity":                 {files: "cluster/node.*"},
	"log":                      {files: "cluster/log/*.rlog", running: true},
	"whole log":                {files: "cluster/log/*.rlog", all: true},
	"beginning of the log":     {files: "cluster/log/base"},
	"term and vote of the log": {files: "cluster/log/stable"},
}

// ways are what damage does to the bytes of a file; nil removes it.
var ways = []struct {
	name string
	do   func(g *trouble, b []byte) []byte
}{
	{"a flipped bit", func(g *trouble, b []byte) []byte {
		if used := len(bytes.TrimRight(b, "\x00")); used > 0 {
			b[g.r.IntN(used)] ^= 1 << g.r.IntN(8)
		}
		return b
	}},
	{"a missing end", func(g *trouble, b []byte) []byte { return b[:g.r.IntN(len(b)+1)] }},
	{"zeros", func(_ *trouble, b []byte) []byte { return make([]byte, len(b)) }},
	{"its loss", func(*trouble, []byte) []byte { return nil }},
}

// damage damages files of a kind of a node. Then the node must start again, and get well
// without help.
func (g *trouble) damage(n *node, kind string) {
	g.t.Helper()
	h := harms[kind]
	running := h.running && g.r.IntN(3) == 0
	if !running {
		n.Kill()
	}
	files, err := filepath.Glob(filepath.Join(n.Dir, h.files))
	if err != nil {
		g.t.Fatal(err)
	}
	if len(files) > 0 {
		chosen := files[g.r.IntN(len(files))]
		files = slices.DeleteFunc(files, func(name string) bool {
			return name != chosen && !(h.all && filepath.Dir(name) == filepath.Dir(chosen))
		})
	}
	way := ways[g.r.IntN(len(ways))] // of a directory, its loss
	if running {                     // what a process has mapped must not get shorter
		way = ways[0]
	}
	var names []string
	for _, name := range files {
		g.spoil(name, way.do)
		names = append(names, strings.TrimPrefix(name, n.Dir))
	}
	g.t.Logf("%s, running %t: %s in %s", n.name, running, way.name, strings.Join(names, " "))
	if running {
		g.hold()
		g.scrub(n)
		return
	}
	time.Sleep(time.Duration(g.r.Int64N(int64(time.Second))))
	g.restart(n)
}

// scrub has a node read its files, as it does once within data.scrub-interval. What was damaged
// under it is unknown to it until then, unless something needs just those bytes.
func (g *trouble) scrub(n *node) {
	g.t.Helper()
	out, err := exec.Command(apptest.Binary(g.t), "cluster", "scrub", "-host", n.URL).CombinedOutput()
	if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		g.t.Fatalf("scrub of %s: %v: %s", n.name, err, out)
	}
	g.t.Logf("%s", out)
}

// spoil changes a file in place.
func (g *trouble) spoil(name string, how func(g *trouble, b []byte) []byte) {
	g.t.Helper()
	st, err := os.Stat(name)
	if os.IsNotExist(err) { // a node that runs has removed it
		return
	}
	if err == nil && st.IsDir() {
		if err := os.RemoveAll(name); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	before, err := os.ReadFile(name)
	if err != nil {
		g.t.Fatal(err)
	}
	after := how(g, bytes.Clone(before))
	if after == nil {
		if err := os.Remove(name); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	if len(after) < len(before) {
		err = f.Truncate(int64(len(after)))
	}
	for i := range after { // only what changes: others may write beside it
		if after[i] != before[i] && err == nil {
			_, err = f.WriteAt(after[i:i+1], int64(i))
		}
	}
	if err != nil {
		g.t.Fatal(err)
	}
}
