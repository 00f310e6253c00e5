package tombstone_test

import (
	"errors"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/tombstone"
	"tsdbd/transfer/tsm1/tsm1test"
)

// FuzzRead reads any tombstones.
func FuzzRead(f *testing.F) {
	for version := 1; version <= 4; version++ {
		f.Add(tsm1test.Tombstones(version, tsm1test.Delete{Key: "m#!~#f", Times: model.TimeRange{Min: 1, Max: 2}}, tsm1test.Delete{Key: "n#!~#f", Prefix: true}))
	}
	f.Add(tsm1test.Tombstones(4, tsm1test.Delete{Key: "m#!~#f", Predicate: "p"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := tombstone.Read(strings.NewReader(string(b)), func(d tombstone.Delete) error {
			if len(d.Key) == 0 {
				t.Fatal("a delete without a key")
			}
			return nil
		})
		if err != nil && !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, tombstone.ErrPredicate) {
			t.Fatal(err)
		}
	})
}
