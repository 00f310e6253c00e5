package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

var update = flag.Bool("update", false, "rewrite golden files that do not exist")

// sampleManifest is the manifest of the golden file.
func sampleManifest() *Manifest {
	return &Manifest{
		Version: manifestVersion, Created: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Sequence: 42,
		Filter: Filter{Database: "d", Range: model.TimeRange{Min: 1, Max: model.MaxTime}},
		Catalog: &meta.Data{
			Lineage: identity.Lineage{1, 2, 3, 0xfe}, Index: 7, LastDatabaseID: 3, LastShardGroupID: 5, LastShardID: 5,
			Databases: []*meta.Database{{
				ID: 3, Name: "d", DefaultRetentionPolicy: "autogen",
				RetentionPolicies: []*meta.RetentionPolicy{{
					Name: "autogen", ShardGroupDuration: 7 * 24 * time.Hour, ReplicaN: 1,
					ShardGroups: []meta.ShardGroup{{ID: 5, Start: 0, End: 1e9, Shards: []meta.Shard{{ID: 5}}}},
				}},
			}},
		},
		Shards: []ShardManifest{{ID: 5, Database: 3, Manifest: []byte("manifest"), Files: []File{
			{"00000001.tsm", Object{"0123456789abcdef-1000-1-2a-0.tsm", 4096}},
			{"00000002.tsi", Object{"fedcba9876543210-200.tsi", 512}},
		}}},
		Series:  []SeriesLog{{Database: 3, Pieces: []Object{{"00000000000000ff-64.series", 100}}}},
		Objects: map[string]string{"fedcba9876543210-200.tsi": "aa", "0123456789abcdef-1000-1-2a-0.tsm": "bb", "00000000000000ff-64.series": "cc"},
	}
}

// TestManifestGolden keeps backups of version 2 readable forever.
func TestManifestGolden(t *testing.T) {
	const name = "testdata/manifest-v2.golden"
	b, err := sampleManifest().encode()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) && *update {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		want, err = b, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("a manifest is written otherwise than in version 2:\n%s", b)
	}
	m, err := decodeBackup(name, want)
	if err != nil {
		t.Fatal(err)
	}
	if m.Catalog.Database("d") == nil {
		t.Error("catalog is not usable")
	}
	again, err := m.encode()
	if err != nil || !bytes.Equal(again, want) {
		t.Errorf("what was read is written otherwise: %v\n%s", err, again)
	}
	if !reflect.DeepEqual(m.Shards, sampleManifest().Shards) || m.Bytes() != 4096+512+100 {
		t.Errorf("%+v", m.Shards)
	}
	for i := range want {
		bad := bytes.Clone(want)
		bad[i] ^= 1
		if _, err := decodeBackup(name, bad); err == nil {
			t.Fatalf("byte %d changed and nothing noticed", i)
		}
	}
}

// TestStrangeNames refuses names that would lead out of a directory.
func TestStrangeNames(t *testing.T) {
	for what, spoil := range map[string]func(m *Manifest){
		"object up":       func(m *Manifest) { m.Shards[0].Files[0].Object.Name = "../0123456789abcdef-1.tsm" },
		"object absolute": func(m *Manifest) { m.Series[0].Pieces[0].Name = "/etc/passwd" },
		"object empty":    func(m *Manifest) { m.Series[0].Pieces[0].Name = "" },
		"object size":     func(m *Manifest) { m.Series[0].Pieces[0].Size = -1 },
		"file up":         func(m *Manifest) { m.Shards[0].Files[0].Name = "../x" },
		"file dots":       func(m *Manifest) { m.Shards[0].Files[0].Name = ".." },
		"file empty":      func(m *Manifest) { m.Shards[0].Files[0].Name = "" },
		"database":        func(m *Manifest) { m.Shards[0].Database = 9 },
		"version":         func(m *Manifest) { m.Version = 1 },
		"catalog":         func(m *Manifest) { m.Catalog = nil },
	} {
		m := sampleManifest()
		spoil(m)
		if err := m.check(); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func FuzzDecodeBackup(f *testing.F) {
	b, err := sampleManifest().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(manifestMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeBackup("x", b)
		if err == nil && m.check() != nil {
			t.Error("a manifest that does not pass its check")
		}
		// Behind the checksum as well: a manifest made by hand.
		if _, body, ok := bytes.Cut(b, []byte("\n")); ok {
			made := append([]byte(nil), sealed(body)...)
			if _, err := decodeBackup("x", made); err != nil && errors.Is(err, binio.ErrCorrupt) && strings.Contains(err.Error(), "checksum") {
				t.Error(err)
			}
		}
	})
}

// FuzzImportLines writes a string value as Export does, between other lines: it
// must come back as one line, whatever it holds, and parse to the same value.
func FuzzImportLines(f *testing.F) {
	for _, s := range []string{"", "plain", "two\nlines", `back\slash`, `quote"`, "end\\", "\n\n", "# CONTEXT-DATABASE:x\n", "a=\"b", "\r\n", "\x00\xff"} {
		f.Add(s, "key")
		f.Add("x", s)
	}
	f.Fuzz(func(t *testing.T, value, tag string) {
		if len(value) > column.MaxStringLength || strings.ContainsAny(tag, "\n\r\\\x00") || tag == "" || len(tag) > 1000 {
			return
		}
		key := string(model.AppendSeriesKey(nil, "m", model.Tags{{Key: "t", Value: tag}}))
		v := column.Vector{Type: model.String, Strings: []string{value}}
		line := string(appendValue([]byte(key+" a=1,text="), &v, 0)) + ",z=2 5\n"
		var p lineproto.Parser
		var b point.Batch
		table := point.NewTable(1)
		if _, err := p.Parse(&b, table, []byte(line), lineproto.Options{}); err != nil {
			return // line protocol cannot say it
		}
		var got []string
		im := &importer{ctx: context.Background(), db: "d", opt: ImportOptions{BatchBytes: 1 << 30}}
		if err := im.read(bufio.NewReader(strings.NewReader("before v=1 1\n" + line + "after v=1 1\n"))); err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, e := range im.batch.ends {
			got = append(got, string(im.batch.body[at:e]))
			at = e
		}
		if len(got) != 3 || got[1] != line {
			t.Fatalf("lines %q, want %q in the middle", got, line)
		}
		if s := column.StringAt(b.Values[1], b.Strings); string(s) != value {
			t.Fatalf("value %q came back as %q", value, s)
		}
	})
}

// TestReadLines cuts files that are not all lines.
func TestReadLines(t *testing.T) {
	long := strings.Repeat("x", maxLine+5)
	for name, c := range map[string]struct {
		in     string
		want   []string
		failed int64
	}{
		"no end of line":     {"a v=1", []string{"a v=1\n"}, 0},
		"blank lines":        {"\n  \na v=1\r\n\n", []string{"a v=1\n"}, 0},
		"comments":           {"# x\n #y\na v=1\n", []string{"a v=1\n"}, 0},
		"line break":         {"a v=\"1\n2\" 3\nb v=1\n", []string{"a v=\"1\n2\" 3\n", "b v=1\n"}, 0},
		"open quote at end":  {"a v=\"1\nb v=1\nc v=2", []string{"b v=1\n", "c v=2\n"}, 1},
		"open quote, far on": {"a v=\"1\nb v=1\n" + strings.Repeat("c v=1\n", maxLine/6), nil, 1},
		"quote in a tag":     {"a,t=\" v=1\nb v=1\n", []string{"a,t=\" v=1\n", "b v=1\n"}, 0},
		"long line":          {"a v=1\n" + long + "\nb v=1\n", []string{"a v=1\n", "b v=1\n"}, 1},
		"long last line":     {"a v=1\n" + long, []string{"a v=1\n"}, 1},
		"nothing":            {"", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			im := &importer{ctx: context.Background(), db: "d", opt: ImportOptions{BatchBytes: 1 << 30}}
			if err := im.read(bufio.NewReaderSize(strings.NewReader(c.in), 4096)); err != nil {
				t.Fatal(err)
			}
			var got []string
			at := 0
			for _, e := range im.batch.ends {
				got = append(got, string(im.batch.body[at:e]))
				at = e
			}
			if im.stats.Failed != c.failed {
				t.Errorf("%d refused, want %d", im.stats.Failed, c.failed)
			}
			if c.want == nil && c.failed > 0 {
				if len(got) != maxLine/6+1 {
					t.Errorf("%d lines", len(got))
				}
			} else if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%.200q, want %q", got, c.want)
			}
		})
	}
}
