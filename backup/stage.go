package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
)

// StageOptions say where the files of a repository in an object store are while this
// machine works on them.
type StageOptions struct {
	FS  vfs.FS
	Dir string // of one repository; it need not exist
	// Notice, if set, is called before much is copied into the directory.
	Notice func(text string)
}

// stage is a staging directory. Its lock is held:
//
//	LOCK, id         one process; a random number
//	parts/<name>     parts of objects that are fetched from a server
//	objects/<name>   copies of objects, removed by the next process
type stage struct {
	lock   vfs.Lock
	notice func(string)
}

// leaseDir is the directory of the lease in an object store.
const leaseDir = "lease"

// OpenStaged returns the repository in an object store, which where names in messages.
// It returns vfs.ErrLocked if another process uses the staging directory. The caller
// must close the repository.
func OpenStaged(store object.Store, where string, opt StageOptions) (_ *Repository, err error) {
	fsys, dir := opt.FS, path.Clean(opt.Dir)
	r := &Repository{
		store: store, where: where, fs: fsys, own: true,
		parts: path.Join(dir, "parts"), local: path.Join(dir, objectsDir),
		stage: &stage{notice: opt.Notice},
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	if r.stage.lock, err = fsys.Lock(path.Join(dir, "LOCK")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = r.stage.lock.Close()
		}
	}()
	if err := errors.Join(fsys.RemoveAll(r.local), fsys.MkdirAll(r.local)); err != nil {
		return nil, err
	}
	holder, err := vfs.ReadFile(fsys, path.Join(dir, "id"))
	if errors.Is(err, os.ErrNotExist) {
		holder = []byte(rand.Text())
		err = vfs.WriteFileAtomic(fsys, dir, path.Join(dir, "id"), holder)
	}
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	owner := fmt.Sprintf("process %d on %s since %s", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	r.lock = func(ctx context.Context) (vfs.Lock, error) {
		return object.Acquire(ctx, store, leaseDir, object.LeaseOptions{Owner: owner, Holder: string(holder)})
	}
	return r, nil
}

// Close removes the copies in the staging directory. Parts of objects stay, so that the
// next backup continues with them.
func (r *Repository) Close() error {
	if r.stage == nil {
		return nil
	}
	return errors.Join(r.fs.RemoveAll(r.local), r.stage.lock.Close())
}

// bring returns the file of an object, which has the right size. A directory has it.
// Otherwise it is copied into the staging directory.
func (r *Repository) bring(ctx context.Context, o Object) (string, error) {
	file := path.Join(r.local, o.Name)
	st, err := r.fs.Stat(file)
	if r.own && errors.Is(err, os.ErrNotExist) {
		if err = r.copyIn(ctx, o, file); err == nil {
			st, err = r.fs.Stat(file)
		}
	}
	if err != nil {
		return "", err
	}
	if st.Size() != o.Size {
		r.release(file)
		return "", binio.Corruptf(r.at(key(o)), min(st.Size(), o.Size), "%d bytes, expected %d", st.Size(), o.Size)
	}
	return file, nil
}

// copyIn copies an object into the staging directory, whatever its size is.
func (r *Repository) copyIn(ctx context.Context, o Object, file string) error {
	in, err := r.store.ReadRange(ctx, key(o), 0, -1)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := r.fs.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, o.Size+1))
	if err = errors.Join(err, out.Close()); err != nil {
		r.release(file)
	}
	return err
}

// release removes a copy.
func (r *Repository) release(file string) {
	if r.own {
		_ = r.fs.Remove(file)
	}
}

// reserve returns an error if the staging directory has no room for objects.
func (r *Repository) reserve(objects []Object) error {
	if !r.own {
		return nil
	}
	need := sizeOf(objects)
	free, err := r.fs.Free(r.local)
	if err != nil {
		return err
	}
	if uint64(need) > free {
		return fmt.Errorf("%d MiB of the backup must be copied to %s, which has room for %d MiB: name another staging directory", need>>20, r.local, free>>20)
	}
	if r.stage.notice != nil {
		r.stage.notice(fmt.Sprintf("copying %d MiB of the backup to %s, for as long as it is read", need>>20, r.local))
	}
	return nil
}
