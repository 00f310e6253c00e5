package apptest

import (
	"testing"

	"tsdbd/cluster/admin"
)

// TestGoldenAtAFollower replays every recorded theme against a node that follows: the
// answers are those of a single node, also in a cluster.
func TestGoldenAtAFollower(t *testing.T) {
	t.Parallel()
	follower := StartFollower(t)
	follower.Through(ReadOwnWrites)
	ReplayGolden(t, follower, nil)
	if role, _ := statusOfNode(t, follower); role != admin.RoleFollower {
		t.Errorf("the node that was asked is now %s: the test has shown nothing", role)
	}
}
