package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsdbd/backup"
	"tsdbd/cold/names"
	"tsdbd/cold/states"
	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/overlay"
	"tsdbd/shard/manifest"
	"tsdbd/store"
	"tsdbd/tsm"
)

// Options configure a Reader. All but FS and Logger are required.
type Options struct {
	Objects object.Store
	// Body returns the body of a cold file.
	Body   func(object string, size int64) tsm.Body
	FS     vfs.FS // default vfs.OS
	Dir    string // of the reader; it need not exist
	Logger *slog.Logger
}

// Reader opens states. See the package comment.
type Reader struct {
	opt  Options
	lock vfs.Lock
}

// Open returns a reader. The caller must close it after all stores.
func Open(opt Options) (*Reader, error) {
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Reader{opt: opt}
	err := opt.FS.MkdirAll(r.path(""))
	if err == nil {
		r.lock, err = opt.FS.Lock(path.Join(opt.Dir, "LOCK"))
	}
	if err != nil {
		return nil, fmt.Errorf("open reader in %s: %w", opt.Dir, err)
	}
	return r, nil
}

// Close gives the directory back.
func (r *Reader) Close() error { return r.lock.Close() }

// path returns the file with a name.
func (r *Reader) path(name string) string { return path.Join(r.opt.Dir, "files", name) }

// fileName returns the name of the file that stands for a file of a shard.
func fileName(f backup.File) string {
	if manifest.IsTail(f.Name) {
		return f.Object.Name + ".tail"
	}
	return f.Object.Name
}

// State is a state whose files are here.
type State struct {
	ID       states.ID
	manifest *backup.Manifest
	sizes    map[string]int64 // of the files, by name
}

// Created returns when the state was published.
func (s *State) Created() time.Time { return s.manifest.Created }

// workers is how many files are fetched at a time.
const workers = 8

// Fetch fetches the newest state, unless it is that of have, which is nil at first. It
// returns have then.
func (r *Reader) Fetch(ctx context.Context, have *State) (*State, error) {
	for {
		id, err := states.Newest(ctx, r.opt.Objects)
		if err != nil || have != nil && id == have.ID {
			return have, err
		}
		s, err := r.fetch(ctx, id)
		if !errors.Is(err, object.ErrNotFound) {
			return s, err
		}
		// A newer state has followed, and this one or what it needs is gone.
		if again, e := states.Newest(ctx, r.opt.Objects); e != nil || again == id {
			return nil, errors.Join(err, e)
		}
	}
}

func (r *Reader) fetch(ctx context.Context, id states.ID) (*State, error) {
	m, err := states.Read(ctx, r.opt.Objects, id)
	if err != nil {
		return nil, err
	}
	s := &State{ID: id, manifest: m, sizes: map[string]int64{}}
	var mu sync.Mutex // for s.sizes
	group, fetching := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	seen := map[string]bool{}
	for f := range files(m) {
		name := fileName(f)
		if seen[name] {
			continue
		}
		seen[name] = true
		group.Go(func() error {
			size, err := r.file(fetching, f, name)
			if err != nil {
				return fmt.Errorf("fetch %s: %w", f.Object.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			s.sizes[name] = size
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return s, r.opt.FS.SyncDir(r.path(""))
}

// files returns the files of a manifest. Pieces of logs have no name of their own.
func files(m *backup.Manifest) func(yield func(backup.File) bool) {
	return func(yield func(backup.File) bool) {
		for _, l := range m.Series {
			for _, o := range l.Pieces {
				if !yield(backup.File{Object: o}) {
					return
				}
			}
		}
		for _, s := range m.Shards {
			for _, f := range s.Files {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// file makes sure that a file is here, and returns its size.
func (r *Reader) file(ctx context.Context, f backup.File, name string) (int64, error) {
	to := r.path(name)
	st, err := r.opt.FS.Stat(to)
	if err == nil {
		return st.Size(), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	tmp := to + tmpSuffix
	defer func() { _ = r.opt.FS.Remove(tmp) }()
	if manifest.IsTail(f.Name) {
		err = r.tail(ctx, f.Object, tmp)
	} else if err = object.Save(ctx, r.opt.Objects, names.Key(f.Object.Name), f.Object.Size, r.opt.FS, tmp); err == nil {
		err = backup.CheckContent(ctx, r.opt.FS, tmp, f.Object)
	}
	if err == nil {
		st, err = r.opt.FS.Stat(tmp)
	}
	if err == nil {
		err = r.opt.FS.Rename(tmp, to)
	}
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

const tmpSuffix = ".tmp"

// tail fetches the tail of a cold file and checks it.
func (r *Reader) tail(ctx context.Context, o backup.Object, to string) error {
	body := names.Body{Store: r.opt.Objects, Object: o.Name}
	if err := tsm.FetchTail(ctx, r.opt.FS, to, body, o.Name, o.Size); err != nil {
		return err
	}
	t, err := tsm.OpenTail(r.opt.FS, to, body)
	if err != nil {
		return err
	}
	defer t.Close()
	i := t.Info()
	of := manifest.File{Size: i.Size, Checksum: i.Checksum, MinSequence: i.MinSequence, MaxSequence: i.MaxSequence, Level: i.Level}
	if of.Object() != o.Name {
		return binio.Corruptf(o.Name, -1, "the object is %s", of.Object())
	}
	return t.VerifyIndex()
}

// Store opens a state. The store must be closed.
func (r *Reader) Store(s *State, opt store.Options) (*store.Store, error) {
	opt.Cold = r.opt.Body
	return s.manifest.OpenFiles(r.opt.FS, opt, func(f backup.File) overlay.Part {
		name := fileName(f)
		return overlay.Part{Path: r.path(name), Size: s.sizes[name]}
	})
}

// Clean removes the files that a state does not need, once no store of another state is open.
func (r *Reader) Clean(s *State) {
	have, err := r.opt.FS.List(r.path(""))
	for _, name := range have {
		if _, ok := s.sizes[name]; !ok {
			err = errors.Join(err, r.opt.FS.Remove(r.path(name)))
		}
	}
	if err != nil {
		r.opt.Logger.Warn("files of earlier states are left", "path", r.path(""), "err", err)
	}
}
