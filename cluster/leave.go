package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/replica"
	"tsdbd/cluster/self"
	"tsdbd/inspect"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/overlay"
	"tsdbd/meta"
	"tsdbd/store"
	"tsdbd/store/ledger"
	"tsdbd/wal"
)

// Left is what became of a node.
type Left struct {
	Name     string // that it had
	Sequence uint64 // of the last entry that the server has
}

// Leave makes the data directory of a node that does not run one of a server of its own,
// with what the log of the node has up to the sequence until, all of it if that is 0. If
// that cannot be applied, which Leave finds out first, nothing is changed; an
// *replica.EntryError says which entry it is. After another error or a crash Leave may be
// called again.
func Leave(ctx context.Context, fsys vfs.FS, dir string, until uint64) (left Left, err error) {
	i, err := self.Read(fsys, dir)
	if err != nil {
		return left, err
	}
	if err := checkState(i, dir); err != nil {
		return left, err
	}
	lock, err := fsys.Lock(path.Join(dir, self.Dir, "LOCK"))
	if err != nil {
		return left, fmt.Errorf("leave cluster: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if left.Sequence, err = tryLog(fsys, dir, until); err != nil {
		return left, fmt.Errorf("leave cluster: %w", err)
	}
	// From now on the data may have entries that no other node has, so it must not be that of a
	// member.
	i.State, i.Reason, i.Joined = self.Left, "has left cluster "+i.Cluster, false
	if err := self.Write(fsys, dir, i); err != nil {
		return left, err
	}
	if err := flushLog(ctx, fsys, dir, until); err != nil {
		return left, fmt.Errorf("leave cluster: %w", err)
	}
	if err := forgetLog(fsys, dir); err != nil {
		return left, fmt.Errorf("leave cluster: %w", err)
	}
	if err := self.Remove(fsys, dir); err != nil {
		return left, fmt.Errorf("leave cluster: %w", err)
	}
	if err := raftlog.SetAside(fsys, path.Join(dir, self.Dir, "log")); err != nil {
		return left, fmt.Errorf("set the log of the cluster aside: %w", err)
	}
	left.Name = i.Name
	return left, nil
}

// checkState returns why the directory of a node cannot become that of a single server.
func checkState(i *self.Identity, dir string) error {
	switch {
	case i == nil, i.State == self.Waiting:
		return fmt.Errorf("%s is no member of a cluster", dir)
	case i.State == self.Transfer:
		return fmt.Errorf("%s has no complete state, because node %s was to copy that of another one (%s): nothing can be made of it alone", dir, i.Name, i.Reason)
	}
	return nil
}

// forgetLog removes the log from the ledger. The ledger knows the one from before the cluster,
// which does not exist any more; everything is in files.
func forgetLog(fsys vfs.FS, dir string) error {
	data, err := meta.ReadFile(fsys, path.Join(dir, "meta", meta.CopyNames()[0]))
	if err != nil {
		return err
	}
	l, err := ledger.Open(fsys, dir, data.Lineage, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return l.SetLog(func(known *wal.Known, _ *bool) { *known = wal.Known{} })
}

// recorded is what the log of a node that does not run has, for its store.
type recorded struct {
	*replica.Recorded
	log *raftlog.Store
}

// openRecorded opens the log of a node that does not run, without changing it.
func openRecorded(fsys vfs.FS, dir string, until uint64) (*recorded, error) {
	log, err := raftlog.Open(overlay.New(fsys), path.Join(dir, self.Dir, "log"), raftlog.Options{})
	if err != nil {
		return nil, err
	}
	if damage := log.Damage(); len(damage) > 0 {
		return nil, errors.Join(fmt.Errorf("the log of the node is damaged: %v", damage[0]), log.Close())
	}
	return &recorded{replica.NewRecorded(log, until), log}, nil
}

// options are those of a store that is opened for reading. As a follower it leaves out no
// database that contradicts the log.
func (r *recorded) options() store.Options {
	return store.Options{OpenLog: r.OpenLog, LogAfter: r.log.Base().Sequence, Follower: true}
}

// OpenForReading opens a data directory that no server uses, as inspect.Open does. In that
// of a node of a cluster the store has what the log of the node has up to the sequence
// until, all of it if that is 0; of then names the node.
func OpenForReading(dir string, until uint64) (st *inspect.Store, of Left, err error) {
	i, err := self.Read(vfs.OS, dir)
	switch {
	case err != nil:
		return nil, of, err
	case i == nil && until != 0:
		return nil, of, fmt.Errorf("%s is not the directory of a node of a cluster, whose log could be read up to a sequence", dir)
	case i == nil:
		st, err = inspect.Open(dir, nil)
		return st, of, err
	}
	if err := checkState(i, dir); err != nil {
		return nil, of, err
	}
	hold, err := inspect.Hold(path.Join(dir, self.Dir)) // a node that waits for others has not opened the store
	if err != nil {
		return nil, of, err
	}
	defer func() { err = errors.Join(err, hold.Close()) }()
	log, err := openRecorded(vfs.OS, dir, until)
	if err != nil {
		return nil, of, err
	}
	defer func() { err = errors.Join(err, log.log.Close()) }()
	if st, err = inspect.OpenWith(dir, log.options()); err != nil {
		return nil, of, advice(err)
	}
	return st, Left{i.Name, log.Last()}, nil
}

// tryLog applies in memory what the log of a node has, and returns the last sequence.
func tryLog(fsys vfs.FS, dir string, until uint64) (sequence uint64, err error) {
	log, err := openRecorded(fsys, dir, until)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.log.Close()) }()
	opt := log.options()
	opt.FS = overlay.New(fsys)
	st, err := store.OpenForReading(dir, opt)
	if err != nil {
		return 0, advice(err)
	}
	return log.Last(), st.Close()
}

// advice says how an entry that cannot be applied is left out.
func advice(err error) error {
	var at *replica.EntryError
	if errors.As(err, &at) {
		return fmt.Errorf("%w; -until %d leaves out this entry and all that follow it", err, at.Sequence-1)
	}
	return err
}

// flushLog applies what the log of a node has, and puts it into files.
func flushLog(ctx context.Context, fsys vfs.FS, dir string, until uint64) (err error) {
	log, err := openRecorded(fsys, dir, until)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.log.Close()) }()
	opt := log.options()
	opt.FS, opt.Follower = fsys, false
	_, err = flush(ctx, dir, opt)
	return advice(err)
}
