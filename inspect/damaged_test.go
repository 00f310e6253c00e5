package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/vfs"
)

// TestInspectDamaged flips bytes of and cuts every kind of file. What inspect
// shows then is what it showed before, or it tells the file that is damaged.
func TestInspectDamaged(t *testing.T) {
	clean := testData(t)
	r := newRand(t)
	shardDir := func(name string) string { return filepath.Dir(name) }
	same := func(name string) string { return name }
	for _, c := range []struct {
		what, pattern string
		place         func(name string) string
		look          func(place string) (Texter, error)
	}{
		{"wal", "*.wal", same, func(p string) (Texter, error) { return WAL(vfs.OS, p, true) }},
		{"tsm", "*.tsm", same, func(p string) (Texter, error) { return TSM(vfs.OS, p, true) }},
		{"tsi", "*.tsi", same, func(p string) (Texter, error) { return TSI(vfs.OS, p) }},
		{"series", "series.log", shardDir, func(p string) (Texter, error) { return Series(vfs.OS, p, true) }},
		{"manifest", "MANIFEST", same, func(p string) (Texter, error) { return Manifest(vfs.OS, p) }},
		{"manifest copy", "MANIFEST.copy", same, func(p string) (Texter, error) { return Manifest(vfs.OS, p) }},
		{"shard by tsm", "*.tsm", shardDir, func(p string) (Texter, error) { return Shard(vfs.OS, p) }},
		{"shard by tsi", "*.tsi", shardDir, func(p string) (Texter, error) { return Shard(vfs.OS, p) }},
		{"shard by manifest", "MANIFEST", shardDir, func(p string) (Texter, error) { return Shard(vfs.OS, p) }},
		{"encodings", "*.tsm", same, func(p string) (Texter, error) { return Encodings(vfs.OS, p) }},
		{"encodings of all", "*.tsm", func(n string) string { return filepath.Join(shardDir(n), "../..") }, func(p string) (Texter, error) { return Encodings(vfs.OS, p) }},
		{"encodings by manifest", "MANIFEST", shardDir, func(p string) (Texter, error) { return Encodings(vfs.OS, p) }},
		{"report by tsm", "*.tsm", func(n string) string { return filepath.Join(shardDir(n), "../..") }, func(p string) (Texter, error) { return Report(p) }},
		{"report by tsi", "*.tsi", func(n string) string { return filepath.Join(shardDir(n), "../..") }, func(p string) (Texter, error) { return Report(p) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			told, equal := 0, 0
			for run := range 8 {
				dir := t.TempDir()
				copyTree(t, clean, dir)
				list := files(t, dir, c.pattern)
				name := list[r.IntN(len(list))]
				shown := func() (string, Texter, error) {
					report, err := c.look(c.place(name))
					if err != nil {
						return "", nil, err
					}
					var b bytes.Buffer
					for _, json := range []bool{false, true} {
						if err := Write(&b, report, json); err != nil {
							t.Fatal(err)
						}
					}
					return b.String(), report, nil
				}
				before, _, err := shown()
				if err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				used := len(bytes.TrimRight(b, "\x00"))
				if at := r.IntN(used); run%4 == 0 {
					b = b[:at]
				} else {
					b[at] ^= byte(1 + r.IntN(255))
				}
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
				after, report, err := shown()
				switch {
				case err != nil:
					if told++; !strings.Contains(err.Error(), filepath.Base(name)) {
						t.Errorf("%s: the error names no file: %v", name, err)
					}
				case strings.Contains(after, "notice: ") || len(Damages(report)) > 0:
					told++
				case after == before || strings.HasPrefix(c.what, "report") && run%4 == 0:
					equal++ // values are not read; or the sizes differ by the cut
				case c.what == "wal" || c.what == "series":
					equal++ // a torn end is no damage
				default:
					t.Errorf("%s: shown without a word:\n%s\nbefore:\n%s", name, after, before)
				}
			}
			t.Logf("%d told, %d the same", told, equal)
		})
	}
}
