package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/object/s3"
	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/tsm"
)

// TestColdChecks gives the checks of what only cold asks a right answer, then one with a cell changed and
// one with a row less.
func TestColdChecks(t *testing.T) {
	b := &yearBench{devops: devops{load.NewDevops(2, daySteps+360)}}
	at := func(step int) string { return time.Unix(0, load.DevopsTime(step)).UTC().Format(time.RFC3339Nano) }
	try := func(name string, q question, series ...answerSeries) {
		t.Helper()
		if err := q.check(respond(t, series...)); err != nil {
			t.Errorf("%s: a right answer: %v", name, err)
		}
		last := series[len(series)-1].Values
		row := last[len(last)-1]
		for i := 1; i < len(row); i++ {
			right := row[i]
			if row[i] = json.RawMessage("101"); q.check(respond(t, series...)) == nil {
				t.Errorf("%s: a wrong cell in column %d passes", name, i)
			}
			row[i] = right
		}
		series[len(series)-1].Values = last[:len(last)-1]
		if q.check(respond(t, series...)) == nil {
			t.Errorf("%s: an answer with a row less passes", name)
		}
	}

	var all []answerSeries
	for host := range 2 {
		var row []any
		for f := range 2 {
			var values []int64
			sum := int64(0)
			for step := range b.Steps() {
				values = append(values, b.Value(host, step, f))
				sum += b.Value(host, step, f)
			}
			row = append(row, len(values), sum, slices.Min(values), slices.Max(values), float64(sum)/float64(len(values)), values[0], values[len(values)-1])
		}
		all = append(all, answerSeries{Tags: map[string]string{"hostname": fmt.Sprint("host_", host)}, Values: [][]json.RawMessage{cells(append([]any{0}, row...)...)}})
	}
	try("whole", b.whole(2), all...)

	day := answerSeries{Columns: append([]string{"time", "hostname"}, load.DevopsTags[1:]...)}
	day.Columns = append(day.Columns, load.DevopsFields[:]...)
	for step := range daySteps {
		row := []any{at(step)}
		for _, k := range load.DevopsTags {
			v, _ := b.Tag(1, k)
			row = append(row, v)
		}
		for f := range load.DevopsFields {
			row = append(row, b.Value(1, step, f))
		}
		day.Values = append(day.Values, cells(row...))
	}
	try("day", b.day(1, 0), day)

	hours := answerSeries{Columns: []string{"time", "mean"}}
	for step := 0; step < b.Steps(); step += 360 {
		sum := int64(0)
		for i := range 360 {
			sum += b.Value(0, step+i, 0) + b.Value(1, step+i, 0)
		}
		hours.Values = append(hours.Values, cells(at(step), float64(sum)/720))
	}
	try("by hour", b.byHour(1), hours)

	h := hicard{load.NewHicard(30, 2)}
	n := 0
	for round := range 2 {
		for i := range 30 {
			if h.Value(round, i) > 50 {
				n++
			}
		}
	}
	if n == 0 {
		t.Fatal("no value is above 50")
	}
	try("above", h.above(50), answerSeries{Columns: []string{"time", "count"}, Values: [][]json.RawMessage{cells(0, n)}})
}

// TestBucket: the store counts what is read of files, and nothing else. What gets all files gets all
// of their bytes.
func TestBucket(t *testing.T) {
	b, err := openBucket()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	store, err := s3.Open(s3.Options{Endpoint: b.URL, Bucket: objecttest.Bucket, Prefix: "p", PathStyle: true, AccessKey: bucketKey, SecretKey: bucketSecret})
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"objects/a.tsm": transferRange + 5, "objects/b.tsm": 7, "objects/c.tsi": 9, "cold/names/server.1": 3} {
		if err := store.Put(t.Context(), name, object.Content{Bytes: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"objects/c.tsi", "cold/names/server.1"} {
		if _, err := object.Read(t.Context(), store, name, 100); err != nil {
			t.Fatal(err)
		}
	}
	if b.gets.Load() != 0 {
		t.Errorf("%d requests before a file was read", b.gets.Load())
	}
	var out bytes.Buffer
	if err := runTransfer(t.Context(), b.URL, "p", &out); err != nil {
		t.Fatal(err)
	}
	var got transfer
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	const bytes = transferRange + 5 + 7
	if got.Bytes != bytes || got.Gets != 3 || b.bytes.Load() != bytes || b.gets.Load() != 3 {
		t.Errorf("got %+v, the store counted %d requests of %d bytes", got, b.gets.Load(), b.bytes.Load())
	}
}

// TestPlaceTail: the shard has the tail alone, and what the manifest says of it is what is in it.
func TestPlaceTail(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	info, err := writeTail(t.Context(), from, 2)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest.New(7, [16]byte{1})
	m.TSM = []manifest.File{{Name: manifest.TSMName(1), Size: 3, MinSequence: 4, MaxSequence: 5}}
	m.Next = 2
	if err := os.WriteFile(filepath.Join(dir, m.TSM[0].Name), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Save(vfs.OS, dir); err != nil {
		t.Fatal(err)
	}
	if err := placeTail(dir, filepath.Join(from, tailName), info); err != nil {
		t.Fatal(err)
	}
	m, err = manifest.Read(vfs.OS, dir)
	if err != nil || len(m.TSM) != 1 || !m.TSM[0].Cold() || m.TSM[0].MaxSequence != 5 {
		t.Fatalf("%+v, %v", m, err)
	}
	r, err := tsm.OpenTail(vfs.OS, filepath.Join(dir, m.TSM[0].Name), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if i := r.Info(); i.Size != m.TSM[0].Size || i.Checksum != m.TSM[0].Checksum || r.Len() != 2 {
		t.Errorf("the tail has %+v, the manifest %+v", i, m.TSM[0])
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tsm")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

func TestColdReport(t *testing.T) {
	r := &coldReport{report: newReport(&options{scale: 1}, []*product{{version: "1.2"}})}
	r.bar(true, "good", "2", "%d", 1)
	if err := r.missed(); err != nil {
		t.Errorf("nothing is missed: %v", err)
	}
	r.bar(false, "bad", "3", "%d", 4)
	if err := r.missed(); err == nil || !strings.Contains(err.Error(), "bad is 4, the bar is 3") {
		t.Errorf("a bar is missed: %v", err)
	}
	r.section("Part", "Text.")
	r.table([]string{"a", "b"}, [][]string{{"x", "1"}})
	var out bytes.Buffer
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| good | 2 | 1 | yes |", "| bad | 3 | 4 | **no** |", "## Part\n\nText.\n", "| a | b |\n|---|--:|\n| x | 1 |", "| server | 1.2 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, out.String())
		}
	}
}
