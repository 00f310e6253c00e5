package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/admin"
	"tsdbd/cluster/clock"
	"tsdbd/cluster/heal"
	"tsdbd/cluster/replica"
	"tsdbd/cluster/rows"
	"tsdbd/cluster/self"
)

// ownStatus is what other nodes learn of this one.
func (n *Node) ownStatus() *peerStatus {
	n.mu.Lock()
	s := &peerStatus{
		Name: n.opt.Name, Address: n.opt.address(), Version: n.opt.Version,
		HasData: n.mu.hasData, Founder: n.opt.founder(), Voter: n.opt.Voter, LogFormat: n.opt.LogFormat, RowsFormat: rows.Newest, Problem: n.mu.problem,
		Now: n.opt.Now().UnixMicro(), Clock: n.mu.clock.Text, ClockWrong: n.mu.clock.Wrong,
	}
	if i := n.mu.identity; i != nil {
		s.Cluster, s.ID, s.State, s.Joined, s.Seats, s.Reason = i.Cluster, i.ID, i.State, i.Joined, i.Seats, i.Reason
	}
	s.Aside = n.mu.aside
	n.mu.Unlock()
	st := n.current()
	s.Sighting, s.Seen, s.OldCopy = n.ages.Own(s.ID), n.ages.Seen(), n.ages.Accused()
	if st == nil {
		return s
	}
	s.Runs, s.Ready, s.Leads, s.Applied, s.Lag = true, n.replica.Ready(), n.replica.Leads(), n.replica.Applied(), n.lag().Seconds()
	d := n.opt.damage(st)
	s.Refuses, s.Damage, s.Damaged, s.Parts = n.refuses(st), d.first, d.files, heal.Damaged(st, n.opt.Dir)
	return s
}

// Status returns what the node knows of its cluster. It asks the other nodes.
func (n *Node) Status() admin.Status { return n.statusWith(n.ctx) }

func (n *Node) statusWith(ctx context.Context) admin.Status {
	s := n.observed(ctx)
	s.Problems = s.Degraded()
	return s
}

// observed returns the status without the problems that it shows elsewhere.
func (n *Node) observed(ctx context.Context) admin.Status {
	own := n.ownStatus()
	s := admin.Status{
		Cluster: own.Cluster, Node: own.Name, Applied: own.Applied, LagSeconds: own.Lag,
		LogMaxBytes: n.opt.LogMaxBytes, Members: []admin.Member{}, Problems: []string{}, Notes: []string{},
	}
	n.mu.Lock()
	s.Transfer = n.mu.transfer
	if n.mu.problem != "" {
		s.Problems = append(s.Problems, n.mu.problem)
	}
	n.mu.Unlock()
	s.Role = n.role()
	if n.current() == nil {
		return s
	}
	figures := n.replica.Stats()
	s.Term, s.Commit, s.LogBytes, s.Disks = figures.Term, figures.Commit, n.log.Stats().Bytes, n.disks()
	leader, _ := n.leader()
	servers := n.members()
	at := n.answers(ctx, servers)
	if p := at[leader]; p != nil && !p.Leads {
		leader = "" // it is elected, and most voters do not store what it sends
	}
	s.Leader = self.NameOf(leader)
	voters, changed := len(votersOf(servers)), 0
	for _, server := range servers {
		m := admin.Member{
			Name: self.NameOf(server.ID), ID: string(server.ID), Address: string(server.Address),
			Voter: server.Suffrage == raft.Voter, Leader: server.ID == leader,
		}
		p := at[server.ID]
		if isServer(p, server) {
			m.Reachable, m.Applied, m.LagSeconds, m.Version = true, p.Applied, p.Lag, p.Version
			m.Problem = n.problemOf(p)
		} else {
			m.Problem = missing(p, server)
		}
		if m.Voter && p != nil && p.Name == m.Name && !m.Reachable {
			changed++
		}
		s.Members = append(s.Members, m)
	}
	switch {
	case voters == 1 && len(servers) > 1:
		s.Notes = append(s.Notes, "1 voter bears no losses: add two voters.")
	case voters%2 == 0:
		s.Notes = append(s.Notes, fmt.Sprintf("%d voters bear no more losses than %d: add a voter, or take a vote away.", voters, voters-1))
	}
	if s.Leader == "" && voters-changed <= voters/2 {
		s.Problems = append(s.Problems, fmt.Sprintf("Of %d voters %d have lost their logs, so no node can lead. If they are lost for good, stop this node and run tsdbd cluster leave: it becomes a server of its own.", voters, changed))
	}
	s.Problems = append(s.Problems, n.refusals()...)
	if damage := own.Damage; damage != "" {
		s.Problems = append(s.Problems, fmt.Sprintf("The data has damage, so no other node copies it: %s.", damage))
	}
	h := n.open.Load().healer.Status()
	s.Healing = &admin.Healing{Part: h.Part, From: h.From, Bytes: h.Bytes, TotalBytes: h.Of, Waiting: h.Waiting, Healed: h.Healed, Problem: h.Problem}
	if h.Problem != "" {
		s.Problems = append(s.Problems, fmt.Sprintf("Damage is not healed yet: %s.", h.Problem))
	}
	return s
}

// isServer says that a node that has answered is a server of the configuration.
func isServer(p *peerStatus, s raft.Server) bool {
	return p != nil && p.ID == string(s.ID) && p.State == self.Member
}

// missing returns why a server is not there.
func missing(p *peerStatus, s raft.Server) string {
	switch {
	case p == nil:
		return fmt.Sprintf("not reachable at %s", s.Address)
	case p.Name != self.NameOf(s.ID):
		return fmt.Sprintf("%s answers at %s", p.Name, s.Address)
	case p.State == self.Transfer:
		return fmt.Sprintf("it has given up its id and is to join again as %s: %s", p.ID, p.Reason)
	}
	return fmt.Sprintf("it has given up its id and is to join again as %s", p.ID)
}

// problemOf returns what is wrong with a node that answers.
func (n *Node) problemOf(p *peerStatus) string {
	problem := unfit(p)
	if problem != "" && p.Leads {
		problem += "; it leads because no better voter can take over"
	}
	switch {
	case p.OldCopy != "":
		return p.OldCopy + ": it waits until the others have a leader, sets the directory aside and joins again"
	case problem != "":
		return problem
	case p.Clock != "":
		return p.Clock
	case !p.Ready:
		return "it has not caught up with the leader since its start"
	case p.Lag > n.opt.MaxLag.Seconds():
		return fmt.Sprintf("it is %.1f s behind", p.Lag)
	case p.Aside != "":
		return p.Aside
	}
	return ""
}

// refusals returns why nodes are not connected, as sentences.
func (n *Node) refusals() (out []string) {
	refusals := n.transport.Refusals()
	for _, key := range slices.Sorted(maps.Keys(refusals)) {
		if r := refusals[key]; n.opt.Now().Sub(r.Time) < 10*time.Minute {
			out = append(out, fmt.Sprintf("A connection with %s was refused: %s.", key, r.Reason))
		}
	}
	return out
}

// role returns what the node does in its cluster, in the words of package admin.
func (n *Node) role() string {
	i := n.identity()
	switch {
	case i != nil && i.State == self.Transfer:
		return admin.RoleTransfer
	case i == nil || !i.Joined || n.current() == nil:
		return admin.RoleJoining
	case n.replica.Leads():
		return admin.RoleLeader
	}
	if leader, address := n.leader(); address == "" || string(leader) == i.ID { // the latter is elected, and most voters do not store what it sends
		return admin.RoleCandidate
	}
	return admin.RoleFollower
}

// lag returns how old the state of this node is. As long as that is not known, it is the
// time since the start.
func (n *Node) lag() time.Duration {
	if lag := n.replica.Lag(); lag != replica.Unknown {
		return lag
	}
	return time.Since(n.open.Load().since)
}

// Health reports whether the node can do its part, and what it does.
func (n *Node) Health() (ok bool, message string) {
	role := n.role()
	n.mu.Lock()
	problem, restart, hindered, clock, aside := n.mu.problem, n.mu.restart, n.mu.hindered, n.mu.clock, n.mu.aside
	n.mu.Unlock()
	if restart != nil {
		return false, restart.Error()
	}
	own := n.ownStatus()
	switch role {
	case admin.RoleLeader:
		message = fmt.Sprintf("%s leads the cluster", n.opt.Name)
		ok = true
	case admin.RoleFollower:
		leader, _ := n.leader()
		message = fmt.Sprintf("%s follows %s, %.1f s behind", n.opt.Name, self.NameOf(leader), own.Lag)
		ok = n.keepsUp(own)
	case admin.RoleCandidate:
		// A load balancer must not take all nodes away for the time of an election.
		message = fmt.Sprintf("%s knows no leader that takes writes, %.1f s behind: queries are answered, writes get 503 until there is one", n.opt.Name, own.Lag)
		ok = n.keepsUp(own)
	case admin.RoleTransfer:
		message = fmt.Sprintf("%s copies the state of another node", n.opt.Name)
	default:
		message = fmt.Sprintf("%s joins the cluster", n.opt.Name)
	}
	if n.current() != nil {
		message += fmt.Sprintf("; acknowledged writes are on %d of %d disks", n.disks(), len(n.members()))
	}
	for _, more := range slices.Concat([]string{problem, clock.Text, aside}, hindered, n.refusals()) {
		if more != "" {
			message += "; " + more
		}
	}
	return ok, message
}

// watchMembers keeps what hinders other members, and how this node's clock compares with
// theirs: Health, answers and the handover of the lead must not wait for that. It runs until
// Close.
func (n *Node) watchMembers() {
	for {
		servers := n.members()
		at := n.answers(n.ctx, servers)
		var hindered []string
		var clocks []clock.Reading
		for _, s := range servers {
			p := at[s.ID]
			if !isServer(p, s) {
				hindered = append(hindered, self.NameOf(s.ID)+": "+missing(p, s))
				continue
			}
			clocks = append(clocks, clock.Reading{Name: p.Name, Ahead: p.ahead, Voter: s.Suffrage == raft.Voter})
			if p.Refuses != "" && p.ID != n.identity().ID {
				hindered = append(hindered, fmt.Sprintf("%s: takes no writes: %s", p.Name, p.Refuses))
			}
		}
		now := clock.Judge(clocks, len(votersOf(servers)), n.opt.MaxClockSkew)
		n.mu.Lock()
		before := n.mu.clock
		n.mu.peers, n.mu.hindered, n.mu.clock = at, hindered, now
		n.mu.Unlock()
		if now.Wrong != before.Wrong || now.Other != before.Other {
			n.tellClock(now)
		}
		if !n.pause(n.ctx, n.timeout()) {
			return
		}
	}
}

// tellClock logs what was found about the clock of this node.
func (n *Node) tellClock(v clock.Verdict) {
	if v.Text == "" {
		n.logger.Info("the clock agrees with those of the other nodes again", "node", n.opt.Name)
		return
	}
	n.logger.Warn("the clocks of the nodes differ", "node", n.opt.Name, "reason", v.Text)
}
