package tsm1

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/tsm1test"
)

// sample is a small file with all types, and its rows.
func sample() (tsm1test.File, cells) {
	var f tsm1test.File
	all := cells{}
	for i, kind := range allTypes {
		series, field := "cpu,host=a", fmt.Sprintf("f%d", i)
		blocks := []column.Rows{rowsOf(kind, i, 10, 20, 30), rowsOf(kind, i+7, 41, 52, 63)}
		f.Add(series, field, blocks...)
		for b := range blocks {
			all.put(series, field, &blocks[b])
		}
	}
	last := rowsOf(model.Float, 5, 11, 12)
	f.Add("mem", "f", last)
	all.put("mem", "f", &last)
	return f, all
}

// without returns what is not in other, by place.
func (c cells) without(other cells) (n int) {
	for k, v := range c {
		if w, ok := other[k]; !ok || w != v {
			n++
		}
	}
	return n
}

// again makes a source ready for files that have changed on purpose.
func again(s *Source, f *found) {
	s.opt = f.options()
	for _, sh := range s.shards {
		sh.state = sh.present()
	}
}

// TestFlippedFile flips bits of each byte of a TSM file. Damage is reported; and rows that are
// handed out are right, unless the byte is of a name or hides a block by its times, which
// InfluxDB keeps no checksum of. A damaged name is found because it is out of order, or not
// among the names that InfluxDB keeps besides.
func TestFlippedFile(t *testing.T) {
	d := newTree(t)
	file, want := sample()
	b := file.Bytes()
	index := len(b) - footerBytes
	for i := range b[:index] {
		if string(b[i:min(i+5, len(b))]) == "cpu,h" {
			index = i - 2
			break
		}
	}
	named := make([]bool, len(b)) // bytes of names
	for i := index; i < len(b)-footerBytes; {
		n := int(b[i])<<8 | int(b[i+1])
		for k := range n {
			named[i+2+k] = true
		}
		blocks := int(b[i+3+n])<<8 | int(b[i+4+n])
		i += 5 + n + blocks*entryBytes
	}
	d.tsm(t, 1, b)
	tsm1test.WriteFile(t, tsm1test.SeriesSegment(tsm1test.SeriesKey("cpu", "host", "a"), tsm1test.SeriesKey("mem")), d.root, "data", "db", "_series", "03", "0000")
	tsm1test.WriteFile(t, tsm1test.Fields("cpu f0 f1 f2 f3 f4", "mem f"), d.data, "fields.idx")
	var none found
	if s := d.open(t, &none); readAll(t, s, model.AllTime, nil) == nil || len(none.damage) > 0 {
		t.Errorf("a sound file: damage %q", none.damage)
	}
	s := d.open(t, &found{})
	for i := range b {
		for _, mask := range []byte{0x01, 0x80, 0xff} {
			bad := slices.Clone(b)
			bad[i] ^= mask
			d.tsm(t, 1, bad)
			var f found
			again(s, &f)
			got := readAll(t, s, model.AllTime, f.refuse)
			if len(f.damage) == 0 && len(f.refused) == 0 {
				t.Errorf("byte %d ^ %#x: nothing is reported, %d of %d values", i, mask, len(got), len(want))
			}
			if wrong := got.without(want); wrong > 0 && !named[i] {
				t.Errorf("byte %d ^ %#x: %d values that were not written", i, mask, wrong)
			}
			for _, text := range f.damage {
				if !strings.Contains(text, "000000001-000000001.tsm:") || strings.Contains(text, ":-1:") {
					t.Errorf("byte %d: damage without a place: %s", i, text)
				}
			}
		}
	}
	for n := range b {
		d.tsm(t, 1, b[:n])
		var f found
		again(s, &f)
		if got := readAll(t, s, model.AllTime, nil); len(f.damage) == 0 || got.without(want) > 0 {
			t.Errorf("file of %d of %d bytes: damage %q, %d values", n, len(b), f.damage, len(got))
		}
	}
}

// TestDamagedBlock reports a block with its file and offset, and reads the rest.
func TestDamagedBlock(t *testing.T) {
	d := newTree(t)
	file, want := sample()
	b := file.Bytes()
	b[headerBytes+8] ^= 1 // in the first block
	d.tsm(t, 1, b)
	var f found
	s := d.open(t, &f)
	got := readAll(t, s, model.AllTime, nil)
	want.drop(func(_, field string, t int64) bool { return field == "f0" && t <= 30 })
	if diff := got.diff(want); diff != "" {
		t.Error(diff)
	}
	if len(f.damage) != 1 || !strings.HasPrefix(f.damage[0], "000000001-000000001.tsm:5: ") {
		t.Errorf("%d damages: %q", len(f.damage), f.damage)
	}
}

// TestFlippedTombstones: damage of tombstones hides no more than the deletes name, and is
// no panic.
func TestFlippedTombstones(t *testing.T) {
	list := []tsm1test.Delete{
		{Key: "cpu,host=a#!~#f0", Times: model.TimeRange{Min: 0, Max: 25}},
		{Key: "mem#!~#f", Times: model.TimeRange{Min: 12, Max: 12}},
		{Key: "cpu,host=a#!~#f1", Times: model.TimeRange{Min: 41, Max: 41}, Prefix: true},
	}
	file, _ := sample()
	for version := 1; version <= 4; version++ {
		d := newTree(t)
		d.tsm(t, 1, file.Bytes())
		b := tsm1test.Tombstones(version, list...)
		d.tombstones(t, 1, b)
		s, n := d.open(t, &found{}), 0
		for i := range b {
			for _, mask := range []byte{0x01, 0x80} {
				bad := slices.Clone(b)
				bad[i] ^= mask
				d.tombstones(t, 1, bad)
				var f found
				again(s, &f)
				readAll(t, s, model.AllTime, nil)
				n += len(f.damage)
			}
			d.tombstones(t, 1, b[:i])
			var f found
			again(s, &f)
			readAll(t, s, model.AllTime, nil)
			if version == 3 && i > 4 && len(f.damage) == 0 {
				t.Errorf("version %d cut to %d of %d bytes: no damage", version, i, len(b))
			}
		}
		if version > 1 && n < 10 {
			t.Errorf("version %d: %d damages", version, n)
		}
	}
}

// TestPredicate reports a delete that cannot be applied, and applies the others.
func TestPredicate(t *testing.T) {
	d := newTree(t)
	file, want := sample()
	d.tsm(t, 1, file.Bytes())
	all := model.TimeRange{Min: 0, Max: 100}
	d.tombstones(t, 1, tsm1test.Tombstones(4,
		tsm1test.Delete{Key: "cpu,host=a#!~#f1", Times: all, Predicate: "some bytes"}, tsm1test.Delete{Key: "mem", Prefix: true, Times: all}))
	want.drop(func(series, _ string, _ int64) bool { return series == "mem" })
	var f found
	if diff := readAll(t, d.open(t, &f), model.AllTime, nil).diff(want); diff != "" {
		t.Error(diff)
	}
	if len(f.damage) != 1 || !strings.Contains(f.damage[0], "predicate") {
		t.Error(f.damage)
	}
}

// TestFlippedLog: a damaged segment ends at its damage, which is reported with its offset.
// The next segment is read.
func TestFlippedLog(t *testing.T) {
	d, first, want := newTree(t), cells{}, cells{}
	var log, next tsm1test.Segment
	ends := []int{}
	for i, kind := range allTypes {
		r := rowsOf(kind, i, 5, 3, 4)
		log.Write("m", fmt.Sprintf("f%d", i), r)
		first.put("m", fmt.Sprintf("f%d", i), &r)
		ends = append(ends, len(log.Bytes))
	}
	log.DeleteRange(model.TimeRange{Min: 4, Max: 4}, "m#!~#f0", "m#!~#f1")
	log.Delete("m#!~#f2", "m#!~#f3")
	last := rowsOf(model.Float, 9, 6)
	next.Write("n", "f", last)
	want.put("n", "f", &last)
	d.segment(t, 2, next.Bytes)
	d.segment(t, 1, log.Bytes)
	maps.Copy(first, want)
	s := d.open(t, &found{})
	for i := range log.Bytes {
		for _, mask := range []byte{0x01, 0x20, 0xff} {
			bad := slices.Clone(log.Bytes)
			bad[i] ^= mask
			d.segment(t, 1, bad)
			var f found
			again(s, &f)
			got := readAll(t, s, model.AllTime, nil)
			if want.without(got) > 0 {
				t.Fatalf("byte %d: the next segment is not read", i)
			}
		}
	}
	for n := range log.Bytes {
		d.segment(t, 1, log.Bytes[:n])
		var f found
		again(s, &f)
		got := readAll(t, s, model.AllTime, nil)
		at, whole := 0, n == 0
		for _, e := range ends {
			if e <= n {
				at = e
			}
			whole = whole || e == n
		}
		switch {
		case n <= ends[len(ends)-1] && whole != (len(f.damage) == 0):
			t.Errorf("%d of %d bytes: damage %q", n, len(log.Bytes), f.damage)
		case !whole && n < ends[len(ends)-1] && !strings.HasPrefix(f.damage[0], fmt.Sprintf("_00001.wal:%d: ", at)):
			t.Errorf("%d of %d bytes: damage %q, want offset %d", n, len(log.Bytes), f.damage, at)
		}
		if wrong := got.without(first); wrong > 0 {
			t.Errorf("%d of %d bytes: %d values that were not written", n, len(log.Bytes), wrong)
		}
	}
}

// TestChanged does not call a shard complete whose files a server has changed.
func TestChanged(t *testing.T) {
	file, _ := sample()
	for name, change := range map[string]func(t *testing.T, d shardTree){
		"compaction": func(t *testing.T, d shardTree) {
			if err := os.Rename(filepath.Join(d.data, "000000001-000000001.tsm"), filepath.Join(d.data, "000000001-000000002.tsm")); err != nil {
				t.Fatal(err)
			}
		},
		"snapshot": func(t *testing.T, d shardTree) { d.tsm(t, 2, file.Bytes()) },
		"delete":   func(t *testing.T, d shardTree) { d.tombstones(t, 1, []byte("mem#!~#f\n")) },
		"write":    func(t *testing.T, d shardTree) { d.segment(t, 1, make([]byte, 10)) },
	} {
		d := newTree(t)
		d.tsm(t, 1, file.Bytes())
		d.segment(t, 1, nil)
		s := d.open(t, &found{})
		r, err := s.Rows(t.Context(), s.Shards()[0], model.AllTime, nil)
		if err != nil {
			t.Fatal(err)
		}
		change(t, d)
		for err == nil {
			_, err = r.Next(t.Context())
		}
		if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "the files of shard 7 of db.rp have changed") {
			t.Errorf("%s while it is read: %v", name, err)
		}
		_ = r.Close()
		if _, err := s.Rows(t.Context(), s.Shards()[0], model.AllTime, nil); !errors.Is(err, ErrRunning) {
			t.Errorf("%s before it is read: %v", name, err)
		}
	}
}

// FuzzFile reads any index and blocks.
func FuzzFile(f *testing.F) {
	file, _ := sample()
	f.Add(file.Bytes())
	dir := f.TempDir()
	data := filepath.Join(dir, "data", "db", "rp", "1")
	if err := os.MkdirAll(data, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		write(t, filepath.Join(data, "000000001-000000001.tsm"), b)
		var fo found
		s, err := Open(dir, fo.options())
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, s, model.AllTime, nil)
	})
}

// FuzzSegment reads any segment of the log.
func FuzzSegment(f *testing.F) {
	var log tsm1test.Segment
	for i, kind := range allTypes {
		log.Write("m", "f", rowsOf(kind, i, 5, 3, 4))
		f.Add(log.Bytes)
	}
	log.Delete("m#!~#f", "m#!~#g")
	log.DeleteRange(model.TimeRange{Min: 1, Max: 4}, "m#!~#f")
	f.Add(log.Bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &logWindow{kinds: newKindTable(0)}
		l.window.limit = 1 << 20
		l.window.reset("")
		at, err := readSegment(strings.NewReader(string(b)), int64(len(b)), walSink{l.write, l.drop})
		if err != nil && !errors.Is(err, binio.ErrCorrupt) || err == nil && at != int64(len(b)) || at > int64(len(b)) {
			t.Fatalf("%d of %d bytes: %v", at, len(b), err)
		}
		for _, key := range l.window.keys() {
			for _, c := range l.window.find(key).columns {
				if c.order(); len(c.times) != c.values.Len() || !slices.IsSorted(c.times) {
					t.Fatalf("%d values for %v", c.values.Len(), c.times)
				}
			}
		}
	})
}

// TestManyPrefixes: deletes of prefixes that are too many to keep are told.
func TestManyPrefixes(t *testing.T) {
	const kept = 1 << 13
	var list []tsm1test.Delete
	for i := range kept + 1 {
		list = append(list, tsm1test.Delete{Key: fmt.Sprintf("gone%d", i), Times: model.AllTime, Prefix: true})
	}
	file, _ := sample()
	for n, want := range map[int]int{kept: 0, kept + 1: 1} {
		d := newTree(t)
		d.tsm(t, 1, file.Bytes())
		d.tombstones(t, 1, tsm1test.Tombstones(4, list[:n]...))
		var f found
		readAll(t, d.open(t, &f), model.AllTime, nil)
		if len(f.damage) != want || want > 0 && !strings.Contains(fmt.Sprint(f.damage[0]), "deletes of prefixes") {
			t.Errorf("%d prefixes: damage %v", n, f.damage)
		}
	}
}
