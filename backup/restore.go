package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
	"tsdbd/inspect"
	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/overlay"
	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/store"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
)

// RestoreOptions say what is restored, and under which name. The zero value
// restores the whole backup.
type RestoreOptions struct {
	Backup string // its name; "" is the newest
	Filter exchange.Filter
	// NewDatabase and NewPolicy are names to restore under; they need a Filter
	// that chooses one database, and one policy.
	NewDatabase, NewPolicy string
	Progress               func(Progress)
	// Definitions has Restore give a running server the users, continuous
	// queries and subscriptions that it lacks, and users that it has their grants on
	// the databases that Restore makes. Place always restores them.
	Definitions bool
	// Defined, if set, is called with the definitions that were created.
	Defined func(exchange.Defined)
	// Ungranted, if set, is called without Definitions if the backup has grants on the
	// databases that Restore makes: with how many.
	Ungranted func(grants int)
	// Link has Place give the files of the backup second names where it can, in
	// place of copying them. The backup is not used afterwards.
	Link bool
	// Cold has Place leave the bodies of files there that were cold when the backup was
	// taken. nil: all files become local.
	Cold *Cold
}

// rename changes the names in a catalog that is nobody else's yet.
func (o *RestoreOptions) rename(data *meta.Data) error {
	if o.NewDatabase == "" && o.NewPolicy == "" {
		return nil
	}
	for _, name := range []string{o.NewDatabase, o.NewPolicy} {
		if name != "" {
			if err := meta.CheckName(name); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
		}
	}
	if o.NewDatabase != "" && o.Filter.Database == "" || o.NewPolicy != "" && o.Filter.RetentionPolicy == "" {
		return errors.New("a new name needs the one database, or retention policy, that gets it")
	}
	for _, d := range data.Databases {
		if o.NewDatabase != "" {
			for _, u := range data.Users {
				p, ok := u.Privileges[d.Name]
				delete(u.Privileges, d.Name)
				delete(u.Privileges, o.NewDatabase) // that of another database
				if ok {
					u.Privileges[o.NewDatabase] = p
				}
			}
			d.Name = o.NewDatabase
		}
		for _, rp := range d.RetentionPolicies {
			if o.NewPolicy != "" {
				if d.DefaultRetentionPolicy == rp.Name {
					d.DefaultRetentionPolicy = o.NewPolicy
				}
				rp.Name = o.NewPolicy
			}
		}
	}
	return nil
}

// chosen returns the backup's catalog cut to the filter, and the shards in it.
func (o *RestoreOptions) chosen(m *Manifest) (*meta.Data, []ShardManifest, error) {
	if err := o.Filter.Check(m.Catalog); err != nil {
		return nil, nil, err
	}
	data, err := meta.Copy(m.Catalog)
	if err != nil {
		return nil, nil, err
	}
	keep := map[uint64]bool{}
	cut(data, &o.Filter, func(d *meta.Database, rp *meta.RetentionPolicy, g *meta.ShardGroup, id uint64) bool {
		keep[id] = o.Filter.WantsShard(d, rp, g, id)
		return keep[id]
	})
	shards := slices.DeleteFunc(slices.Clone(m.Shards), func(s ShardManifest) bool { return !keep[s.ID] })
	return data, shards, nil
}

// cut removes from a catalog what a filter leaves out, and the shards that keep
// does not keep.
func cut(data *meta.Data, f *exchange.Filter, keep func(*meta.Database, *meta.RetentionPolicy, *meta.ShardGroup, uint64) bool) {
	data.Databases = slices.DeleteFunc(data.Databases, func(d *meta.Database) bool {
		d.RetentionPolicies = slices.DeleteFunc(d.RetentionPolicies, func(rp *meta.RetentionPolicy) bool {
			for _, g := range rp.ShardGroups {
				g.Shards = slices.DeleteFunc(g.Shards, func(s meta.Shard) bool { return !keep(d, rp, g, s.ID) })
			}
			rp.ShardGroups = slices.DeleteFunc(rp.ShardGroups, func(g *meta.ShardGroup) bool { return len(g.Shards) == 0 })
			return !f.WantsPolicy(d, rp)
		})
		d.RemoveDownsamples(func(t *meta.Downsample) bool {
			return d.RetentionPolicy(t.From) == nil || d.RetentionPolicy(t.Into) == nil
		})
		return f.Database != "" && d.Name != f.Database
	})
}

// Place restores a backup into a data directory that has no data, for a server
// that is started on it afterwards. Ids stay those of the backup, and the directory
// gets a lineage of its own. Place restores the users as well. A filter by time
// chooses whole shards. Place checks the hash of each file. Of a file that stays cold it
// checks the tail, and that the object is there.
func Place(ctx context.Context, r *Repository, dir string, opt RestoreOptions) (_ *Result, err error) {
	name, m, err := r.Manifest(ctx, opt.Backup)
	if err != nil {
		return nil, err
	}
	data, shards, err := opt.chosen(m)
	if err != nil {
		return nil, err
	}
	if err := opt.rename(data); err != nil {
		return nil, err
	}
	if data, err = meta.Copy(data); err != nil { // checks the new names
		return nil, err
	}
	// From here on the two go different ways: files of one must not be taken for
	// the other's.
	data.Lineage, data.Dropped = identity.NewLineage(), meta.Dropped{}
	dir = path.Clean(dir)
	fsys := r.fs
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err := emptyData(fsys, dir); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(path.Join(dir, "LOCK"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := emptyData(fsys, dir); err != nil { // now nobody else can fill it
		return nil, err
	}
	unfinished := path.Join(dir, inspect.RestoreName)
	mark, err := fsys.Create(unfinished)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(mark.Close(), fsys.SyncDir(dir)); err != nil {
		return nil, err
	}
	p := &placer{ctx: ctx, r: r, m: m, link: opt.Link, cold: opt.Cold, meter: &meter{report: opt.Progress}}
	starts := false // a server starts on the directory once a copy of the catalog is there
	if p.cold != nil {
		leave, e := p.stay(shards, data.Lineage)
		if leave != nil {
			defer func() {
				if err != nil && !starts {
					err = errors.Join(err, leave())
				}
			}()
		}
		if e != nil {
			return nil, fmt.Errorf("restore backup %s: %w", name, e)
		}
	}
	var databases []SeriesLog
	for _, s := range m.Series {
		if data.DatabaseByID(s.Database) != nil {
			databases = append(databases, s)
			p.count(s.Pieces...)
		}
	}
	for _, s := range shards {
		for _, f := range s.Files {
			if p.staysCold(f) {
				p.meter.p.Objects++ // how long its tail is will be known
			} else {
				p.count(f.Object)
			}
		}
	}
	for _, s := range databases {
		at := path.Join(dir, layout.DatabaseDir(s.Database), "series")
		if err := p.file(at, series.LogName, s.Pieces...); err != nil {
			return nil, err
		}
		if err := series.AdoptLog(fsys, at, identity.Database{Lineage: data.Lineage, ID: s.Database}); err != nil {
			return nil, err
		}
	}
	known := ledger.Ledger{Lineage: data.Lineage, Shards: map[uint64]ledger.Shard{}, IDs: map[uint32]ledger.IDs{}}
	for _, s := range databases {
		// The server that was backed up has reported already which of them the log lacks.
		known.IDs[s.Database] = ledger.IDs{Next: s.Given, Reported: true}
	}
	for _, s := range shards {
		at := path.Join(dir, layout.ShardDir(s.Database, s.ID))
		encoded := s.Manifest
		if slices.ContainsFunc(s.Files, p.staysCold) {
			if encoded, err = p.tails(at, &s); err != nil {
				return nil, err
			}
		}
		for _, f := range s.Files {
			if p.staysCold(f) {
				continue
			}
			if err := p.file(at, f.Name, f.Object); err != nil {
				return nil, err
			}
		}
		if err := fsys.MkdirAll(at); err != nil {
			return nil, err
		}
		adopted, err := manifest.Adopt(fsys, at, encoded, data.Lineage)
		if err != nil {
			return nil, err
		}
		known.Shards[s.ID] = ledger.Shard{Database: s.Database, Known: adopted.Known()}
	}
	for _, d := range data.Databases {
		at := path.Join(dir, layout.DatabaseDir(d.ID))
		if err := fsys.MkdirAll(at); err != nil {
			return nil, err
		}
		if err := fsys.SyncDir(at); err != nil {
			return nil, err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	if err := known.Create(fsys, dir); err != nil {
		return nil, err
	}
	starts = true
	if err := meta.Create(fsys, path.Join(dir, "meta"), data); err != nil {
		return nil, err
	}
	if err := errors.Join(fsys.Remove(unfinished), fsys.SyncDir(dir)); err != nil {
		return nil, err
	}
	p.meter.add(func(*Progress) {}, true)
	return &Result{Name: name, Sequence: m.Sequence, Shards: len(shards), Objects: p.meter.p.Objects, Bytes: p.meter.p.Bytes, Copied: p.meter.p.BytesDone, Cold: p.stays}, nil
}

// emptyData refuses a directory that has more than a lock and empty directories.
func emptyData(fsys vfs.FS, dir string) error {
	if err := inspect.CheckData(fsys, dir); errors.Is(err, inspect.ErrUnfinished) {
		return fmt.Errorf("restore: %w", err)
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == "LOCK" || n == "lost+found" {
			continue
		}
		if inside, err := fsys.List(path.Join(dir, n)); err != nil || len(inside) > 0 {
			return fmt.Errorf("restore into %s: it has data (%s); restore into an empty directory, or into a running server", dir, n)
		}
	}
	return nil
}

type placer struct {
	ctx   context.Context
	r     *Repository
	m     *Manifest
	link  bool
	cold  *Cold // nil: all files become local
	stays int64 // bytes of the files that stay cold
	meter *meter
}

// staysCold reports whether only the tail of a file is restored.
func (p *placer) staysCold(f File) bool { return p.cold != nil && f.Cold }

func (p *placer) count(objects ...Object) {
	for _, o := range objects {
		p.meter.p.Objects++
		p.meter.p.Bytes += o.Size
	}
}

// file writes a file of objects, durably, and checks each one's SHA-256.
func (p *placer) file(dir, name string, objects ...Object) (err error) {
	fsys := p.r.fs
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	if err := fsys.SyncDir(path.Dir(dir)); err != nil {
		return err
	}
	if p.link && path.Ext(name) != path.Ext(series.LogName) { // which is changed later on
		return p.linked(dir, name, objects[0])
	}
	f, err := fsys.Create(path.Join(dir, name))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err = p.copy(f, o); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("restore %s: %w", path.Join(dir, name), err)
	}
	return fsys.SyncDir(dir)
}

// linked gives an object a second name, durably. Its content was checked when it was
// fetched.
func (p *placer) linked(dir, name string, o Object) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if err := vfs.Link(p.r.fs, p.r.Object(o), path.Join(dir, name)); err != nil {
		return fmt.Errorf("restore %s: %w", path.Join(dir, name), err)
	}
	p.meter.add(func(x *Progress) { x.ObjectsDone++; x.BytesDone += o.Size }, false)
	return p.r.fs.SyncDir(dir)
}

func (p *placer) copy(to io.Writer, o Object) error {
	have, err := p.r.copyObject(p.ctx, o, io.MultiWriter(to, p.meter))
	if err != nil {
		return err
	}
	if want := p.m.Objects[o.Name]; have != want {
		return binio.Corruptf(p.r.at(key(o)), -1, "SHA-256 %s, the manifest says %s", have, want)
	}
	p.meter.add(func(x *Progress) { x.ObjectsDone++ }, false)
	return nil
}

// Open opens what the options choose of a backup as a store that can only be read. Only
// Backup, Filter and Progress count. What is in a directory is not copied.
func Open(ctx context.Context, r *Repository, opt RestoreOptions) (*store.Store, *Manifest, error) {
	_, m, err := r.Manifest(ctx, opt.Backup)
	if err != nil {
		return nil, nil, err
	}
	v, err := opt.view(m)
	if err != nil {
		return nil, nil, err
	}
	if err := r.reserve(v.objects); err != nil {
		return nil, nil, err
	}
	st, err := v.open(ctx, r, opt.Progress)
	return st, m, err
}

// view is the part of a backup that is read.
type view struct {
	catalog *meta.Data
	logs    []SeriesLog
	shards  []ShardManifest
	objects []Object
}

func (o *RestoreOptions) view(m *Manifest) (*view, error) {
	data, shards, err := o.chosen(m)
	if err != nil {
		return nil, err
	}
	v := &view{catalog: data, shards: shards}
	for _, s := range m.Series {
		if data.DatabaseByID(s.Database) != nil {
			v.logs = append(v.logs, s)
		}
	}
	v.objects = objectsOf(v.logs, v.shards)
	return v, nil
}

// open opens the part as a store. Objects that are no files here become such first.
func (v *view) open(ctx context.Context, r *Repository, report func(Progress)) (*store.Store, error) {
	meter := &meter{report: report, p: Progress{Objects: len(v.objects), Bytes: sizeOf(v.objects)}}
	workers, bringing := errgroup.WithContext(ctx)
	workers.SetLimit(checkWorkers)
	for _, o := range v.objects {
		workers.Go(func() error {
			if _, err := r.bring(bringing, o); err != nil {
				return fmt.Errorf("backup is not complete: %w", err)
			}
			meter.add(func(p *Progress) { p.ObjectsDone++; p.BytesDone += o.Size }, false)
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return v.mount(r.fs, store.Options{}, func(f File) overlay.Part { return overlay.Part{Path: r.Object(f.Object), Size: f.Object.Size} })
}

// OpenFiles opens the whole backup as a store that can only be read, of files on fsys. place
// says where the file of each object is; those of series logs have no name.
func (m *Manifest) OpenFiles(fsys vfs.FS, opt store.Options, place func(File) overlay.Part) (*store.Store, error) {
	v := &view{catalog: m.Catalog, logs: m.Series, shards: m.Shards}
	return v.mount(fsys, opt, place)
}

// mount opens the part as a store, of files on fsys.
func (v *view) mount(fsys vfs.FS, opt store.Options, place func(File) overlay.Part) (*store.Store, error) {
	const root = "/backup"
	over := overlay.New(fsys)
	catalog, err := meta.AppendFile(nil, v.catalog)
	if err != nil {
		return nil, err
	}
	if err := over.RemoveAll(root); err != nil { // hides what the base may have there
		return nil, err
	}
	for _, n := range meta.CopyNames() {
		over.Put(path.Join(root, "meta", n), catalog)
	}
	for _, s := range v.logs {
		var parts []overlay.Part
		for _, o := range s.Pieces {
			parts = append(parts, place(File{Object: o}))
		}
		over.Map(path.Join(root, layout.DatabaseDir(s.Database), "series", series.LogName), parts...)
	}
	for _, s := range v.shards {
		dir := path.Join(root, layout.ShardDir(s.Database, s.ID))
		over.Put(path.Join(dir, manifest.Name), s.Manifest)
		for _, f := range s.Files {
			over.Map(path.Join(dir, f.Name), place(f))
		}
	}
	opt.FS = over
	return store.OpenForReading(root, opt)
}

// Restore writes the points of a backup to a running server. It creates databases
// and policies that the server lacks and does not change those that exist. A point
// of the backup replaces the fields of the same point on the server. Rows outside
// the filter's range, or outside the range of the backup, are left out.
// Manifest.Damaged lists the files that the backup lacks. send sends line protocol below headers to
// the server. It reads all of it, or returns an error.
func Restore(ctx context.Context, r *Repository, c *exchange.Client, opt RestoreOptions, send func(ctx context.Context, lines io.Reader) error) error {
	_, m, err := r.Manifest(ctx, opt.Backup)
	if err != nil {
		return err
	}
	v, err := opt.view(m)
	if err != nil {
		return err
	}
	if err := r.reserve(v.objects); err != nil {
		return err
	}
	if damage, err := r.check(ctx, m, v.objects, true, opt.Progress); err != nil || len(damage) > 0 {
		return fmt.Errorf("check backup: %w", errors.Join(append(damage, err)...))
	}
	st, err := v.open(ctx, r, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	filter := opt.Filter
	filter.Range = filter.Times().Intersect(m.Filter.Times())
	if filter.Range.Empty() {
		return errors.New("the backup has nothing in that time range")
	}
	created, _, err := c.Create(ctx, m.Catalog, &filter, opt.NewDatabase, opt.NewPolicy)
	if err != nil {
		return err
	}
	if err := opt.define(ctx, c, m, created); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw := io.Pipe()
	go func() {
		_, err := exchange.Export(ctx, st, pw, exchange.ExportOptions{Filter: filter, NewDatabase: opt.NewDatabase, NewPolicy: opt.NewPolicy, SkipDefinitions: true})
		_ = pw.CloseWithError(err)
	}()
	err = send(ctx, pr)
	_ = pr.CloseWithError(errors.New("import has ended"))
	return err
}

// define gives a server the definitions of a backup, and grants on the databases that were
// created.
func (o *RestoreOptions) define(ctx context.Context, c *exchange.Client, m *Manifest, created []string) error {
	data, _, err := o.chosen(m)
	if err == nil {
		err = o.rename(data)
	}
	if err != nil {
		return err
	}
	if !o.Definitions {
		if n := grants(data.Users, created); n > 0 && o.Ungranted != nil {
			o.Ungranted(n)
		}
		return nil
	}
	d := o.definitions(data)
	d.New = created
	made, err := c.Define(ctx, d)
	if err != nil {
		return fmt.Errorf("restore definitions: %w", err)
	}
	if o.Defined != nil {
		o.Defined(made)
	}
	return nil
}

// grants counts the grants on databases.
func grants(users []*meta.User, databases []string) (n int) {
	for _, u := range users {
		for _, db := range databases {
			if !u.Admin && u.Privileges[db] != meta.NoPrivileges {
				n++
			}
		}
	}
	return n
}

// definitions returns those of the chosen part of a catalog, under the new
// names. The text of a continuous query names its database, so where that gets
// another name it is left out.
func (o *RestoreOptions) definitions(data *meta.Data) *exchange.Definitions {
	out := &exchange.Definitions{Users: data.Users}
	for _, d := range data.Databases {
		for i := range d.Downsamples {
			out.Downsamples = append(out.Downsamples, exchange.DownsampleOf(d, &d.Downsamples[i]))
		}
		for _, b := range d.Boards {
			out.Boards = append(out.Boards, exchange.Board{Database: d.Name, Name: b.Name, Content: b.Content})
		}
		if o.NewDatabase == "" && o.NewPolicy == "" {
			for _, q := range d.ContinuousQueries {
				out.Queries = append(out.Queries, exchange.Continuous{Database: d.Name, Name: q.Name, Query: q.Query})
			}
		}
		for _, rp := range d.RetentionPolicies {
			for _, s := range rp.Subscriptions {
				out.Subscriptions = append(out.Subscriptions, exchange.Subscription{Database: d.Name, RetentionPolicy: rp.Name, Subscription: s})
			}
		}
	}
	return out
}
