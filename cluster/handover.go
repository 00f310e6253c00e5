package cluster

import (
	"context"
	"slices"

	"github.com/hashicorp/raft"
)

// HandOver has another voter lead if this node does. Close does so as well, but when the
// server no longer answers clients.
func (n *Node) HandOver(ctx context.Context) error {
	own := n.identity().ID
	others := slices.ContainsFunc(n.members(), func(s raft.Server) bool { return string(s.ID) != own && s.Suffrage == raft.Voter })
	if !n.Leads() || !others {
		return nil
	}
	return n.handOver(ctx, "")
}
