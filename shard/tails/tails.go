// Package tails has what a shard does with TSM files whose bodies are in a cold store.
//
// A cold file has only its tail in the shard's directory: keys, index entries, statistics
// and checksums. Write brings bodies to the store and leaves tails, Fetch brings
// files back, Restore makes a tail that was lost again. The shard names the results in its
// manifest. Until then a crash leaves files that the next opening removes, and objects that
// nobody needs.
package tails

import (
	"context"
	"errors"
	"fmt"
	"path"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/tsm"
)

// Store is a cold store.
type Store interface {
	// Put brings files of a directory to the store, except for those that it has.
	Put(ctx context.Context, dir string, files []manifest.File) error
	// Commit calls swap if the store has all of the files. Nobody removes objects from
	// the store meanwhile.
	Commit(ctx context.Context, files []manifest.File, swap func() error) error
	// Get writes a file of the store to a path, synced.
	Get(ctx context.Context, f *manifest.File, path string) error
}

// Local is an open file.
type Local struct {
	manifest.File
	*tsm.Reader
}

// Write brings the bodies of files to a store and writes their tails. The caller syncs the
// directory, and removes the tails if it does not use them.
func Write(ctx context.Context, fs vfs.FS, dir string, files []Local, to Store) ([]manifest.File, error) {
	var warm, cold []manifest.File
	for _, f := range files {
		if err := f.VerifyContent(ctx); err != nil { // what the store gets is sound
			return nil, err
		}
		warm = append(warm, f.File)
	}
	if err := to.Put(ctx, dir, warm); err != nil {
		return nil, err
	}
	for _, f := range files {
		n, _ := manifest.Number(f.Name)
		rec := f.File
		rec.Name = manifest.TailName(n)
		if err := f.WriteTail(fs, path.Join(dir, rec.Name)); err != nil {
			Remove(fs, dir, cold)
			return nil, err
		}
		cold = append(cold, rec)
	}
	return cold, nil
}

// Remove removes files that no manifest names. What it leaves the next opening removes.
func Remove(fs vfs.FS, dir string, files []manifest.File) {
	for _, f := range files {
		_ = fs.Remove(path.Join(dir, f.Name))
	}
}

// scratch is the suffix of files that are being fetched. The next opening of the shard
// removes them.
const scratch = ".fetch.tmp"

// Fetch brings a file back from a store, under the name of a new number: the name that it
// had may still be removed by the last reader of those days.
func Fetch(ctx context.Context, fs vfs.FS, dir string, f manifest.File, number uint64, from Store) (manifest.File, error) {
	name := manifest.TSMName(number)
	tmp := path.Join(dir, name+scratch)
	err := from.Get(ctx, &f, tmp)
	if err == nil {
		err = check(ctx, fs, tmp, &f)
	}
	if err == nil {
		err = fs.Rename(tmp, path.Join(dir, name))
	}
	if err != nil {
		_ = fs.Remove(tmp)
		return f, fmt.Errorf("fetch object %s: %w", f.Object(), err)
	}
	f.Name = name
	return f, nil
}

// check opens a file that should be f and verifies its content.
func check(ctx context.Context, fs vfs.FS, name string, f *manifest.File) error {
	r, err := tsm.Open(fs, name)
	if err != nil {
		return err
	}
	if err = same(f, r); err == nil {
		err = r.VerifyContent(ctx)
	}
	return errors.Join(err, r.Close())
}

// same returns damage of the object if a file is not f.
func same(f *manifest.File, r *tsm.Reader) error {
	if i := r.Info(); i.Checksum != f.Checksum || i.Size != f.Size {
		return binio.Corruptf(f.Object(), -1, "the object has checksum %016x and %d bytes, the manifest says %016x and %d", i.Checksum, i.Size, f.Checksum, f.Size)
	}
	return nil
}

// Restore makes the tail of a cold file again, of its object. An error that is not of the
// object's content leaves what there was.
func Restore(ctx context.Context, fs vfs.FS, dir string, f *manifest.File, body tsm.Body) (err error) {
	name := path.Join(dir, f.Name)
	tmp := name + scratch
	defer func() {
		if err != nil {
			_ = fs.Remove(tmp)
			err = fmt.Errorf("restore %s of object %s: %w", name, f.Object(), err)
		}
	}()
	err = restore(ctx, fs, tmp, f, body)
	if cached, ok := body.(tsm.CachedBody); ok && errors.Is(err, binio.ErrCorrupt) {
		err = restore(ctx, fs, tmp, f, again{cached}) // bytes that changed on the way are in the cache
	}
	if err != nil {
		return err
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	return fs.SyncDir(dir)
}

// restore writes the tail of a file, and checks it.
func restore(ctx context.Context, fs vfs.FS, name string, f *manifest.File, body tsm.Body) error {
	if err := tsm.FetchTail(ctx, fs, name, body, f.Object(), f.Size); err != nil {
		return err
	}
	r, err := tsm.OpenTail(fs, name, body)
	if err != nil {
		return err
	}
	if err = r.VerifyIndex(); err == nil {
		err = same(f, r)
	}
	return errors.Join(err, r.Close())
}

// again is a body of which nothing is taken that was kept.
type again struct{ tsm.CachedBody }

func (b again) ReadBody(ctx context.Context, p []byte, off int64) error {
	return b.ReadBodyAgain(ctx, p, off)
}

// Absent is the body of a file while no cold store is set.
type Absent struct{ Object string }

// ErrAbsent is returned for bodies of files while no cold store is set.
var ErrAbsent = errors.New("no cold store is set (cold.url)")

// ReadBody implements tsm.Body.
func (a Absent) ReadBody(context.Context, []byte, int64) error {
	return fmt.Errorf("read object %s: %w", a.Object, ErrAbsent)
}

// Held is what a shard has in the cold store, and beside it.
type Held struct {
	Cold, Local []manifest.File
	Bytes       int64  // of the cold files
	Edition     uint64 // of the manifest, which is higher with every change of it
	Dirty       bool   // there are changes that the manifest does not have
}

// HeldBy returns what a manifest has in the cold store, and beside it.
func HeldBy(m *manifest.Manifest, dirty bool) Held {
	h := Held{Edition: m.Edition, Dirty: dirty}
	for _, f := range m.TSM {
		if f.Cold() {
			h.Cold, h.Bytes = append(h.Cold, f), h.Bytes+f.Size
		} else {
			h.Local = append(h.Local, f)
		}
	}
	return h
}
