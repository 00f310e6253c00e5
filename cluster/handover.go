package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/store"
)

// refuses returns why the node takes no writes, as that its disk is full, or "".
func (n *Node) refuses(st *store.Store) string {
	state := st.State()
	if ok, reason := state.Health(); !ok {
		return reason
	}
	if err := n.replica.Full(); err != nil {
		return fmt.Sprintf("disk full, so its log stores nothing: %v", err)
	}
	return ""
}

// unfit returns why another node should lead instead of one, "" if it may lead.
func unfit(s *peerStatus) string {
	var reasons []string
	if s.Refuses != "" {
		reasons = append(reasons, s.Refuses)
	}
	if s.Damage != "" {
		reasons = append(reasons, "its data has damage: "+s.Damage)
	}
	if s.ClockWrong {
		reasons = append(reasons, s.Clock)
	}
	return strings.Join(reasons, "; ")
}

// compareFlaws returns a negative number if it is better that a leads than b: it takes
// writes, has less damage, or has the time that most voters have.
func compareFlaws(a, b *peerStatus) int {
	return cmp.Or(
		cmp.Compare(flag(a.Refuses != ""), flag(b.Refuses != "")), cmp.Compare(a.Damaged, b.Damaged),
		cmp.Compare(flag(a.ClockWrong), flag(b.ClockWrong)),
	)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rival is another voter that answers.
type rival struct {
	raft.Server
	status *peerStatus
}

// rivals returns the voters that could lead instead of this node, the fittest first. Of
// equals that is the one that has applied the most.
func (n *Node) rivals(ctx context.Context) (rivals []rival) {
	voters := slices.DeleteFunc(votersOf(n.members()), func(s raft.Server) bool { return string(s.ID) == n.identity().ID })
	at := n.reach(ctx, voters)
	for _, v := range voters {
		if s := at[v.ID]; s != nil && s.Runs {
			rivals = append(rivals, rival{v, s})
		}
	}
	slices.SortStableFunc(rivals, func(a, b rival) int {
		return cmp.Or(compareFlaws(a.status, b.status), cmp.Compare(b.status.Applied, a.status.Applied))
	})
	return rivals
}

// heirs returns the voters that are to lead instead of this node, the fittest first.
func (n *Node) heirs() (heirs []rival) {
	own := n.ownStatus()
	if unfit(own) == "" {
		return nil
	}
	return slices.DeleteFunc(n.rivals(n.ctx), func(r rival) bool { return compareFlaws(r.status, own) >= 0 })
}

// onElected returns the voters that are to lead although this node was elected. It takes
// no writes before: with a damaged file it could give what others have twice.
func (n *Node) onElected() (heirs []raft.Server) {
	for _, r := range n.heirs() {
		n.logger.Warn("this node was elected and is not to lead", "node", n.opt.Name, "instead", r.status.Name, "reason", unfit(n.ownStatus()))
		heirs = append(heirs, r.Server)
	}
	return heirs
}

// giveWay has another voter lead if this node leads and is less fit for it. Writes wait
// meanwhile, so one that would have to catch up first is not asked.
func (n *Node) giveWay() {
	if !n.replica.Leads() || time.Now().Before(n.giveAgain) {
		return
	}
	for _, r := range n.heirs() {
		if !n.keepsUp(r.status) {
			continue
		}
		n.logger.Warn("the leader hands the lead over", "node", n.opt.Name, "to", r.status.Name, "reason", unfit(n.ownStatus()))
		err := n.handOver(n.ctx, r.ID)
		if err == nil || !n.replica.Leads() {
			return
		}
		n.logger.Warn("the lead is not handed over, which is tried again", "err", err)
		n.giveAgain = time.Now().Add(giveAfter * n.opt.ElectionTimeout)
	}
}

// giveAfter is how many election timeouts giveWay waits after an attempt that failed.
const giveAfter = 10

// keepsUp says that a node has what the leader has, almost.
func (n *Node) keepsUp(s *peerStatus) bool { return s.Ready && s.Lag <= n.opt.MaxLag.Seconds() }

// HandOver has another voter lead if this node does. Close does so as well, but when the
// server no longer answers clients.
func (n *Node) HandOver(ctx context.Context) error {
	own := n.identity().ID
	others := slices.ContainsFunc(votersOf(n.members()), func(s raft.Server) bool { return string(s.ID) != own })
	if !n.Leads() || !others {
		return nil
	}
	look, cancel := context.WithTimeout(ctx, n.opt.ElectionTimeout/2)
	rivals := n.rivals(look)
	cancel()
	for _, r := range rivals {
		if n.keepsUp(r.status) && n.handOver(ctx, r.ID) == nil {
			return nil
		}
	}
	return n.handOver(ctx, "")
}
