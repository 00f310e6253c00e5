package plan

import (
	"slices"
	"testing"

	"tsdbd/model"
	"tsdbd/model/scan"
)

type lossyView struct {
	scan.View
	losses []scan.Loss
}

func (v lossyView) Losses() []scan.Loss { return v.losses }

// TestWarnings tells the losses that a query's times meet, the first few of
// them one by one.
func TestWarnings(t *testing.T) {
	day := model.TimeRange{Min: 0, Max: 86400e9 - 1}
	for _, c := range []struct {
		losses []scan.Loss
		want   []string
	}{
		{nil, nil},
		{[]scan.Loss{{Shard: 3, Range: model.TimeRange{Min: 90000e9, Max: 99000e9}, Path: "x"}}, nil},
		{
			[]scan.Loss{{Shard: 3, Range: day, Path: "q/1.tsm"}, {Shard: 4, Range: day, Path: "q/MANIFEST", Deletes: true}, {Range: model.AllTime, Path: "wal/q/1"}},
			[]string{
				"points are missing in shard 3, 1970-01-01T00:00:00Z to 1970-01-01T23:59:59Z: damaged file set aside as q/1.tsm",
				"deleted points and old names of series may be back in shard 4, 1970-01-01T00:00:00Z to 1970-01-01T23:59:59Z: damaged file set aside as q/MANIFEST",
				"points are missing somewhere: damaged file set aside as wal/q/1",
			},
		},
	} {
		var got []string
		x := &Planner{Warn: func(text string) { got = append(got, text) }}
		x.warnOfLosses(lossyView{losses: c.losses}, day)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q", c.losses, got)
		}
	}
	var got []string
	x := &Planner{Warn: func(text string) { got = append(got, text) }}
	x.warnOfLosses(lossyView{losses: make([]scan.Loss, 20)}, day)
	if len(got) != maxWarnings+1 || got[maxWarnings] != "12 more damaged files were set aside" {
		t.Errorf("of 20: %q", got)
	}
}
