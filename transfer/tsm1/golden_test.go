package tsm1

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"tsdbd/exchange/rows"
	"tsdbd/model"
)

var update = flag.Bool("update", false, "write the summaries of testdata")

// TestGolden reads files that InfluxDB has written:
//
//   - testdata/engine by the engine of InfluxDB 1.13.2, clients/tsm1judge -golden: all
//     types and encodings, tombstones of four versions, a log;
//   - testdata/influxd by influxd 1.6.7, clients -run TestTSM1Backup -tsm1-golden: a server's
//     directory with a catalog;
//   - testdata/backup by influxd 1.6.7 at the same time: two portable backups.
//
// Those tests have compared the rows with InfluxDB's. The summaries have the catalog and,
// for each shard, the hash of its lines and the rows of its series.
func TestGolden(t *testing.T) {
	for _, name := range []string{"engine", "influxd", "backup"} {
		var f found
		s, err := Open(filepath.Join("testdata", name), f.options())
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		e := json.NewEncoder(&got)
		e.SetIndent("", "\t")
		if err := e.Encode(s.Catalog()); err != nil {
			t.Fatal(err)
		}
		for _, sh := range s.Shards() {
			fmt.Fprintf(&got, "shard %d of %s.%s, %d to %d\n", sh.ID, sh.Database, sh.Policy, sh.Times.Min, sh.Times.Max)
			r, err := s.Rows(t.Context(), sh, model.AllTime, f.refuse)
			if err != nil {
				t.Fatal(err)
			}
			hash := xxhash.New()
			text, err := rows.Lines(t.Context(), r, sh.Database, sh.Policy)
			if err == nil {
				_, err = io.Copy(hash, text)
			}
			if err = errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "lines %016x\n", hash.Sum64())
			if r, err = s.Rows(t.Context(), sh, model.AllTime, f.refuse); err != nil {
				t.Fatal(err)
			}
			last, n := "", 0
			for {
				run, err := r.Next(t.Context())
				if (err != nil || run.Key != last) && n > 0 {
					fmt.Fprintf(&got, "%s: %d rows\n", last, n)
					n = 0
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				last, n = run.Key, n+run.Len()
			}
			_ = r.Close()
		}
		if len(f.damage) > 0 || len(f.refused) > 0 {
			t.Errorf("%s: damage %q, left out %v", name, f.damage, f.reasons)
		}
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || got.String() != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got.String(), want)
		}
	}
}
