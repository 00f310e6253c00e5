package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/self"
)

// divergedTries is how often a node looks for others that have applied an entry that it
// cannot apply.
const divergedTries = 20

// errDiffer says that the other nodes do not have the same.
var errDiffer = errors.New("the other nodes have not the same content, so none of them is copied: tsdbd cluster verify shows what differs")

// diverged has the node copy the state of the others if they have applied the entry with
// which this one ends: a majority of the voters, with the same content. This node may be
// the only one that is sound, so what it has is set aside. If there is no majority, the entry may be at fault, and the
// node ends.
func (n *Node) diverged(cause error) {
	applied := n.replica.Applied()
	peers := n.knownPeers()
	for range divergedTries {
		for _, s := range n.sources(n.ctx, peers) {
			if s.err != nil || !s.status.Leads || s.status.Applied <= applied {
				continue
			}
			err := n.agree(n.ctx, s.Address)
			switch {
			case err == nil:
				n.copyState(fmt.Sprintf("a majority has applied what this node cannot apply: %v", cause), true)
				return
			case errors.Is(err, errDiffer):
				n.ask(errors.Join(cause, err))
				return
			}
			n.logger.Warn("the other nodes are not compared yet, which is tried again", "err", err)
		}
		if !n.pause(n.ctx, n.opt.ElectionTimeout/2) {
			return
		}
	}
	n.ask(cause)
}

// agree has the leader compare all nodes. It returns an error unless a majority of the
// voters can be compared, and all that can have the same. This node cannot: it has stopped
// before the mark.
func (n *Node) agree(ctx context.Context, leader string) error {
	var v admin.Verification
	if err := plain(n.post(ctx, leader, "verify", nil, nil, &v)); err != nil {
		return err
	}
	sum, same := "", 0
	voters := votersOf(n.members())
	for _, s := range voters {
		at := slices.IndexFunc(v.Nodes, func(n admin.NodeSum) bool { return n.Name == self.NameOf(s.ID) })
		switch {
		case at < 0 || v.Nodes[at].Error != "":
			continue
		case sum != "" && v.Nodes[at].Sum != sum:
			return errDiffer
		}
		sum = v.Nodes[at].Sum
		same++
	}
	if same <= len(voters)/2 {
		return fmt.Errorf("%d of %d voters can be compared, which is no majority", same, len(voters))
	}
	return nil
}
