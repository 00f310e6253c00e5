package scan

import (
	"errors"
	"slices"
	"testing"

	"tsdbd/model"
)

type lossyView struct {
	View
	losses   []Loss
	released *int
}

func (v lossyView) Losses() []Loss { return v.losses }
func (v lossyView) Release()       { *v.released++ }

// TestWhole refuses a view over times that have lost something, and tells the losses, the
// first few of them one by one.
func TestWhole(t *testing.T) {
	day := model.TimeRange{Min: 0, Max: 86400e9 - 1}
	for _, c := range []struct {
		losses []Loss
		notes  []string
		err    string
	}{
		{},
		{losses: []Loss{{Shard: 3, Range: model.TimeRange{Min: 90000e9, Max: 99000e9}, Path: "x"}}},
		{
			losses: []Loss{{Shard: 3, Range: day, Path: "q/1.tsm"}, {Shard: 4, Range: day, Path: "q/MANIFEST", Deletes: true}, {Range: model.AllTime, Path: "wal/q/1"}},
			notes: []string{
				"points are missing in shard 3, 1970-01-01T00:00:00Z to 1970-01-01T23:59:59Z: damaged file set aside as q/1.tsm",
				"deleted points and old names of series may be back in shard 4, 1970-01-01T00:00:00Z to 1970-01-01T23:59:59Z: damaged file set aside as q/MANIFEST",
				"points are missing somewhere: damaged file set aside as wal/q/1",
			},
			err: "points are missing in shard 3, 1970-01-01T00:00:00Z to 1970-01-01T23:59:59Z: damaged file set aside as q/1.tsm, and 2 more losses. For an answer from what is left, add partial=true to the request; to accept the loss for good: ALTER SHARD 3 ACCEPT LOSS FROM '1970-01-01T00:00:00Z' TO '1970-01-01T23:59:59.999999999Z'",
		},
	} {
		released := 0
		v := lossyView{losses: c.losses, released: &released}
		if got := Notes(v, day); !slices.Equal(got, c.notes) {
			t.Errorf("%v: %q", c.losses, got)
		}
		_, err := Whole(v, day)
		text := ""
		if damage, ok := errors.AsType[*DamageError](err); ok {
			text = damage.Error()
		}
		if text != c.err || (released == 1) != (err != nil) {
			t.Errorf("%v: %v, released %d times", c.losses, err, released)
		}
	}
	got := Notes(lossyView{losses: make([]Loss, 20)}, model.TimeRange{})
	if len(got) != maxNotes+1 || got[maxNotes] != "12 more damaged files were set aside" {
		t.Errorf("of 20: %q", got)
	}
}
