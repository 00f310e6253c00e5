package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
)

// TestMappedFilesUnreadable cuts every mapped file of an open store, one kind
// after the other, as a disk does that cannot read its pages any more. Whatever
// meets it ends with an error that names the file, or is right.
func TestMappedFilesUnreadable(t *testing.T) {
	const hosts = 3000
	lines := func(from, to int, f string, at int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "m,host=%05d,zone=z%d %s %d\n", i, i%50, f, at)
		}
		return b.String()
	}
	for _, kind := range []string{".tsm", ".tsi", ".idx"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			opt := testOptions(vfs.OS)
			opt.MaxValuesPerTag = 1 << 20
			open := func() *testStore {
				s, err := Open(dir, opt)
				if err != nil {
					t.Fatal(err)
				}
				return &testStore{Store: s, t: t}
			}
			s := open()
			s.create("db")
			s.must(s.write("db", lines(0, hosts, "f=1", 1)))
			s.must(s.Close())
			s = open()
			s.must(s.write("db", lines(0, hosts, "f=2", 2))) // reads the pages
			if n := len(s.read("db")); n != 2*hosts {
				t.Fatalf("%d values", n)
			}
			cut := 0
			s.must(filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
				if err == nil && filepath.Ext(name) == kind {
					cut++
					err = os.Truncate(name, 0)
				}
				return err
			}))
			if cut == 0 {
				t.Fatal("no such file")
			}
			allowed := func(what string, err error) {
				t.Helper()
				var damage *binio.CorruptError
				if err != nil && (kind == ".idx" || !errors.As(err, &damage) || !strings.HasSuffix(damage.Path, kind)) {
					t.Errorf("%s: %v", what, err)
				}
			}
			s.mu.databases[1].table.Store(point.NewTable(1)) // every series is looked up again
			allowed("write", s.write("db", lines(0, hosts, "f=3", 3)))
			allowed("write of new series", s.write("db", lines(hosts, hosts+10, "f=3", 3)))
			allowed("read", func() (err error) { // as queries read
				defer vfs.CatchFault(&err)()
				_, err = readAll(s.Store, "db", false)
				return err
			}())
			err := s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: 1, Max: 1}, Where: hostIs("00001")})
			allowed("delete", err)
			for _, e := range s.entries() {
				s.flush(t.Context(), e)
				for range 3 {
					_, err := e.Compact(t.Context(), true)
					allowed("merge", err)
				}
			}
			s.must(s.Close())
			if kind == ".idx" {
				s = open()
				if n := len(s.read("db")); n != 3*hosts+10-1 {
					t.Errorf("%d values after a restart", n)
				}
				s.must(s.Close())
			}
		})
	}
}
