package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// influx2Backup is a backup by influx backup of the bucket week/raw of InfluxDB 2.7.12: four
// shards, two of them with tombstones. clients/influxd2_test.go has written it.
var influx2Backup = filepath.Join("testdata", "influxdb2")

// influx2Table is how its import ends.
const influx2Table = `1 databases, 1 retention policies, 0 users, 0 continuous queries, 0 subscriptions made
4020 values of 4 shards loaded
measurement             series in InfluxDB  in tsdbd  values in InfluxDB  in tsdbd  
week.raw.back\\slash  1                   1         420                 420       equal
week.raw.cpu          4                   4         1500                1500      equal
week.raw.disk         1                   1         420                 420       equal
week.raw.m x,y        1                   1         420                 420       equal
week.raw.mem          2                   2         840                 840       equal
week.raw.quote"       1                   1         420                 420       equal
`

// TestImportInflux2Backup loads a backup of InfluxDB 2.x, which answered the queries itself.
func TestImportInflux2Backup(t *testing.T) {
	scratch := t.TempDir()
	out, errs, err := tsdbd(t, "import", "influxdb", "-dry-run", "-tmp", scratch, influx2Backup)
	if err != nil || !strings.Contains(out, "week.raw  4       2026-") || !strings.Contains(out, "compressed shards are unpacked in "+scratch+", up to about 0.0MiB at a time") ||
		!strings.Contains(errs, "the backup has 1 of the 6 buckets of the server") {
		t.Errorf("dry run: %v\n%s%s", err, out, errs)
	}
	data := filepath.Join(t.TempDir(), "data")
	out, errs, err = tsdbd(t, "import", "influxdb", "-data", data, "-tmp", scratch, influx2Backup)
	if want := strings.Join(strings.Fields(influx2Table), " "); err != nil || strings.Join(strings.Fields(timeless(out)), " ") != want {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%d files are left in the temporary directory: %v", len(left), err)
	}
	must(t, "verify", data)
	s := apptest.StartOn(t, data)
	if got := s.Query("week", "SELECT count(*), sum(i), sum(u) FROM cpu"); !strings.Contains(got, "[[0,250,250,250,250,250,250,96225,96725]]") {
		t.Errorf("%s", got)
	}
	if got := s.Query("", "SHOW RETENTION POLICIES ON week"); !strings.Contains(got, `["raw","0s","24h0m0s",1,true]`) {
		t.Errorf("%s", got)
	}

	// By the name of the bucket into another database, some measurements only, and with half
	// a backup: all is told before anything is loaded, and the exit code is 1.
	half := filepath.Join(t.TempDir(), "half")
	if err := os.CopyFS(half, os.DirFS(influx2Backup)); err != nil {
		t.Fatal(err)
	}
	tars, err := filepath.Glob(filepath.Join(half, "*.tar.gz"))
	if err != nil || len(tars) != 4 {
		t.Fatal(tars, err)
	}
	if err := os.Remove(tars[0]); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-dry-run"}, {"-host", s.URL}} {
		out, errs, err = tsdbd(t, append([]string{"import", "influxdb", "-bucket", "week/raw=plant/hall", "-measurement", "mem"}, append(args, half)...)...)
		if !strings.Contains(errs, filepath.Base(tars[0])+": ") || !strings.Contains(errs, `and it is not there: shard 4 of bucket "week/raw" is missing`) || (err == nil) != (args[0] == "-dry-run") {
			t.Errorf("half a backup, %q: %v\n%s%s", args, err, out, errs)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "1 places of the source are damaged") || strings.Contains(out, "plant.hall.cpu") {
		t.Errorf("half a backup: %v\n%s", err, out)
	}
	if got := s.Query("plant", "SELECT count(i) FROM hall.mem"); !strings.Contains(got, "[[0,") {
		t.Errorf("%s", got)
	}
	if _, _, err := tsdbd(t, "import", "influxdb", "-dry-run", "-bucket", "none=x", influx2Backup); err == nil || !strings.Contains(err.Error(), `there is no bucket "none"`) {
		t.Errorf("a bucket that is not there: %v", err)
	}
}
