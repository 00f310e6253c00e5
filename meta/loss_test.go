package meta

import (
	"errors"
	"testing"

	"tsdbd/model"
)

// TestAcceptLoss: a loss is accepted once, by its shard and file, until the shard is gone.
func TestAcceptLoss(t *testing.T) {
	d := mustApply(t, empty(), CreateDatabase{Name: "d"}, CreateShardGroups{Database: "d", Times: []int64{0, 1e18}})
	one := AcceptLoss{[]AcceptedLoss{{Shard: 1, Range: model.TimeRange{Max: 9}, File: "7.tsm"}, {Range: model.AllTime, File: "6.wal.damaged-5"}}}
	accepted := mustApply(t, d, one, AcceptLoss{[]AcceptedLoss{{Shard: 2, File: "7.tsm"}}})
	for _, c := range []struct {
		shard uint64
		file  string
		want  bool
	}{
		{1, "/data/db-1/shard-1/quarantine/7.tsm", true},
		{1, "/data/db-1/shard-1/quarantine/8.tsm", false},
		{2, "q/7.tsm", true},
		{3, "q/7.tsm", false},
		{0, "wal/quarantine/6.wal.damaged-5", true},
		{0, "", false},
	} {
		if got := accepted.Accepted(c.shard, c.file); got != c.want {
			t.Errorf("%d %s: %v", c.shard, c.file, got)
		}
	}
	if len(d.AcceptedLosses) != 0 || mustApply(t, accepted, one) != accepted {
		t.Error("an accepted loss is accepted again, or a catalog has changed")
	}
	if _, err := Apply(AcceptLoss{[]AcceptedLoss{{Shard: 3, File: "x"}}}, d); !errors.Is(err, ErrShardNotFound) {
		t.Errorf("of no shard: %v", err)
	}
	if left := mustApply(t, accepted, DropShard{ID: 1}).AcceptedLosses; len(left) != 2 || left[0].Shard != 0 || left[1].Shard != 2 {
		t.Errorf("after a drop: %v", left)
	}
	if left := mustApply(t, accepted, DropDatabase{Name: "d"}).AcceptedLosses; len(left) != 1 || len(accepted.AcceptedLosses) != 3 {
		t.Errorf("after the drop of the database: %v", left)
	}
}
