package wal

import (
	"bytes"
	"testing"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/wal/entry"
)

// TestStaleDefinition loses the definition of a series in a segment, where an
// older segment defines the same id with another key, as it happens when a
// series registered by an entry that never became durable left its id to
// another. The rows must not turn up under the other key.
func TestStaleDefinition(t *testing.T) {
	fs := vfstest.New()
	if err := fs.MkdirAll("/wal"); err != nil {
		t.Fatal(err)
	}
	layout := &point.Layout{Measurement: "m", Fields: []column.Field{{Key: "v", Type: model.Integer}}}
	life := func(key string) {
		t.Helper()
		l, err := Open("/wal", Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Replay(func(*entry.Entry) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if key != "" {
			s := point.NewSeries(key)
			s.SetID(5)
			row := point.Row{Series: s, Layout: layout, Time: 1}
			if err := l.Append(&entry.Entry{Writes: []entry.Write{{Database: 1, Shard: 1, Rows: []point.Row{row}, Values: []uint64{7}}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	life("m,host=older")
	life("m,host=newer")
	damaged := false
	for _, name := range fs.Files() {
		b, err := vfs.ReadFile(fs, name)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(b, []byte("m,host=newer")); i >= 0 {
			if err := fs.Flip(name, int64(i), 0xff); err != nil {
				t.Fatal(err)
			}
			damaged = true
		}
	}
	if !damaged {
		t.Fatal("no definition found to damage")
	}
	l, err := Open("/wal", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var keys []string
	err = l.Replay(func(e *entry.Entry) error {
		for _, r := range e.Writes[0].Rows {
			keys = append(keys, r.Series.Key())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 || keys[0] != "m,host=older" {
		t.Errorf("replayed rows of %q, want those of the older segment alone", keys)
	}
	if len(l.Damage()) == 0 {
		t.Error("the loss was not reported")
	}
}
