package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"tsdbd/inspect"
	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/tsm"
)

// ManifestSuffix ends the names of the manifests of backups.
const ManifestSuffix = ".backup"

const (
	objectsDir = "objects"
	partSuffix = ".part"
	// maxManifestBytes bounds what is read for a manifest.
	maxManifestBytes = 1 << 30
)

// Repository is a place with backups:
//
//	20261120T184404.123Z.backup   a manifest for each, named by its time
//	objects/<name>                what they consist of, shared by all
//
// It is a directory, or an object store with a staging directory (OpenStaged). In a
// directory parts of objects are beside the objects:
//
//	objects/<name>.part           the beginning of an object
type Repository struct {
	store object.Store
	where string // for messages
	lock  func(context.Context) (vfs.Lock, error)

	fs    vfs.FS // of these directories
	parts string // has objects until they are whole
	local string // has objects as files
	own   bool   // files in local are copies, which are removed
	stage *stage // nil for a directory
}

// OpenRepository returns the repository in dir, which need not exist.
func OpenRepository(fsys vfs.FS, dir string) *Repository {
	dir = path.Clean(dir)
	objects := path.Join(dir, objectsDir)
	return &Repository{
		store: object.OpenDir(fsys, dir), where: dir, fs: fsys, parts: objects, local: objects,
		lock: func(context.Context) (vfs.Lock, error) {
			if err := inspect.CheckData(fsys, dir); !errors.Is(err, inspect.ErrNoData) {
				return nil, cmp.Or(err, errors.New("it is a data directory: name another one for backups"))
			}
			return fsys.Lock(path.Join(dir, "LOCK"))
		},
	}
}

// dir returns the directory of the repository, "" if that is in a bucket.
func (r *Repository) dir() string {
	if r.own {
		return ""
	}
	return path.Dir(r.local)
}

// key returns the name of an object in the store.
func key(o Object) string { return path.Join(objectsDir, o.Name) }

// at names something in the store, for messages.
func (r *Repository) at(name string) string { return r.where + "/" + name }

func (r *Repository) part(o Object) string { return path.Join(r.parts, o.Name+partSuffix) }

// Object returns the path of the content of a file that is in a backup. The repository is a
// directory.
func (r *Repository) Object(o Object) string { return path.Join(r.local, o.Name) }

// List returns the names of the backups, oldest first.
func (r *Repository) List(ctx context.Context) ([]string, error) {
	infos, err := r.store.List(ctx, "")
	var out []string
	for _, i := range infos {
		if base, ok := strings.CutSuffix(i.Name, ManifestSuffix); ok {
			out = append(out, base)
		}
	}
	return out, err
}

// Manifest reads the manifest of a backup; name "" is the newest.
func (r *Repository) Manifest(ctx context.Context, name string) (string, *Manifest, error) {
	if name == "" {
		names, err := r.List(ctx)
		if err != nil {
			return "", nil, err
		}
		if len(names) == 0 {
			return "", nil, fmt.Errorf("%s: no backup in it", r.where)
		}
		name = names[len(names)-1]
	}
	name = strings.TrimSuffix(path.Base(name), ManifestSuffix)
	b, err := object.Read(ctx, r.store, name+ManifestSuffix, maxManifestBytes)
	if err != nil {
		return "", nil, err
	}
	m, err := Decode(r.at(name+ManifestSuffix), b)
	return name, m, err
}

// ReadManifest reads a manifest under any name of a store.
func ReadManifest(ctx context.Context, store object.Store, name string) (*Manifest, error) {
	b, err := object.Read(ctx, store, name, maxManifestBytes)
	if err != nil {
		return nil, err
	}
	return Decode(name, b)
}

// CheckContent holds a file against the name of the object it should be.
func CheckContent(ctx context.Context, fsys vfs.FS, file string, o Object) error {
	want := o.checksum()
	if path.Ext(o.Name) != ".tsm" {
		sum, err := inspect.HashFile(fsys, file)
		if err == nil && sum != want {
			err = binio.Corruptf(file, -1, "content hash %016x, expected %016x", sum, want)
		}
		return err
	}
	t, err := tsm.Open(fsys, file)
	if err != nil {
		return err
	}
	defer t.Close()
	if have := t.Info().Checksum; have != want {
		return binio.Corruptf(file, -1, "content hash %016x, expected %016x", have, want)
	}
	return t.VerifyContent(ctx)
}

// verifyObject checks an object and returns its SHA-256. With keep a copy stays in the
// staging directory.
func (r *Repository) verifyObject(ctx context.Context, o Object, keep bool) (string, error) {
	file, err := r.bring(ctx, o)
	if err != nil {
		return "", err
	}
	if !keep {
		defer r.release(file)
	}
	if err := CheckContent(ctx, r.fs, file, o); err != nil {
		var damage *binio.CorruptError
		if errors.As(err, &damage) && damage.Path == file {
			err = binio.Corruptf(r.at(key(o)), damage.Offset, "%s", damage.Reason)
		}
		return "", err
	}
	return object.SumFile(ctx, r.fs, file)
}

// copyObject writes an object to a writer and returns its SHA-256.
func (r *Repository) copyObject(ctx context.Context, o Object, to io.Writer) (string, error) {
	in, err := r.store.ReadRange(ctx, key(o), 0, o.Size)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(sum, to), in)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = binio.Corruptf(r.at(key(o)), n, "%d bytes, expected %d", n, o.Size)
	}
	return hex.EncodeToString(sum.Sum(nil)), err
}

// checkWorkers is how many objects are checked at a time.
const checkWorkers = 4

// Check verifies that every object of a backup is there, with the hashes in its
// name and in the manifest. It returns all damage; any other error ends the
// check. report, if not nil, is called with the progress.
func (r *Repository) Check(ctx context.Context, m *Manifest, report func(Progress)) (damage []error, err error) {
	return r.check(ctx, m, m.objects(), false, report)
}

func (r *Repository) check(ctx context.Context, m *Manifest, objects []Object, keep bool, report func(Progress)) ([]error, error) {
	progress := meter{report: report, p: Progress{Objects: len(objects), Bytes: sizeOf(objects)}}
	found := make([]error, len(objects)) // in the order of the objects
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(checkWorkers)
	for i, o := range objects {
		workers.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			sum, err := r.verifyObject(ctx, o, keep)
			switch {
			case errors.Is(err, object.ErrNotFound):
				found[i] = binio.Corruptf(r.at(key(o)), -1, "missing")
			case errors.Is(err, binio.ErrCorrupt):
				found[i] = err
			case err != nil:
				return err
			case sum != m.Objects[o.Name]:
				found[i] = binio.Corruptf(r.at(key(o)), -1, "SHA-256 %s, the manifest says %s", sum, m.Objects[o.Name])
			}
			progress.add(func(p *Progress) { p.ObjectsDone++; p.BytesDone += o.Size }, false)
			return nil
		})
	}
	err := workers.Wait()
	progress.add(func(*Progress) {}, true)
	return slices.DeleteFunc(found, func(err error) bool { return err == nil }), err
}

// pruneStep is how many objects are removed before the lock is looked at again.
const pruneStep = 500

// Prune removes all backups but the newest keep, and the objects that none
// names any more. It returns what it removed.
func (r *Repository) Prune(ctx context.Context, keep int) (backups, objects int, err error) {
	if keep < 1 {
		return 0, 0, errors.New("at least one backup must be kept")
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", r.where, err)
	}
	defer lock.Close()
	names, err := r.List(ctx)
	if err != nil {
		return 0, 0, err
	}
	needed := map[string]bool{}
	for i, n := range names {
		_, m, err := r.Manifest(ctx, n)
		kept := i >= len(names)-keep
		switch {
		case errors.Is(err, binio.ErrVersion):
			return 0, 0, fmt.Errorf("%w: prune with that version, or move it and what it needs to another place", err)
		case err != nil && (kept || !binio.Damaged(err)):
			return 0, 0, err // better keep what it may need, and what it may be
		case !kept:
			continue
		}
		for _, o := range m.objects() {
			needed[o.Name] = true
		}
	}
	release, err := r.guardCold(ctx, needed)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, release()) }()
	infos, err := r.store.List(ctx, objectsDir)
	if err != nil {
		return 0, 0, err
	}
	var manifests, garbage []string
	for _, n := range names[:max(len(names)-keep, 0)] {
		manifests = append(manifests, n+ManifestSuffix)
	}
	for _, i := range infos {
		n := path.Base(i.Name)
		if !needed[n] && objectName.MatchString(strings.TrimSuffix(n, partSuffix)) {
			garbage = append(garbage, i.Name)
		}
	}
	// Manifests first, durably: none may name an object that is gone.
	if backups, err = r.remove(ctx, lock, manifests); err != nil {
		return backups, 0, err
	}
	objects, err = r.remove(ctx, lock, garbage)
	return backups, objects, err
}

// remove deletes from the store as long as the lock is held.
func (r *Repository) remove(ctx context.Context, lock vfs.Lock, names []string) (removed int, err error) {
	for some := range slices.Chunk(names, pruneStep) {
		if err := lock.Held(); err != nil {
			return removed, fmt.Errorf("%s: %w", r.where, err)
		}
		if err := r.store.Delete(ctx, some...); err != nil {
			return removed, err
		}
		removed += len(some)
	}
	return removed, nil
}
