package cluster

import (
	"context"
	"slices"

	"github.com/hashicorp/raft"

	"tsdbd/store"
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

// refuses returns why a store takes no writes, as that its disk is full, or "".
func refuses(st *store.Store) string {
	state := st.State()
	if ok, reason := state.Health(); !ok {
		return reason
	}
	return ""
}

// giveWay has another voter lead if the store of this node, which leads, takes no
// writes. Of the voters that do it takes one that has applied the most.
func (n *Node) giveWay() {
	if !n.replica.Leads() {
		return
	}
	reason := refuses(n.current())
	if reason == "" {
		return
	}
	voters := slices.DeleteFunc(n.members(), func(s raft.Server) bool { return s.Suffrage != raft.Voter || string(s.ID) == n.identity().ID })
	var to raft.ServerID
	var best *peerStatus
	for id, s := range n.reach(n.ctx, voters) {
		if s.Ready && s.Refuses == "" && (best == nil || s.Applied > best.Applied) {
			to, best = id, s
		}
	}
	if best == nil {
		return
	}
	n.logger.Warn("the leader takes no writes and hands the lead over", "node", n.opt.Name, "to", best.Name, "reason", reason)
	if err := n.handOver(n.ctx, to); err != nil {
		n.logger.Warn("the lead is not handed over, which is tried again", "err", err)
	}
}
