package cold

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tsdbd/backup"
	"tsdbd/cold/names"
	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/shard/tails"
)

var _ tails.Store = (*Service)(nil)

// errUnlisted is the error of files that the list of this node lacks.
var errUnlisted = errors.New("the list of this node lacks the files")

// Put implements tails.Store. For files that the list of this node lacks it uploads nothing, notes
// them for the next list, and returns errUnlisted: a sweep would remove what no list has.
func (s *Service) Put(ctx context.Context, dir string, files []manifest.File) error {
	var objects []string
	for _, f := range files {
		objects = append(objects, f.Object())
	}
	if !s.intend(objects) {
		return errUnlisted
	}
	for _, f := range files {
		did, err := object.Ensure(ctx, s.opt.Objects, names.Key(f.Object()), f.Size, func() (object.Content, error) {
			name := dir + "/" + f.Name
			sum, err := object.SumFile(ctx, s.opt.FS, name)
			return object.Content{FS: s.opt.FS, Path: name, Keep: true, SHA256: sum, Pace: s.pacer.Pace}, err
		})
		s.mu.Lock()
		if did {
			s.mu.Uploads++
			s.mu.UploadedBytes += f.Size
		} else if err != nil {
			s.mu.UploadFailures++
		}
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("upload %s: %w", f.Object(), err)
		}
	}
	return nil
}

// Commit implements tails.Store.
func (s *Service) Commit(ctx context.Context, files []manifest.File, swap func() error) error {
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	// The shard is held: no other one may be opened, as a claim does.
	id, err := names.OwnerID(ctx, s.opt.Objects)
	if err == nil && id != s.opt.ID {
		err = fmt.Errorf("%w: its owner is %q, and this one is %q", names.ErrForeign, id, s.opt.ID)
	}
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

// intend notes objects that are about to be uploaded. It reports whether the list of this node has
// them.
func (s *Service) intend(objects []string) (listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed = s.mu.known || len(objects) == 0
	for _, o := range objects {
		s.mu.intends[o] = true
		_, ok := slices.BinarySearch(s.mu.published, o)
		listed = listed && ok
	}
	return listed
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

// lock takes the lock of the store.
func (s *Service) lock(ctx context.Context) (vfs.Lock, error) {
	return names.Await(ctx, func(ctx context.Context) (vfs.Lock, error) {
		return names.Lock(ctx, s.opt.Objects, s.opt.FS, s.opt.Place.Dir, s.owner(), s.opt.ID+"/"+s.opt.Node)
	})
}

func (s *Service) owner() string { return "node " + s.opt.Node + " of " + s.opt.ID }

// Get implements tails.Store.
func (s *Service) Get(ctx context.Context, f *manifest.File, path string) error {
	return object.Save(ctx, s.opt.Objects, names.Key(f.Object()), f.Size, s.opt.FS, path)
}

// checkContent downloads an object and compares its content with its name.
func (s *Service) checkContent(ctx context.Context, f *manifest.File) error {
	path := s.opt.Dir + "/verify.tmp"
	defer func() { _ = s.opt.FS.Remove(path) }()
	err := s.Get(ctx, f, path)
	if err == nil {
		err = backup.CheckContent(ctx, s.opt.FS, path, backup.Object{Name: f.Object(), Size: f.Size})
	}
	var at *binio.CorruptError
	if errors.As(err, &at) {
		err = binio.Corruptf(f.Object(), at.Offset, "%s", at.Reason)
	}
	return err
}
