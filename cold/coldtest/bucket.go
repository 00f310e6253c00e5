// Package coldtest has a cold store for tests of what works on cold shards, without the service
// that keeps one.
package coldtest

import (
	"context"
	"path"
	"testing"

	"tsdbd/cold/names"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/store"
	"tsdbd/tsm"
)

// Bucket is a cold store that belongs to one who never removes objects.
type Bucket struct{ Objects object.Store }

// Put uploads files of a directory.
func (b Bucket) Put(ctx context.Context, dir string, files []manifest.File) error {
	for _, f := range files {
		if err := b.Objects.Put(ctx, names.Key(f.Object()), object.Content{FS: vfs.OS, Path: path.Join(dir, f.Name), Keep: true}); err != nil {
			return err
		}
	}
	return nil
}

// Commit lists nothing: no object is ever removed.
func (Bucket) Commit(_ context.Context, _ []manifest.File, swap func() error) error { return swap() }

// Get fetches the body of a file.
func (b Bucket) Get(ctx context.Context, f *manifest.File, to string) error {
	return object.Save(ctx, b.Objects, names.Key(f.Object()), f.Size, vfs.OS, to)
}

// Options returns those of a store that reads cold files from the bucket and expires nothing.
func (b Bucket) Options() store.Options {
	return store.Options{RetentionInterval: -1, Cold: func(object string, _ int64) tsm.Body {
		return names.Body{Store: b.Objects, Object: object}
	}}
}

// Chill flushes and merges every shard of a store and makes it cold. It returns the names of
// the cold files.
func (b Bucket) Chill(t testing.TB, s *store.Store) (files []string) {
	t.Helper()
	set, err := s.Backup(t.Context(), nil) // flushes
	if err != nil {
		t.Fatal(err)
	}
	set.Release()
	for id := range s.Catalog().Shards() {
		sh, release, err := s.OpenShard(id)
		if err != nil {
			t.Fatal(err)
		}
		for more := true; more && err == nil; {
			more, err = sh.Compact(t.Context(), true)
		}
		if err == nil {
			_, err = sh.Chill(t.Context(), b)
		}
		for _, f := range sh.Cold().Cold {
			files = append(files, f.Object())
		}
		release()
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
