package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/cluster/replica"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store"
	"tsdbd/store/ledger"
	"tsdbd/wal"
)

// Leave makes the data directory of a node that does not run one of a server of its
// own, with all that the node's log has. It returns the name that the node had. After
// an error or a crash it may be called again.
func Leave(ctx context.Context, fsys vfs.FS, dir string) (name string, err error) {
	i, err := readIdentity(fsys, dir)
	switch {
	case err != nil:
		return "", err
	case i == nil, i.State == stateWaiting:
		return "", fmt.Errorf("%s is no member of a cluster", dir)
	case i.State == stateTransfer:
		return "", fmt.Errorf("%s has no complete state, because node %s was to copy that of another one (%s): nothing can be made of it alone", dir, i.Name, i.Reason)
	}
	lock, err := fsys.Lock(path.Join(dir, Dir, "LOCK"))
	if err != nil {
		return "", fmt.Errorf("leave cluster: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	// The log is about to become that of a cluster of one: no node may use it with the
	// others again.
	i.State, i.Reason, i.Joined = stateLeft, "has left cluster "+i.Cluster, false
	if err := writeIdentity(fsys, dir, i); err != nil {
		return "", err
	}
	if err := flushLog(ctx, fsys, dir, i); err != nil {
		return "", fmt.Errorf("leave cluster: %w", err)
	}
	if err := forgetLog(fsys, dir); err != nil {
		return "", fmt.Errorf("leave cluster: %w", err)
	}
	at := path.Join(dir, Dir)
	for _, n := range identityNames {
		if err := fsys.Remove(path.Join(at, n)); err != nil {
			return "", fmt.Errorf("leave cluster: %w", err)
		}
	}
	if err := fsys.SyncDir(at); err != nil {
		return "", fmt.Errorf("leave cluster: %w", err)
	}
	if err := raftlog.SetAside(fsys, path.Join(at, "log")); err != nil {
		return "", fmt.Errorf("set the log of the cluster aside: %w", err)
	}
	return i.Name, nil
}

// forgetLog has the ledger expect no log: the one that it knows from before the cluster
// is gone, and everything is in files.
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

// flushLog applies all that the log of a node has, and puts it into files.
func flushLog(ctx context.Context, fsys vfs.FS, dir string, i *identity) (err error) {
	log, err := raftlog.Open(fsys, path.Join(dir, Dir, "log"), raftlog.Options{})
	if err != nil {
		return err
	}
	closed := false
	closeLog := func() error {
		if closed {
			return nil
		}
		closed = true
		return log.Close()
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if damage := log.Damage(); len(damage) > 0 {
		return fmt.Errorf("the log of the node is damaged: %v", damage[0])
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	term, err := log.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		return err
	}
	if err := storeConfiguration(log, max(last, log.Base().Index)+1, term+1, []seat{{i.ID, i.Address, true}}); err != nil {
		return err
	}
	_, network := raft.NewInmemTransport(raft.ServerAddress(i.Address))
	defer network.Close()
	failed := make(chan error, 1)
	r, err := replica.New(replica.Options{
		ID: raft.ServerID(i.ID), Log: log, Transport: network, ElectionTimeout: 200 * time.Millisecond,
		OnFatal: func(err error) { failed <- err },
	})
	if err != nil {
		return err
	}
	st, err := store.Open(dir, store.Options{
		FS: fsys, Logger: slog.New(slog.DiscardHandler), OpenLog: r.OpenLog, LogAfter: log.Base().Sequence, Follower: true,
		RetentionInterval: -1, CloseFlush: 24 * time.Hour,
	})
	if err != nil {
		return errors.Join(err, r.Close())
	}
	err = func() error {
		if err := r.Start(st); err != nil {
			return err
		}
		for !r.Leads() {
			select {
			case err := <-failed:
				return err
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
		set, err := st.Backup(ctx, nil) // which flushes everything
		if err == nil {
			set.Release()
		}
		return err
	}()
	return errors.Join(err, r.Close(), st.Close(), closeLog())
}
