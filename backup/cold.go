package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"tsdbd/cold/names"
	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/shard/tails"
)

// Cold is a cold store that keeps the bodies of files which were cold when a backup was
// taken. What is restored has the tails of them.
type Cold struct {
	Objects object.Store
	Dir     string // of the store if it is a directory, else ""
	// Node is whose list gets the names of the objects; "": that of the restored directory,
	// see names.Restored. What is restored for a node was taken with the same Cold.
	Node          string
	Owner, Holder string // of locks, see Guard
	// Busy is told who has a lock of the store for so long that the bodies are fetched; nil:
	// nobody is.
	Busy func(err error)
}

// Cold returns the repository as a cold store.
func (r *Repository) Cold() *Cold {
	return &Cold{Objects: r.store, Dir: r.dir(), Owner: "tsdbd restore"}
}

// OwnerID returns the id of the server or the cluster that has the store, "" if none has.
func (c *Cold) OwnerID(ctx context.Context) (string, error) { return names.OwnerID(ctx, c.Objects) }

// Keep adds what the node needs to the list of another name. Its next list does not have that.
func (c *Cold) Keep(ctx context.Context, as string) error {
	return names.Keep(ctx, c.Objects, c.Node, as)
}

// hold publishes the names of objects as those that a node needs, so that nobody removes
// them from now on. It returns the objects that are not there, or have another size. The
// list may be there with an error as well, unless lost is nil.
func (c *Cold) hold(ctx context.Context, fsys vfs.FS, node string, objects []Object) (lost map[string]bool, err error) {
	var locks []vfs.Lock
	// Whoever prunes backups and finds no list of a node takes the first of the locks alone.
	for _, lock := range []func(context.Context) (vfs.Lock, error){
		func(ctx context.Context) (vfs.Lock, error) {
			return lockBackups(ctx, c.Objects, fsys, c.Dir, c.Owner, c.Holder)
		},
		func(ctx context.Context) (vfs.Lock, error) {
			return names.Lock(ctx, c.Objects, fsys, c.Dir, c.Owner, c.Holder)
		},
	} {
		l, e := names.Await(ctx, lock)
		if e != nil {
			return nil, e
		}
		locks = append(locks, l)
		defer func() { err = errors.Join(err, l.Close()) }()
	}
	var all []string
	for _, o := range objects {
		all = append(all, o.Name)
	}
	lost = map[string]bool{}
	if err := names.Publish(ctx, c.Objects, node, all); err != nil {
		return lost, fmt.Errorf("publish what is needed of the cold store: %w", err)
	}
	if lost, err = c.lacks(ctx, objects); err != nil {
		return lost, err
	}
	// Who has lost a lock has not kept others from removing objects before they saw the list.
	for _, l := range locks {
		if err := l.Held(); err != nil {
			return lost, fmt.Errorf("publish what is needed of the cold store: %w", err)
		}
	}
	return lost, nil
}

// lacks returns the objects that are not in the store, or have another size there.
func (c *Cold) lacks(ctx context.Context, objects []Object) (lost map[string]bool, err error) {
	lost = map[string]bool{}
	sizes, err := stored(ctx, c.Objects)
	if err != nil {
		return lost, err
	}
	for _, o := range objects {
		if size, ok := sizes[o.Name]; !ok || size != o.Size {
			lost[o.Name] = true
		}
	}
	return lost, nil
}

// only returns shards with those of their files alone that were cold, or were not.
func only(shards []ShardManifest, cold bool) []ShardManifest {
	shards = slices.Clone(shards)
	for i := range shards {
		s := &shards[i]
		s.Files = slices.DeleteFunc(slices.Clone(s.Files), func(f File) bool { return f.Cold != cold })
	}
	return shards
}

// spare returns the objects of a backup that must be fetched, and the bytes of the others,
// which the store has and keeps. Files that it lacks are not cold any more, nor is any while
// somebody takes a backup into the store, which can take hours.
func (c *Cold) spare(ctx context.Context, fsys vfs.FS, m *Manifest) (fetch []Object, bytes int64, err error) {
	lost := map[string]bool{}
	if cold := objectsOf(nil, only(m.Shards, true)); len(cold) > 0 {
		lost, err = c.hold(ctx, fsys, c.Node, cold)
		if lost == nil && names.InUse(err) && ctx.Err() == nil {
			if c.Busy != nil {
				c.Busy(err)
			}
			lost, err = map[string]bool{}, nil
			for _, o := range cold {
				lost[o.Name] = true
			}
		}
		if err != nil {
			return nil, 0, err
		}
	}
	for _, s := range m.Shards {
		for i := range s.Files {
			s.Files[i].Cold = s.Files[i].Cold && !lost[s.Files[i].Object.Name]
		}
	}
	return objectsOf(m.Series, only(m.Shards, false)), m.ColdBytes(), nil
}

// ColdBytes returns the size of the files that were cold.
func (m *Manifest) ColdBytes() int64 { return sizeOf(objectsOf(nil, only(m.Shards, true))) }

// stay makes sure that the store has the cold files of shards, and keeps them. leave has it
// not keep them, for a directory that is not restored. It may be there with an error as well.
func (p *placer) stay(shards []ShardManifest, lineage identity.Lineage) (leave func() error, err error) {
	objects := objectsOf(nil, only(shards, true))
	if len(objects) == 0 {
		return nil, nil
	}
	node := cmp.Or(p.cold.Node, names.Restored(lineage.String()))
	lost, err := p.cold.hold(p.ctx, p.r.fs, node, objects)
	if lost == nil && names.InUse(err) && node == p.cold.Node && p.ctx.Err() == nil {
		// The list that spare has published has these objects. It may have more.
		lost, err = p.cold.lacks(p.ctx, objects)
	}
	if lost == nil {
		return nil, err
	}
	for _, s := range shards {
		for _, f := range s.Files {
			if f.Cold && lost[f.Object.Name] {
				err = errors.Join(err, fmt.Errorf("%s of shard %d: object %s is missing in the cold store, or has not %d bytes", f.Name, s.ID, f.Object.Name, f.Object.Size))
			}
		}
	}
	p.stays = sizeOf(objects)
	return func() error {
		if node == p.cold.Node {
			return nil // its next list replaces this one
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Second)
		defer cancel()
		return names.Forget(ctx, p.cold.Objects, node)
	}, err
}

// tails writes the tails of the cold files of a shard, and returns the bytes of the
// manifest that names them.
func (p *placer) tails(dir string, s *ShardManifest) ([]byte, error) {
	fsys := p.r.fs
	name := path.Join(dir, manifest.Name)
	m, err := manifest.Decode(name, s.Manifest)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fsys.MkdirAll(dir), fsys.SyncDir(path.Dir(dir))); err != nil {
		return nil, err
	}
	files := map[string]*manifest.File{}
	for i := range m.TSM {
		files[m.TSM[i].Name] = &m.TSM[i]
	}
	for _, f := range s.Files {
		if !f.Cold {
			continue
		}
		rec := files[f.Name]
		if rec == nil || rec.Object() != f.Object.Name {
			return nil, binio.Corruptf(name, -1, "it does not name %s with object %s", f.Name, f.Object.Name)
		}
		n, _ := manifest.Number(f.Name)
		rec.Name = manifest.TailName(n)
		if err := tails.Restore(p.ctx, fsys, dir, rec, names.Body{Store: p.cold.Objects, Object: f.Object.Name}); err != nil {
			return nil, err
		}
		st, err := fsys.Stat(path.Join(dir, rec.Name))
		if err != nil {
			return nil, err
		}
		p.meter.add(func(x *Progress) { x.ObjectsDone++; x.Bytes += st.Size(); x.BytesDone += st.Size() }, false)
	}
	return m.Encode()
}
