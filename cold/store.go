package cold

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"tsdbd/cold/names"
	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/shard/tails"
	"tsdbd/tsm"
)

var _ tails.Store = (*Service)(nil)

// Put implements tails.Store. It publishes the names of the files before it uploads them.
func (s *Service) Put(ctx context.Context, dir string, files []manifest.File) error {
	s.mu.Lock()
	for _, f := range files {
		s.mu.intends[f.Object()] = true
	}
	s.mu.Unlock()
	if err := s.publish(ctx); err != nil {
		return err
	}
	for _, f := range files {
		if err := s.put(ctx, dir+"/"+f.Name, &f); err != nil {
			s.mu.Lock()
			s.mu.UploadFailures++
			s.mu.Unlock()
			return fmt.Errorf("upload %s: %w", f.Object(), err)
		}
	}
	return nil
}

// put uploads a file, unless the store has it.
func (s *Service) put(ctx context.Context, name string, f *manifest.File) error {
	key := names.Key(f.Object())
	info, err := s.opt.Objects.Stat(ctx, key)
	if err == nil && info.Size == f.Size {
		return nil // that of another node, of a backup, or of an earlier attempt
	}
	if err == nil {
		err = s.opt.Objects.Delete(ctx, key) // it is damaged: equal names are equal content
	}
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		return err
	}
	sum, err := sumFile(ctx, s.opt.FS, name)
	if err != nil {
		return err
	}
	err = s.opt.Objects.Put(ctx, key, object.Content{FS: s.opt.FS, Path: name, Keep: true, SHA256: sum, Pace: s.pacer.Pace})
	if errors.Is(err, object.ErrExists) { // another node was faster, or an answer was lost
		return nil
	}
	if err == nil {
		s.mu.Lock()
		s.mu.Uploads++
		s.mu.UploadedBytes += f.Size
		s.mu.Unlock()
	}
	return err
}

// sumFile returns the SHA-256 of a file.
func sumFile(ctx context.Context, fsys vfs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	const step = 4 << 20
	sum := sha256.New()
	for at := int64(0); at < size; at += step {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if _, err := io.Copy(sum, io.NewSectionReader(f, at, min(step, size-at))); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Commit implements tails.Store.
func (s *Service) Commit(ctx context.Context, files []manifest.File, swap func() error) error {
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	err = s.verifyOwner(ctx)
	for i := 0; i < len(files) && err == nil; i++ {
		_, err = s.stat(ctx, &files[i])
	}
	if err == nil {
		err = lock.Held()
	}
	if err == nil {
		err = swap()
	}
	return errors.Join(err, lock.Close())
}

// stat finds out whether an object is there and has its size.
func (s *Service) stat(ctx context.Context, f *manifest.File) (damage bool, err error) {
	info, err := s.opt.Objects.Stat(ctx, names.Key(f.Object()))
	switch {
	case errors.Is(err, object.ErrNotFound):
		return true, fmt.Errorf("object %s is missing: %w", f.Object(), err)
	case err == nil && info.Size != f.Size:
		return true, binio.Corruptf(f.Object(), -1, "the object has %d bytes, the manifest says %d", info.Size, f.Size)
	}
	return false, err
}

// lockWait is how long the lock of the store is waited for: others hold it for seconds, or
// while they remove objects.
const lockWait = 2 * time.Minute

// lock takes the lock of the store.
func (s *Service) lock(ctx context.Context) (vfs.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		l, err := names.Lock(ctx, s.opt.Objects, s.opt.FS, s.opt.Place.Dir, s.owner(), s.opt.ID+"/"+s.opt.Node)
		if !names.InUse(err) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock the cold store: %w", err)
		case <-time.After(lockWait / 60):
		}
	}
}

func (s *Service) owner() string { return "node " + s.opt.Node + " of " + s.opt.ID }

// Get implements tails.Store.
func (s *Service) Get(ctx context.Context, f *manifest.File, path string) error {
	in, err := s.opt.Objects.ReadRange(ctx, names.Key(f.Object()), 0, f.Size)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.opt.FS.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// checkContent downloads an object and compares its content with its name.
func (s *Service) checkContent(ctx context.Context, f *manifest.File) (err error) {
	path := s.opt.Dir + "/verify.tmp"
	defer func() { _ = s.opt.FS.Remove(path) }()
	if err := s.Get(ctx, f, path); err != nil {
		return err
	}
	r, err := tsm.Open(s.opt.FS, path)
	if err == nil {
		defer r.Close()
		if i := r.Info(); i.Checksum != f.Checksum || i.Size != f.Size {
			err = binio.Corruptf(f.Object(), -1, "it is another file")
		} else {
			err = r.VerifyContent(ctx)
		}
	}
	var at *binio.CorruptError
	if errors.As(err, &at) {
		err = binio.Corruptf(f.Object(), at.Offset, "%s", at.Reason)
	}
	return err
}
