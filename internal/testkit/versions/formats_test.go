package versions

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tsdbd/backup"
	"tsdbd/board"
	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/rows"
	"tsdbd/cluster/self"
	"tsdbd/internal/binio"
	"tsdbd/internal/hll"
	"tsdbd/internal/quantiles"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/store/ledger"
	"tsdbd/store/touched"
	"tsdbd/transfer/journal"
	"tsdbd/tsi"
	"tsdbd/tsm"
	"tsdbd/wal"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

// format is a form of files or of messages, and how a program reads it.
type format struct {
	name string
	// archive and file name a file of the first version. Other forms have a text.
	archive, file string
	text          []byte
	// read reads a copy: dir has all files of the archive, name is the one.
	read func(dir, name string, b []byte) error
	// set gives the bytes another version, with the checksum that belongs to it.
	set func(b []byte, version uint64) []byte
	// newest is the newest version that this program reads, oldest the first one.
	oldest, newest uint64
	// plain says that no checksum is over the bytes, torn that a missing end is that of a
	// write which was not finished, twice that a second copy in the file replaces a damaged one,
	// and inside that something around it tells whose it is.
	plain, torn, twice, inside bool
}

var le = binary.LittleEndian

// at32 sets a version of 32 bits.
func at32(at int, sum func(b []byte)) func(b []byte, version uint64) []byte {
	return func(b []byte, version uint64) []byte {
		le.PutUint32(b[at:], uint32(version))
		sum(b)
		return b
	}
}

// sumAt stores the checksum of what is before it.
func sumAt(at int) func(b []byte) {
	return func(b []byte) { le.PutUint32(b[at:], binio.Checksum(b[:at])) }
}

// pair stores the checksum of the first copy of a file of the raft log.
func pair(b []byte) {
	end := 24 + int(le.Uint32(b[12:]))
	le.PutUint32(b[end:], binio.PlacedChecksum(0, b[:end]))
}

func hashed(magic string, version uint64, body []byte) []byte {
	return append(fmt.Appendf(nil, magic, version, sha256.Sum256(body)), body...)
}

// message returns rows as one node sends them to another.
func message(t testing.TB) []byte {
	t.Helper()
	var p lineproto.Parser
	b := &point.Batch{Untimed: 1000}
	if _, err := p.Parse(b, point.NewTable(7), []byte("cpu,host=a v=1.5,n=2i,note=\"x\" 1700000000000\n"), lineproto.Options{Unit: 1000, Now: point.NoTime}); err != nil {
		t.Fatal(err)
	}
	return new(rows.Encoder).Append(nil, b, b.Rows)
}

// formats returns all formats that docs/formats/README.md promises.
func formats(t testing.TB) []format {
	command, err := meta.EncodeCommand(meta.DropShard{ID: 1}, &meta.Data{})
	if err != nil {
		t.Fatal(err)
	}
	record, err := new(entry.Encoder).AppendRecord(nil, entrytest.Note(entrytest.Series(1), 1, 3, "x"), &entry.Definitions{})
	if err != nil {
		t.Fatal(err)
	}
	var distinct hll.Sketch
	distinct.Add(1)
	var values quantiles.Sketch
	for i := range 20 {
		values.Add(float64(i * i))
	}
	base64Version := func(prefix string) func(b []byte, version uint64) []byte {
		return func(b []byte, version uint64) []byte {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(b), prefix))
			if err != nil {
				t.Fatal(err)
			}
			raw[0] = byte(version)
			return []byte(prefix + base64.StdEncoding.EncodeToString(raw))
		}
	}
	openLog := func(dir, _ string, _ []byte) error {
		s, err := raftlog.Open(vfs.OS, filepath.Join(dir, "cluster", "log"), raftlog.Options{})
		if err != nil {
			return err
		}
		for _, d := range s.Damage() {
			err = binio.Corruptf(d.Path, d.Offset, "%s", d.Reason)
		}
		return errors.Join(err, s.Close())
	}
	return []format{
		{name: "catalog", archive: "data", file: "meta/catalog.0", oldest: 8, newest: 9, set: at32(8, func(b []byte) {
			base := b[32 : 32+le.Uint64(b[20:])] // records follow
			le.PutUint32(b[28:], binio.ChecksumUpdate(binio.Checksum(b[:28]), base))
		}), read: func(_, name string, _ []byte) error { _, err := meta.ReadFile(vfs.OS, name); return err }},
		{
			name: "ledger", archive: "data", file: "meta/ledger", oldest: 3, newest: 3, set: at32(8, sumAt(28)),
			read: func(dir, name string, _ []byte) error {
				_, whole, err := ledger.Read(vfs.OS, dir)
				if err == nil && !whole {
					err = binio.Corruptf(name, -1, "records are damaged")
				}
				return err
			},
		},
		{name: "file of touched windows", archive: "data", file: "meta/" + touched.Name, oldest: 2, newest: 2, set: at32(8, func(b []byte) {
			le.PutUint32(b[36:], binio.ChecksumUpdate(binio.Checksum(b[:36]), b[40:]))
		}), read: func(dir, name string, _ []byte) error {
			data, err := meta.ReadFile(vfs.OS, dir+"/meta/catalog.0")
			if err != nil {
				return err
			}
			return touched.Check(vfs.OS, filepath.Dir(name), data.Lineage)
		}},
		{
			name: "shard manifest", archive: "data", file: "db-1/shard-*/MANIFEST", oldest: 4, newest: 5, set: func(b []byte, version uint64) []byte {
				m, err := manifest.Decode("MANIFEST", b)
				if err != nil {
					t.Fatal(err)
				}
				for i := range m.TSM {
					if n, ok := manifest.Number(m.TSM[i].Name); ok && version > 4 {
						m.TSM[i].Name = manifest.TailName(n) // version 5 has cold files
					}
				}
				if b, err = m.Encode(); err != nil {
					t.Fatal(err)
				}
				return at32(8, func(b []byte) { sumAt(len(b) - 4)(b) })(b, version)
			},
			read: func(_, name string, _ []byte) error {
				return manifest.ReadCopy(vfs.OS, filepath.Dir(name), manifest.Name).Err
			},
		},
		{
			name: "TSM file", archive: "data", file: "db-1/shard-*/*.tsm", oldest: 1, newest: 4, set: at32(8, sumAt(12)),
			read: func(_, name string, _ []byte) error {
				r, err := tsm.Open(vfs.OS, name)
				if err == nil {
					err = errors.Join(r.Verify(t.Context()), r.Close())
				}
				return err
			},
		},
		{name: "tail of a TSM file", text: tail(t), oldest: 1, newest: 1, set: at32(8, sumAt(44)), read: func(dir, _ string, b []byte) error {
			name := filepath.Join(dir, "00000001.tail")
			if err := os.WriteFile(name, b, 0o600); err != nil {
				return err
			}
			r, err := tsm.OpenTail(vfs.OS, name, nil)
			if err == nil {
				err = errors.Join(r.VerifyIndex(), r.Close())
			}
			return err
		}},
		{name: "TSI file", archive: "data", file: "db-1/shard-*/*.tsi", oldest: 2, newest: 2, set: func(b []byte, version uint64) []byte {
			le.PutUint32(b[len(b)-16:], uint32(version))
			at := len(b) - 96
			if version == 1 { // which had no place of the tag keys in its footer
				at = len(b) - 80
			}
			le.PutUint32(b[len(b)-12:], binio.PlacedChecksum(int64(at), b[at:len(b)-12]))
			return b
		}, read: func(_, name string, _ []byte) error {
			f, err := tsi.OpenFile(vfs.OS, name)
			if err == nil {
				err = errors.Join(f.Verify(), f.Release())
			}
			return err
		}},
		{
			name: "segment of the log", archive: "data", file: "wal/*.wal", oldest: 5, newest: 5, set: at32(8, sumAt(68)),
			read: func(_, name string, _ []byte) error {
				_, damage, err := wal.Inspect(vfs.OS, filepath.Dir(name), func(*wal.SegmentInfo, *entry.Entry) error { return nil })
				if err == nil && len(damage) > 0 {
					err = binio.Corruptf(name, damage[0].Offset, "%s", damage[0].Reason)
				}
				return err
			},
		},
		{name: "series log", archive: "data", file: "db-1/series/series.log", torn: true, oldest: 2, newest: 2, set: func(b []byte, version uint64) []byte {
			b[7] = byte(version) // and the end of the magic
			return at32(8, sumAt(32))(b, version)
		}, read: func(_, name string, _ []byte) error {
			owner, err := series.ReadOwner(vfs.OS, filepath.Dir(name))
			if err != nil {
				return err
			}
			f, err := series.Open(vfs.OS, filepath.Dir(name), series.Options{Identity: owner})
			if err != nil {
				return err
			}
			return errors.Join(append(f.Verify(nil), f.Close())...)
		}},
		{name: "backup", archive: "backup", file: "*.backup", oldest: 3, newest: 3, set: func(b []byte, version uint64) []byte {
			_, body, _ := bytes.Cut(b, []byte("\n"))
			var m map[string]json.RawMessage
			if err := json.Unmarshal(body, &m); err != nil {
				t.Fatal(err)
			}
			m["version"] = fmt.Append(nil, version)
			body, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return hashed("tsdbd-backup %d %x\n", 1, body) // the 1 is of the magic
		}, read: func(dir, name string, _ []byte) error {
			_, _, err := backup.OpenRepository(vfs.OS, dir).Manifest(t.Context(), strings.TrimSuffix(filepath.Base(name), ".backup"))
			return err
		}},
		{name: "segment of the raft log", archive: "cluster", file: "cluster/log/*.rlog", oldest: 2, newest: 2, set: at32(8, sumAt(60)), read: openLog},
		{name: "file of the raft log", archive: "cluster", file: "cluster/log/base", twice: true, oldest: 1, newest: 1, set: at32(8, pair), read: openLog},
		{name: "file of the raft log", archive: "cluster", file: "cluster/log/stable", twice: true, oldest: 1, newest: 1, set: at32(8, pair), read: openLog},
		{name: "identity of a node", archive: "cluster", file: "cluster/node.1", oldest: 1, newest: 2, set: func(b []byte, version uint64) []byte {
			_, body, _ := bytes.Cut(b, []byte("\n"))
			return hashed("tsdbd-node %d %x\n", version, body)
		}, read: func(dir, name string, b []byte) error {
			if err := os.WriteFile(strings.TrimSuffix(name, "1")+"0", b, 0o600); err != nil { // the other copy
				return err
			}
			_, err := self.Read(vfs.OS, dir)
			return err
		}},
		{name: "change of the catalog", text: command, oldest: 2, newest: 2, plain: true, inside: true, set: func(b []byte, version uint64) []byte {
			b[0] = byte(version)
			return b
		}, read: func(_, _ string, b []byte) error { _, err := meta.DecodeCommand(b); return err }},
		{name: "record of the log", text: record, oldest: 3, newest: 3, set: func(b []byte, version uint64) []byte {
			b[4] = byte(version)
			le.PutUint32(b, binio.Checksum(b[4:]))
			return b
		}, read: func(_, _ string, b []byte) error {
			_, err := entry.NewDecoder(func(uint32, uint32) (string, bool) { return "", false }).Record(b)
			return err
		}},
		{
			name: "sketch of distinct values", text: []byte(distinct.Text()), oldest: 1, newest: 1, plain: true, set: base64Version("HLL_"),
			read: func(_, _ string, b []byte) error { _, err := hll.Parse(string(b)); return err },
		},
		{
			name: "sketch of quantiles", text: []byte(values.Text()), oldest: 1, newest: 1, plain: true, set: base64Version("DDS_"),
			read: func(_, _ string, b []byte) error { _, err := quantiles.Parse(string(b)); return err },
		},
		{
			name: "histogram", text: []byte(base64.RawStdEncoding.EncodeToString([]byte{0x10, 0, 0, 0, 0, 0, 0, 0, 0})), oldest: 1, newest: 1, plain: true,
			set: func(b []byte, version uint64) []byte {
				raw, err := base64.RawStdEncoding.DecodeString(string(b))
				if err != nil {
					t.Fatal(err)
				}
				raw[0] = byte(version<<4) | raw[0]&15
				return []byte(base64.RawStdEncoding.EncodeToString(raw))
			}, read: func(_, _ string, b []byte) error { _, err := prom.ParseHistogram(string(b)); return err },
		},
		{name: "document of a board", text: []byte(`{"version":1,"panels":[]}`), oldest: 1, newest: 1, plain: true, set: func(b []byte, version uint64) []byte {
			return fmt.Appendf(nil, `{"version":%d,"panels":[]}`, version)
		}, read: func(_, _ string, b []byte) error { _, err := board.Check(b); return err }},
		{name: "rows", text: message(t), oldest: 1, newest: rows.Newest, set: func(b []byte, version uint64) []byte {
			b[0] = byte(version)
			sumAt(len(b) - 4)(b)
			return b
		}, read: func(_, _ string, b []byte) error { _, err := rows.Open(b); return err }},
		{name: "journal of an import", text: []byte("tsdbd import journal 2\n"), oldest: 2, newest: 2, plain: true, set: func(_ []byte, version uint64) []byte {
			return fmt.Appendf(nil, "tsdbd import journal %d\n", version)
		}, read: func(dir, _ string, b []byte) error {
			name := filepath.Join(dir, "journal")
			if err := os.WriteFile(name, append(b, fmt.Appendf(nil, "%08x %q\n", binio.Checksum([]byte(`"x"`)), "x")...), 0o600); err != nil {
				return err
			}
			j, err := journal.Open(name, "x")
			if err == nil {
				err = j.Close()
			}
			return err
		}},
	}
}

// tail returns the tail of a TSM file.
func tail(t testing.TB) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(unpack(t, filepath.Join(root, first, "data.tar.gz")), "db-1", "shard-*", "*.tsm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no TSM file: %v", err)
	}
	r, err := tsm.Open(vfs.OS, files[0])
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "tail")
	if err := errors.Join(r.WriteTail(vfs.OS, name), r.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFormats reads each format as it is, as a newer and as an older program has written it,
// with other content, and damaged. Each is told from the others, by name.
func TestFormats(t *testing.T) {
	t.Parallel()
	trees := map[string]string{}
	for _, name := range []string{"data", "backup", "cluster"} {
		trees[name] = unpack(t, filepath.Join(root, first, name+".tar.gz"))
	}
	for _, f := range formats(t) {
		what := strings.TrimSpace(f.name + " " + filepath.Base(f.file))
		read := func(change func(b []byte) []byte) (name string, err error) {
			t.Helper()
			dir, b := t.TempDir(), f.text
			if f.file != "" {
				if err := os.CopyFS(dir, os.DirFS(trees[f.archive])); err != nil {
					t.Fatal(err)
				}
				files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(f.file)))
				if err != nil || len(files) == 0 {
					t.Fatalf("%s: no %s: %v", what, f.file, err)
				}
				name = files[0]
				if b, err = os.ReadFile(name); err != nil {
					t.Fatal(err)
				}
			}
			b = change(bytes.Clone(b))
			if name != "" {
				if err := os.WriteFile(name, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return name, f.read(dir, name, b)
		}
		version := func(v uint64) func(b []byte) []byte {
			return func(b []byte) []byte { return f.set(b, v) }
		}
		if _, err := read(func(b []byte) []byte { return b }); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := read(version(f.newest)); err != nil {
			t.Errorf("%s of version %d: %v", what, f.newest, err)
		}
		name, err := read(version(f.newest + 1))
		var other *binio.VersionError
		newer := fmt.Sprintf("%s of version %d was written by a newer tsdbd; use that version or newer", f.name, f.newest+1)
		if f.name == "rows" {
			newer = "they were written by a newer tsdbd; use that version or newer"
		} else if !errors.As(err, &other) || other.Age() != "newer" {
			t.Errorf("a newer %s: %v", what, err)
		}
		if err == nil || !strings.Contains(err.Error(), newer) || !strings.Contains(err.Error(), filepath.Base(name)) && name != "" {
			t.Errorf("a newer %s: %v, want %q and %q", what, err, filepath.Base(name), newer)
		}
		if f.oldest > 1 {
			_, err := read(version(f.oldest - 1))
			if !errors.As(err, &other) || other.Age() != "older" || !strings.Contains(err.Error(), "tsdbd export of the older program") {
				t.Errorf("an older %s: %v", what, err)
			}
		}
		changes := map[string]func(b []byte) []byte{
			"of InfluxDB": func(b []byte) []byte {
				return append([]byte{0x16, 0xd1, 0x16, 0xd1, 1}, make([]byte, len(b))...)
			},
			"with other text": func(b []byte) []byte { return bytes.Repeat([]byte("What is this? "), len(b)/14+1) },
			"cut":             func(b []byte) []byte { return b[:len(b)/2] },
			"flipped": func(b []byte) []byte {
				if f.plain {
					return b[:len(b)*3/4]
				}
				// Behind the version, and not in what is zeros to the end.
				b[len(bytes.TrimRight(b, "\x00"))*2/3] ^= 0x10
				return b
			},
		}
		if f.torn || f.twice {
			delete(changes, "cut")
		}
		if f.twice {
			delete(changes, "flipped")
		}
		if f.inside {
			delete(changes, "of InfluxDB")
			delete(changes, "with other text")
		}
		for how, change := range changes {
			if _, err := read(change); err == nil || errors.Is(err, binio.ErrVersion) {
				t.Errorf("%s %s: %v", what, how, err)
			}
		}
	}
}

// TestFormatsPage compares the table of docs/formats/README.md with what readers take.
func TestFormatsPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats(t) {
		reads := fmt.Sprint(f.newest)
		if f.oldest < f.newest {
			reads = fmt.Sprintf("%d to %d", f.oldest, f.newest)
		}
		row := regexp.MustCompile(`(?m)^\| \[?` + f.name + `[\],| ][^|\n]*\|(?:[^|\n]*\|)? ` + reads + ` \| .*\| \d+\.\d+\.\d+ \|`)
		if !row.Match(text) {
			t.Errorf("the page does not say that %s is read in version %s", f.name, reads)
		}
	}
}
