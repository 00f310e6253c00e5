package catalog_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/transfer/tsm1/catalog"
	"tsdbd/transfer/tsm1/tsm1test"
)

// TestSeries reads series files in several parts, with deleted series.
func TestSeries(t *testing.T) {
	dir := t.TempDir()
	if s, err := catalog.SeriesNames(dir); s != nil || err != nil || !s.Has([]byte("m")) {
		t.Errorf("without a series file: %v, %v", s, err)
	}
	first := tsm1test.SeriesSegment(tsm1test.SeriesKey("cpu", "host", "a"), tsm1test.SeriesKey("a b", "t,", "="), tsm1test.SeriesKey("\xff\xfe"))
	tsm1test.WriteFile(t, first, dir, "_series", "00", "0000")
	tsm1test.WriteFile(t, tsm1test.SeriesSegment(), dir, "_series", "00", "0001")
	tsm1test.WriteFile(t, []byte("x"), dir, "_series", "00", "index")
	tsm1test.WriteFile(t, tsm1test.SeriesSegment(tsm1test.SeriesKey("ignored", "\x00", "mem", "h", "b", "\xff", "f")), dir, "_series", "07", "0000")
	s, err := catalog.SeriesNames(dir)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{
		"cpu,host=a": true, `a\ b,t\,=\=`: true, "\xff\xfe": true, "mem,h=b": true,
		"cpu,host=b": false, "cpu": false, "ignored": false, "": false,
	} {
		if s.Has([]byte(key)) != want {
			t.Errorf("%q: %v, want %v", key, !want, want)
		}
	}
	for n := range first[:60] { // up to the room behind the entries
		tsm1test.WriteFile(t, first[:n], dir, "_series", "00", "0000")
		if _, err := catalog.SeriesNames(dir); err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	tsm1test.WriteFile(t, bytes.Replace(first, []byte{1, 0}, []byte{3, 0}, 1), dir, "_series", "00", "0000")
	if _, err := catalog.SeriesNames(dir); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("an entry that is not known: %v", err)
	}
}

// TestFields reads fields.idx and the changes behind it, of which the last was not written
// to its end.
func TestFields(t *testing.T) {
	dir := t.TempDir()
	if s, err := catalog.FieldNames(dir); s != nil || err != nil {
		t.Errorf("without a file: %v, %v", s, err)
	}
	idx := tsm1test.Fields("cpu f0 f1", "a,b c", "none")
	tsm1test.WriteFile(t, idx, dir, "fields.idx")
	has := func(want bool, measurement, field string) {
		t.Helper()
		s, err := catalog.FieldNames(dir)
		if err != nil {
			t.Fatal(err)
		}
		if s.Has(catalog.AppendField(nil, []byte(measurement), []byte(field))) != want {
			t.Errorf("%s %s: %v, want %v", measurement, field, !want, want)
		}
	}
	has(true, "cpu", "f0")
	has(true, "cpu", "f1")
	has(true, `a\,b`, "c")
	has(false, "cpu", "c")
	has(false, "none", "f0")
	has(false, "cpu", "later")
	torn := tsm1test.FieldChange("cpu", "torn")
	tsm1test.WriteFile(t, slices.Concat(tsm1test.FieldChange("cpu", "later"), tsm1test.FieldChange("new", "f"), torn[:len(torn)-1]), dir, "fields.idxl")
	has(true, "cpu", "later")
	has(true, "new", "f")
	has(true, "cpu", "f1")
	has(false, "cpu", "torn")
	for n := range idx {
		tsm1test.WriteFile(t, idx[:n], dir, "fields.idx")
		if _, err := catalog.FieldNames(dir); err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	tsm1test.WriteFile(t, idx[1:], dir, "fields.idx")
	if _, err := catalog.FieldNames(dir); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("another beginning: %v", err)
	}
}

// FuzzFiles reads any series file and any files of fields.
func FuzzFiles(f *testing.F) {
	f.Add(tsm1test.SeriesSegment(tsm1test.SeriesKey("cpu", "host", "a")), tsm1test.Fields("cpu f0 f1"), tsm1test.FieldChange("cpu", "later"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, segment, fields, changes []byte) {
		tsm1test.WriteFile(t, segment, dir, "_series", "00", "0000")
		tsm1test.WriteFile(t, fields, dir, "fields.idx")
		tsm1test.WriteFile(t, changes, dir, "fields.idxl")
		if _, err := catalog.SeriesNames(dir); err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Error(err)
		}
		if _, err := catalog.FieldNames(dir); err != nil && !errors.Is(err, binio.ErrCorrupt) {
			t.Error(err)
		}
	})
}
