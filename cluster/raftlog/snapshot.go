package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// ErrNoSnapshots is the answer of a snapshot store to raft, which may not take or
// receive snapshots: a member that is too far behind takes the state of another one.
var ErrNoSnapshots = errors.New("the raft log takes no snapshots")

// Snapshots returns a store whose one snapshot is the base, if its index is above zero.
// The content is the sequence of the base, 8 bytes.
func (s *Store) Snapshots() raft.SnapshotStore { return snapshots{s} }

type snapshots struct{ s *Store }

func (n snapshots) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	return nil, ErrNoSnapshots
}

func (n snapshots) List() ([]*raft.SnapshotMeta, error) {
	if err := n.s.readable(); err != nil {
		return nil, err
	}
	b := n.s.Base()
	if b.Index == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{snapshotMeta(b)}, nil
}

func snapshotMeta(b Base) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{
		Version: 1, ID: fmt.Sprintf("base-%d-%d", b.Term, b.Index), Index: b.Index, Term: b.Term,
		Configuration: b.Configuration, ConfigurationIndex: b.ConfigurationIndex, Size: 8,
	}
}

func (n snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m := snapshotMeta(n.s.Base())
	if m.ID != id {
		return nil, nil, fmt.Errorf("snapshot %s: the raft log has only %s", id, m.ID)
	}
	return m, io.NopCloser(bytes.NewReader(binary.LittleEndian.AppendUint64(nil, n.s.Base().Sequence))), nil
}
