// Package replica keeps the log of a store equal on all nodes of a cluster. It is a
// store.Log over github.com/hashicorp/raft.
//
// # How a write travels
//
// Replica.Append encodes the entry in the caller's goroutine and queues it. One
// goroutine of the epoch takes what is queued, at most about 1 MiB, as one group. It
// adds the definitions of series that the epoch has not yet defined, and proposes
// the group to raft as one entry of raft's log. A few groups are under way at a
// time. The leader and a majority of the voters sync the entry. Then raft hands it
// to apply, on every node in the same order. The leader finds the group among its
// own, gives the entries their sequences, applies the callers' own entries without
// decoding anything, and answers the callers. The other nodes decode the entries and
// call LogOptions.Follow. So an acknowledged entry is on the disks of a majority (W1)
// and was logged before it was visible (W2).
//
// Sequences are counted when entries are applied: the first entry behind the base of
// the log has the sequence of the base plus one. Nothing else gives sequences, so
// they have no gaps, and they are the same on all nodes (W10).
//
// # Epochs
//
// An epoch is the time during which this node takes entries. It belongs to one term
// of raft. The node is in one of these states:
//
//	following  No epoch. Append refuses with store.ErrNotLeader. Groups are decoded.
//	beginning  Raft leads. A barrier waits until everything earlier is applied.
//	leading    The epoch. The store was told by Lead. Append works.
//	ending     Nothing is accepted any more. Whoever waits gets an answer that says
//	           that the outcome is unknown. Then Retire is called.
//	closed     Raft is shut down.
//	failed     OnFatal was called. Nothing is applied any more, raft is shut down. The
//	           node must stop.
//
// Changes of state, with what causes them:
//
//	following -> beginning   raft says that this node leads
//	beginning -> leading     the barrier is applied, and the term is the same as before
//	beginning -> following   one of Options.Heirs takes the lead; the barrier fails, or
//	                         nothing is applied for long: then another node is asked to
//	leading   -> ending      raft says that this node does not lead, or leads in
//	                         another term; a proposal fails; nothing is applied for
//	                         long; a write to the disk hangs; apply meets a group that
//	                         is not of the epoch; TransferLeadership; Close; a failure
//	ending    -> following   Retire has returned
//	any       -> failed      a group cannot be decoded or followed, or the disk fails
//
// The lock role makes a change of state and the application of a group exclude each
// other. So Retire has returned before the first Follow behind an epoch, and Lead
// comes when no Follow is under way. When an epoch ends, its groups are taken out of
// the map of own groups before their callers are answered. The rows of a caller are
// gone once it is answered, so apply decodes such a group from its bytes if raft
// commits it later.
//
// Every request is answered once: by apply, by the end of the epoch, or by the
// goroutine that forms groups if the epoch ends while it forms the request's group.
//
// # The fence
//
// A group carries the term of its epoch. If the entry of raft that has the group is of
// another term, the group was proposed by an epoch that had already ended, and every
// node skips it. Within a term raft appends the proposals in their order, up to the
// first that it refuses. It refuses some and takes later ones only during a transfer of
// leadership. Therefore TransferLeadership ends the epoch and waits until raft has
// answered all its proposals. Do not call raft.LeadershipTransfer during an epoch. So what is
// applied of an epoch is a beginning of what it proposed, and the definitions of series
// that a group relies on have been applied before it.
//
// # Definitions of series
//
// The first record of an epoch that names a series defines it. A node that starts in
// the middle of an epoch, or whose decoder has forgotten a series because its tables
// are bounded, asks LogOptions.Resolve. The series file has every series whose
// definition was applied.
//
// # Base and trimming
//
// The store calls Trim when entries are in files. The replica keeps a coarse list of
// index and sequence of what it applied. It moves the base of the log to the highest
// index whose entries are not needed any more. After a restart raft hands the entries
// behind the base to apply again; shards and catalog skip what they have. The log keeps
// the commit index, so what is known to be committed is applied at once (catchUp), also if
// this node never meets another one. The log store
// keeps the newest entries even if they are below the base, so that other nodes can
// catch up.
//
// Raft's own snapshots are not used. If the leader offers one, this node lacks entries
// that the leader no longer has: OnTransferNeeded is called.
//
// # A disk that hangs
//
// Raft stores entries in its main goroutine, and sends heartbeats from others. So it would
// lead for as long as a write to the disk hangs, and nothing would be written anywhere.
// Once a write has lasted half the election timeout, this node sends no messages as a
// leader, and the others elect one whose disk works. After a whole one its epoch ends, and
// whoever waits for the log gets an answer. A write may also wait for a request that hangs
// elsewhere, with nothing under way in the log: Probe gives the log something to store.
// When the disk answers again, raft meets the new term and follows. Until then it cannot
// store that term and does not know the new leader, so Leader takes it from the messages
// that arrive.
//
// # Reads
//
// ReadPosition returns a sequence for a linearizable read. It takes the commit index,
// confirms that a majority of the voters accepted heartbeats that were sent later, and
// waits until the index is applied. Raft's own VerifyLeader also counts answers to
// requests that were sent earlier, so it is used only to send heartbeats.
//
// Lag tells how old the state is that this node has applied, and Ready that it has
// caught up with a leader once since its start. CaughtUp waits for what was known to be
// committed: with that a node answers that meets no leader.
//
// # Bounds
//
// The queue is bounded by entries and bytes. The groups under way, the groups between
// raft and apply, the cache of the newest groups, and the tables of the decoder are
// bounded by bytes (W9).
//
// All methods may be called by any goroutine after Start. Close may be called twice.
package replica
