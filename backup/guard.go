package backup

import (
	"context"
	"errors"
	"fmt"
	"path"

	"tsdbd/cold/names"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
)

// Guard keeps backups from being taken and pruned in a store that has other objects as well,
// until the lock is closed. It returns the names of the objects that the backups need. dir is
// that of the store if it is a directory, else "". A lease of the same holder is taken over
// at once. names.InUse says that a backup is being taken or pruned.
func Guard(ctx context.Context, store object.Store, fsys vfs.FS, dir, owner, holder string) (vfs.Lock, map[string]bool, error) {
	lock, err := lockBackups(ctx, store, fsys, dir, owner, holder)
	if err != nil {
		return nil, nil, err
	}
	needed := map[string]bool{}
	r := &Repository{store: store, where: dir}
	backups, err := r.List(ctx)
	for _, name := range backups {
		if err != nil {
			break
		}
		var m *Manifest
		if _, m, err = r.Manifest(ctx, name); err == nil {
			for _, o := range m.objects() {
				needed[o.Name] = true
			}
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	return lock, needed, nil
}

// lockBackups takes the lock of the backups in a store.
func lockBackups(ctx context.Context, store object.Store, fsys vfs.FS, dir, owner, holder string) (vfs.Lock, error) {
	if dir == "" {
		return object.Acquire(ctx, store, leaseDir, object.LeaseOptions{Owner: owner, Holder: holder})
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	return fsys.Lock(path.Join(dir, "LOCK"))
}

// guardCold keeps servers from bringing files to the store while objects are removed, and
// adds the names of those that they need. It does nothing in a store without servers: the
// first one that comes waits for the lock of the repository.
func (r *Repository) guardCold(ctx context.Context, needed map[string]bool) (release func() error, err error) {
	nodes, err := names.Nodes(ctx, r.store)
	if err != nil || len(nodes) == 0 {
		return func() error { return nil }, err
	}
	lock, err := names.Lock(ctx, r.store, r.fs, r.dir(), "tsdbd backup", "")
	if err != nil {
		return nil, fmt.Errorf("%s: cold store: %w", r.where, err)
	}
	all, err := names.All(ctx, r.store)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: cold store: %w", r.where, err), lock.Close())
	}
	for name := range all {
		needed[name] = true
	}
	if err := NeededByStates(ctx, r.store, needed); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", r.where, err), lock.Close())
	}
	return lock.Close, nil
}

// NeededByStates adds the names of the objects that published states of a cold store need.
// They are manifests too. The caller holds the lock of the cold store, so that none is put
// meanwhile. A state that is removed meanwhile needs nothing.
func NeededByStates(ctx context.Context, store object.Store, needed map[string]bool) error {
	states, err := store.List(ctx, names.States)
	for _, s := range states {
		m, err := ReadManifest(ctx, store, s.Name)
		if errors.Is(err, object.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read state of the cold store: %w", err)
		}
		for _, o := range m.objects() {
			needed[o.Name] = true
		}
	}
	return err
}
