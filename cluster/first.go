package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/self"
	"tsdbd/meta"
)

// await makes a node that has been in no cluster ready for its first start. One without
// data notes the id that the founder may give a seat, before anybody can ask for it: a
// directory that is lost takes its id along, so no other one sits there.
func (n *Node) await(ctx context.Context) (err error) {
	if n.mu.hasData, err = hasData(ctx, n.opt.Dir, n.opt.Store); err != nil {
		return err
	}
	switch i := n.mu.identity; {
	case n.mu.hasData:
		n.mu.identity = nil
	case i == nil, i.Name != n.opt.Name:
		return n.setIdentity(func(i *self.Identity) {
			*i = self.Identity{Edition: i.Edition, Name: n.opt.Name, ID: self.NewID(n.opt.Name), Address: n.opt.address(), State: self.Waiting}
		})
	}
	return nil
}

// firstStart finds the cluster that the node belongs to, or founds it. Afterwards the
// node is a member, or is going to copy the state of one.
//
// If a node of the list is in a cluster, this one takes its seat there or joins it.
// Otherwise all nodes must have answered: then the one that has data founds the cluster,
// or the first of the list if none has. The others wait for it.
func (n *Node) firstStart(ctx context.Context) error {
	var told string
	for {
		found, err := n.look(ctx)
		if err != nil {
			return err
		}
		switch {
		case found.member != nil && n.seatIn(found.member.Seats):
			return n.sit(found.member.Cluster, found.member.Seats, 0)
		case found.member != nil:
			err := n.enter(ctx, found.member)
			if err == nil || !errors.Is(err, errSilent) {
				return err
			}
			found.waiting = err.Error()
		case found.seats != nil:
			return n.found(ctx, found.seats)
		}
		if found.waiting != told {
			told = found.waiting
			n.logger.Info("first start of the node waits", "node", n.opt.Name, "for", told)
		}
		if !n.pause(ctx, n.opt.ElectionTimeout/2) {
			return fmt.Errorf("%w while waiting for %s", ctx.Err(), told)
		}
	}
}

// finding is what a node at its first start knows of the others.
type finding struct {
	member  *peerStatus // of the cluster
	seats   []self.Seat // of the cluster that this node founds
	waiting string      // for whom
}

// look asks all nodes of the list.
func (n *Node) look(ctx context.Context) (f finding, err error) {
	var silent, withData []string
	var seats []self.Seat
	founder := n.opt.founder()
	for _, a := range n.askAll(ctx, n.opt.others()) {
		switch {
		case a.err != nil:
			silent = append(silent, fmt.Sprintf("%s (%s): %v", a.Name, a.Address, a.err))
		case a.status.Name != a.Name:
			return f, fmt.Errorf("cluster.join says that %s is at %s, but the node there is %s: give all nodes the same list", a.Name, a.Address, a.status.Name)
		case a.status.State == self.Member && a.status.Joined:
			if f.member != nil && f.member.Cluster != a.status.Cluster {
				return f, fmt.Errorf("%s and %s are in different clusters: cluster.join must name nodes of one cluster only", f.member.Name, a.Name)
			}
			if f.member == nil || n.seatIn(a.status.Seats) {
				f.member = a.status
			}
		case a.status.Cluster != "":
			silent = append(silent, fmt.Sprintf("%s (%s), which is joining a cluster", a.Name, a.Address))
		case a.status.ID == "" && !a.status.HasData:
			silent = append(silent, fmt.Sprintf("%s (%s), which runs an older version", a.Name, a.Address))
		default:
			if a.status.HasData {
				withData = append(withData, a.Name)
			}
			if a.status.Founder != founder {
				return f, fmt.Errorf("the first node in cluster.join is %s here, but %s on %s: give all nodes the same list in the same order", founder, a.status.Founder, a.Name)
			}
			seats = append(seats, self.Seat{ID: a.status.ID, Address: a.status.Address, Voter: a.status.Voter})
		}
	}
	own := n.mu.hasData
	switch {
	case ctx.Err() != nil:
		return f, ctx.Err()
	case f.member != nil:
		return f, nil
	case len(withData) > 1, own && len(withData) > 0:
		if own {
			withData = append(withData, n.opt.Name)
		}
		return f, fmt.Errorf("%s have data, and only one node of a new cluster may: stop all but one, move the directories of the others away (tsdbd export and import can copy their points), and start them with empty ones", strings.Join(withData, " and "))
	case len(silent) > 0:
		f.waiting = strings.Join(silent, ", ")
	case own:
		// The others copy its data before they can vote.
		f.seats = []self.Seat{{ID: self.NewID(n.opt.Name), Address: n.opt.address(), Voter: true}}
	case len(withData) > 0:
		f.waiting = withData[0] + ", which has data and founds the cluster"
	case founder == n.opt.Name:
		f.seats = append([]self.Seat{{ID: n.identity().ID, Address: n.opt.address(), Voter: true}}, seats...)
	default:
		f.waiting = founder + ", which founds the cluster"
	}
	return f, nil
}

// seatIn reports whether a cluster was founded with this node.
func (n *Node) seatIn(seats []self.Seat) bool {
	i := n.identity()
	return i != nil && slices.ContainsFunc(seats, func(s self.Seat) bool { return s.ID == i.ID })
}

// found founds a cluster. If this node has data, what is in its log goes into files,
// because the log of the cluster begins behind it.
func (n *Node) found(ctx context.Context, seats []self.Seat) error {
	var sequence uint64
	if n.mu.hasData {
		var err error
		if sequence, err = flush(ctx, n.opt.Dir, n.opt.Store); err != nil {
			return fmt.Errorf("put the log of the data directory into files: %w", err)
		}
	}
	return n.sit(self.NewCluster(), seats, sequence)
}

// sit makes this node a member with which a cluster is founded. Its log begins with the
// same entry on all of them, the configuration of the seats. It is a member when its
// identity says so; before that, all is done again.
func (n *Node) sit(cluster string, seats []self.Seat, sequence uint64) error {
	own := slices.IndexFunc(seats, func(s self.Seat) bool { return self.NameOf(raft.ServerID(s.ID)) == n.opt.Name })
	if !n.mu.hasData {
		if err := n.emptyCatalog(cluster); err != nil {
			return err
		}
	}
	if err := n.fs.RemoveAll(n.logDir()); err != nil { // of a first start that was interrupted
		return err
	}
	if err := raftlog.Create(n.fs, n.logDir(), raftlog.Base{Sequence: sequence}); err != nil {
		return fmt.Errorf("create log of the cluster: %w", err)
	}
	log, err := raftlog.Open(n.fs, n.logDir(), raftlog.Options{Logger: n.logger})
	if err != nil {
		return err
	}
	err = storeConfiguration(log, 1, 1, seats)
	if err = errors.Join(err, log.Close()); err != nil {
		return fmt.Errorf("create log of the cluster: %w", err)
	}
	err = n.setIdentity(func(i *self.Identity) {
		*i = self.Identity{
			Edition: i.Edition, Cluster: cluster, Name: n.opt.Name, ID: seats[own].ID, Address: n.opt.address(),
			State: self.Member, Seed: own == 0, Seats: seats, Joined: true,
		}
	})
	if err != nil {
		return err
	}
	n.logger.Info("cluster founded", "cluster", cluster, "node", n.opt.Name, "members", len(seats), "sequence", sequence)
	return nil
}

// emptyCatalog gives a node without data the catalog that all have with which the cluster
// is founded: its lineage is the id of the cluster.
func (n *Node) emptyCatalog(cluster string) error {
	var data meta.Data
	if err := data.Lineage.UnmarshalText([]byte(cluster)); err != nil {
		return fmt.Errorf("id of cluster %s: %w", cluster, err)
	}
	dir := path.Join(n.opt.Dir, "meta")
	if err := n.fs.RemoveAll(dir); err != nil { // of a server that has run and has nothing
		return err
	}
	return meta.Create(n.fs, dir, &data)
}

// storeConfiguration appends an entry that makes these the members.
func storeConfiguration(log *raftlog.Store, index, term uint64, seats []self.Seat) error {
	var all raft.Configuration
	for _, s := range seats {
		suffrage := raft.Nonvoter
		if s.Voter {
			suffrage = raft.Voter
		}
		all.Servers = append(all.Servers, raft.Server{Suffrage: suffrage, ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Address)})
	}
	if err := log.SetUint64([]byte("CurrentTerm"), term); err != nil {
		return err
	}
	return log.StoreLogs([]*raft.Log{{Index: index, Term: term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(all)}})
}

// setWALAside moves the log of a single server into the node's directory. A node that is
// a member does not use it: everything in it is in files.
func (n *Node) setWALAside() error {
	from, to := path.Join(n.opt.Dir, "wal"), path.Join(n.opt.Dir, self.Dir, "wal")
	if _, err := n.fs.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := n.fs.RemoveAll(to); err != nil { // of an earlier cluster
		return err
	}
	if err := n.fs.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(n.fs.SyncDir(path.Join(n.opt.Dir, self.Dir)), n.fs.SyncDir(n.opt.Dir))
}

// enter makes the node one that is going to join a cluster.
func (n *Node) enter(ctx context.Context, member *peerStatus) error {
	if n.mu.hasData {
		return fmt.Errorf("%s is in cluster %s, and %s has data: a node joins with an empty directory. Move the directory away (tsdbd export and import can copy its points) and start again", member.Name, member.Cluster, n.opt.Dir)
	}
	i := &self.Identity{Cluster: member.Cluster, Name: n.opt.Name, ID: self.NewID(n.opt.Name), Address: n.opt.address(), State: self.Transfer, Reason: "it joins the cluster"}
	if own := n.identity(); own != nil { // it has promised nothing, wherever it has a seat
		i.Edition, i.Former = own.Edition, []string{own.ID}
	}
	// The leader may refuse: better before the transfer than after it.
	err := n.askMembers(ctx, i, joinRequest{Name: i.Name, ID: i.ID, Address: i.Address, Former: i.Former, Ask: true})
	if err != nil {
		return fmt.Errorf("join cluster %s: %w", member.Cluster, err)
	}
	if err := n.setIdentity(func(to *self.Identity) { *to = *i }); err != nil {
		return err
	}
	n.logger.Info("node joins a cluster", "cluster", i.Cluster, "node", i.Name)
	return nil
}
