package backup

import (
	"context"
	"errors"
	"io"
	"maps"
	"path"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/series"
	"tsdbd/shard"
	"tsdbd/shard/manifest"
	"tsdbd/store/layout"
)

// localObjects returns what the files of a data directory are as objects, by their
// manifests. Nothing is said of what cannot be read.
func localObjects(ctx context.Context, fsys vfs.FS, dir string) (map[string]place, error) {
	objects := map[string]place{}
	for _, database := range subdirectories(fsys, dir, layout.DatabasePrefix) {
		at := path.Join(dir, layout.DatabaseDir(uint32(database)))
		for _, id := range subdirectories(fsys, at, layout.ShardPrefix) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			in := path.Join(dir, layout.ShardDir(uint32(database), id))
			if m, err := manifest.Read(fsys, in); err == nil {
				if _, err := describeShard(uint32(database), &shard.Export{ID: id, Dir: in, Manifest: m}, objects, false); err != nil {
					return nil, err
				}
			}
		}
		if err := localPieces(ctx, fsys, path.Join(at, "series", series.LogName), objects); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(objects, func(_ string, p place) bool { return p.cold }) // they are not here
	return objects, nil
}

// subdirectories returns the numbers in the names with a prefix.
func subdirectories(fsys vfs.FS, dir, prefix string) []uint64 {
	names, err := fsys.List(dir)
	if err != nil {
		return nil
	}
	return layout.Numbers(names, prefix)
}

// localPieces adds the pieces of a series log.
func localPieces(ctx context.Context, fsys vfs.FS, name string, objects map[string]place) error {
	f, err := fsys.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	size, err := f.Size()
	for at := int64(0); err == nil && at < size; at += pieceBytes {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, sum := min(pieceBytes, size-at), xxhash.New()
		if _, err = io.Copy(sum, io.NewSectionReader(f, at, n)); err == nil {
			objects[seriesObject(sum.Sum64(), n).Name] = place{path: name, offset: at, size: n}
		}
	}
	return nil
}

// adopt gives a local file a second name beside the parts if its content is that of the
// object. Otherwise it returns "", and the object is fetched.
func (r *Repository) adopt(ctx context.Context, o Object, p place) (string, error) {
	// Not the name of a part, which a download would go on with.
	tmp := path.Join(r.parts, o.Name+".local")
	_ = r.fs.Remove(tmp)
	var err error
	if path.Ext(o.Name) == ".series" {
		err = copyRange(r.fs, p, tmp)
	} else {
		err = vfs.Link(r.fs, p.path, tmp)
	}
	if err == nil {
		if err = CheckContent(ctx, r.fs, tmp, o); err == nil {
			return tmp, nil
		}
	}
	_ = r.fs.Remove(tmp)
	if vfs.IsFull(err) || ctx.Err() != nil {
		return "", err
	}
	return "", nil
}

// copyRange writes a part of a file to another one, synced.
func copyRange(fsys vfs.FS, p place, to string) error {
	in, err := fsys.Open(p.path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := fsys.Create(to)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.NewSectionReader(in, p.offset, p.size))
	if err == nil && n != p.size {
		err = binio.Corruptf(p.path, p.offset+n, "shorter than it was")
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
