package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"tsdbd/inspect"
	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/tsm"
)

const (
	objectsDir     = "objects"
	manifestSuffix = ".backup"
	partSuffix     = ".part"
)

// Repository is a directory of backups:
//
//	20261120T184404.123Z.backup   a manifest for each, named by its time
//	objects/<name>                what they consist of, shared by all
//	objects/<name>.part           the beginning of an object
type Repository struct {
	fs  vfs.FS
	dir string
}

// OpenRepository returns the repository in dir, which need not exist.
func OpenRepository(fsys vfs.FS, dir string) *Repository {
	return &Repository{fs: fsys, dir: path.Clean(dir)}
}

func (r *Repository) object(name string) string { return path.Join(r.dir, objectsDir, name) }

// Object returns the path of the content of a file that is in a backup.
func (r *Repository) Object(o Object) string { return r.object(o.Name) }

// List returns the names of the backups, oldest first.
func (r *Repository) List() ([]string, error) {
	names, err := r.fs.List(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		if base, ok := strings.CutSuffix(n, manifestSuffix); ok {
			out = append(out, base)
		}
	}
	return out, nil
}

// Manifest reads the manifest of a backup; name "" is the newest.
func (r *Repository) Manifest(name string) (string, *Manifest, error) {
	if name == "" {
		names, err := r.List()
		if err != nil {
			return "", nil, err
		}
		if len(names) == 0 {
			return "", nil, fmt.Errorf("%s: no backup in it", r.dir)
		}
		name = names[len(names)-1]
	}
	name = strings.TrimSuffix(path.Base(name), manifestSuffix)
	file := path.Join(r.dir, name+manifestSuffix)
	b, err := vfs.ReadFile(r.fs, file)
	if err != nil {
		return "", nil, err
	}
	m, err := decodeBackup(file, b)
	return name, m, err
}

// checkContent holds a file against the name of the object it should be.
func checkContent(ctx context.Context, fsys vfs.FS, file string, o Object) error {
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

// verifyObject checks an object and returns its SHA-256.
func (r *Repository) verifyObject(ctx context.Context, o Object) (string, error) {
	name := r.object(o.Name)
	st, err := r.fs.Stat(name)
	if err != nil {
		return "", err
	}
	if st.Size() != o.Size {
		return "", binio.Corruptf(name, min(st.Size(), o.Size), "%d bytes, expected %d", st.Size(), o.Size)
	}
	if err := checkContent(ctx, r.fs, name, o); err != nil {
		return "", err
	}
	return r.copyObject(ctx, o, io.Discard)
}

// copyObject writes an object to a writer and returns its SHA-256.
func (r *Repository) copyObject(ctx context.Context, o Object, to io.Writer) (string, error) {
	f, err := r.fs.Open(r.object(o.Name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(sum, to), contextReader{ctx, io.NewSectionReader(f, 0, o.Size)}); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// contextReader is a reader that ends with a context.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Check verifies that every object of a backup is there, with the hashes in its
// name and in the manifest. It returns all damage; any other error ends the
// check. report, if not nil, is called with the progress.
func (r *Repository) Check(ctx context.Context, m *Manifest, report func(Progress)) (damage []error, err error) {
	objects := m.objects()
	progress := meter{report: report, p: Progress{Objects: len(objects), Bytes: m.Bytes()}}
	for i, o := range objects {
		if err := ctx.Err(); err != nil {
			return damage, err
		}
		sum, err := r.verifyObject(ctx, o)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			damage = append(damage, binio.Corruptf(r.object(o.Name), -1, "missing"))
		case errors.Is(err, binio.ErrCorrupt):
			damage = append(damage, err)
		case err != nil:
			return damage, err
		case sum != m.Objects[o.Name]:
			damage = append(damage, binio.Corruptf(r.object(o.Name), -1, "SHA-256 %s, the manifest says %s", sum, m.Objects[o.Name]))
		}
		progress.add(func(p *Progress) { p.ObjectsDone++; p.BytesDone += o.Size }, i == len(objects)-1)
	}
	return damage, nil
}

// Prune removes all backups but the newest keep, and the objects that none
// names any more. It returns what it removed.
func (r *Repository) Prune(keep int) (backups, objects int, err error) {
	if keep < 1 {
		return 0, 0, errors.New("at least one backup must be kept")
	}
	lock, err := r.fs.Lock(path.Join(r.dir, "LOCK"))
	if err != nil {
		return 0, 0, err
	}
	defer lock.Close()
	names, err := r.List()
	if err != nil {
		return 0, 0, err
	}
	needed := map[string]bool{}
	for _, n := range names[max(len(names)-keep, 0):] {
		_, m, err := r.Manifest(n)
		if err != nil {
			return 0, 0, err // better keep what it may need
		}
		for _, o := range m.objects() {
			needed[o.Name] = true
		}
	}
	for _, n := range names[:max(len(names)-keep, 0)] {
		if err := r.fs.Remove(path.Join(r.dir, n+manifestSuffix)); err != nil {
			return backups, 0, err
		}
		backups++
	}
	// Manifests first, durably: none may name an object that is gone.
	if err := r.fs.SyncDir(r.dir); err != nil {
		return backups, 0, err
	}
	found, err := r.fs.List(path.Join(r.dir, objectsDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return backups, 0, err
	}
	for _, n := range found {
		if !needed[n] && objectName.MatchString(strings.TrimSuffix(n, partSuffix)) {
			if err := r.fs.Remove(r.object(n)); err != nil {
				return backups, objects, err
			}
			objects++
		}
	}
	return backups, objects, nil
}
