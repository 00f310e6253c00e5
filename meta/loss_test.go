package meta

import (
	"errors"
	"testing"

	"tsdbd/model"
)

// TestAcceptLoss: a loss is accepted once, by its id, until the shard is gone.
func TestAcceptLoss(t *testing.T) {
	d := mustApply(t, empty(), CreateDatabase{Name: "d"}, CreateShardGroups{Database: "d", Times: []int64{0, 1e18}})
	one := AcceptLoss{[]AcceptedLoss{{Shard: 1, Range: model.TimeRange{Max: 9}, File: "7.tsm", ID: "a"}, {Range: model.AllTime, File: "6.wal.damaged-5", ID: "6.wal.damaged-5"}}}
	accepted := mustApply(t, d, one, AcceptLoss{[]AcceptedLoss{{Shard: 2, File: "7.tsm", ID: "b"}}})
	for _, c := range []struct {
		shard uint64
		id    string
		want  bool
	}{
		{1, "a", true},
		{1, "b", false}, // a file of the same name at another node, or at another time
		{2, "b", true},
		{3, "b", false},
		{0, "6.wal.damaged-5", true},
		{0, "", false},
	} {
		if got := accepted.Accepted(c.shard, c.id); got != c.want {
			t.Errorf("%d %s: %v", c.shard, c.id, got)
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
