package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
)

// TakeOptions say what is backed up and how. The zero value takes everything.
type TakeOptions struct {
	Filter  exchange.Filter
	Workers int // objects fetched at a time; default 4
	// SkipDamaged takes what is left of shards that have lost points, and leaves out files
	// that are damaged on the server and lists them in the result. Otherwise both are an
	// error.
	SkipDamaged bool
	Progress    func(Progress)
	// Begun is called with the sequence of the backup before anything is fetched. Its error
	// ends Take.
	Begun func(sequence uint64) error
	// Whole has the backup name all shards of the catalog, also those without files,
	// so that a store on it can go on with the log of the server.
	Whole bool
	// Have is a data directory that nobody has open. Files in it are taken for objects
	// if their content is right.
	Have string
	// Cold keeps the bodies of files that are cold on the server, if it has them: they are not
	// fetched, and the backup is one for Place with the same store alone. nil: all are fetched.
	Cold *Cold
	// Keep is how often the session is renewed; default 1 min.
	Keep time.Duration
}

// Result describes a backup that was taken or placed.
type Result struct {
	Name     string        `json:"name"`
	Sequence uint64        `json:"sequence"`
	Shards   int           `json:"shards"`
	Objects  int           `json:"objects"`
	Bytes    int64         `json:"bytes"`  // of all objects
	Copied   int64         `json:"copied"` // bytes fetched now
	Took     time.Duration `json:"took_ns"`
	Cold     int64         `json:"cold,omitempty"`    // bytes of the files that stay in a cold store
	Damaged  []DamagedFile `json:"damaged,omitempty"` // left out
}

// Take takes a backup of a running server into r. It does not fetch
// objects again that are there, from earlier backups or from an interrupted one,
// and continues the parts of objects. It compares every fetched object with the
// content hash in its name before the object counts.
func Take(ctx context.Context, c *exchange.Client, r *Repository, opt TakeOptions) (*Result, error) {
	begin := time.Now()
	opt.Filter.Partial = opt.SkipDamaged
	if err := r.fs.MkdirAll(path.Dir(r.parts)); err != nil {
		return nil, err
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.where, err)
	}
	defer lock.Close()
	if err := r.fs.MkdirAll(r.parts); err != nil {
		return nil, err
	}
	var have map[string]place
	if opt.Have != "" {
		if have, err = localObjects(ctx, r.fs, opt.Have); err != nil {
			return nil, fmt.Errorf("list files of %s: %w", opt.Have, err)
		}
	}
	for attempt := 1; ; attempt++ {
		res, err := r.take(ctx, c, lock, have, &opt)
		var refusal *exchange.WriteError
		if attempt < takeAttempts && errors.As(err, &refusal) && refusal.Status == http.StatusGone {
			// A shard was dropped since, or the session has ended: begin
			// again. What was fetched is there.
			continue
		}
		if err != nil {
			return nil, err
		}
		res.Took = time.Since(begin)
		return res, nil
	}
}

// takeAttempts is how many sessions Take begins at most.
const takeAttempts = 5

// take takes a backup in one session.
func (r *Repository) take(ctx context.Context, c *exchange.Client, lock vfs.Lock, have map[string]place, opt *TakeOptions) (_ *Result, err error) {
	m, err := begin(ctx, c, &opt.Filter, opt.Whole)
	if err != nil {
		return nil, fmt.Errorf("begin backup: %w", err)
	}
	session := m.Session
	defer func() {
		endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if e := end(endCtx, c, session); err == nil && e != nil {
			err = fmt.Errorf("end backup: %w", e)
		}
	}()
	if opt.Begun != nil {
		if err := opt.Begun(m.Sequence); err != nil {
			return nil, err
		}
	}
	m.Session, m.Objects = "", map[string]string{}
	objects, cold := m.objects(), int64(0)
	if opt.Cold != nil {
		if objects, cold, err = opt.Cold.spare(ctx, r.fs, m); err != nil {
			return nil, err
		}
	}
	meter := &meter{report: opt.Progress}
	f := &fetcher{r: r, c: c, session: session, local: have, meter: meter}
	if f.stored, err = stored(ctx, r.store); err != nil {
		return nil, err
	}
	if f.known, err = r.knownSums(ctx, objects, f.stored); err != nil {
		return nil, err
	}
	meter.p.Objects = len(objects)
	for _, o := range objects {
		meter.p.Bytes += o.Size
	}
	if opt.Workers <= 0 {
		opt.Workers = 4
	}
	workers, fetching := errgroup.WithContext(ctx)
	workers.SetLimit(opt.Workers)
	var keeper sync.WaitGroup
	keepCtx, stopKeeper := context.WithCancel(fetching)
	keeper.Go(func() { keep(keepCtx, c, session, cmp.Or(opt.Keep, time.Minute)) })
	var mu sync.Mutex // for m and copied
	copied := int64(0)
	for _, o := range objects {
		workers.Go(func() error {
			sum, n, err := f.fetch(fetching, o)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				m.Objects[o.Name] = sum
				copied += n
			case opt.SkipDamaged && isServerDamage(err) && m.leaveOut(o.Name, err):
				_ = r.fs.Remove(r.part(o))
			default:
				return fmt.Errorf("object %s, %s: %w", o.Name, m.owner(o.Name), err)
			}
			return nil
		})
	}
	err = workers.Wait()
	stopKeeper()
	keeper.Wait()
	meter.add(func(*Progress) {}, true)
	if err != nil {
		return nil, err
	}
	name, err := r.putManifest(ctx, lock, m)
	if err != nil {
		return nil, err
	}
	if r.own { // what earlier attempts have left
		_ = r.fs.RemoveAll(r.parts)
	}
	return &Result{Name: name, Sequence: m.Sequence, Shards: len(m.Shards), Objects: len(m.Objects), Bytes: m.Bytes(), Copied: copied, Cold: cold, Damaged: m.Damaged}, nil
}

// manifestTime is how long the put of a manifest may take. It is shorter than a lease lives.
const manifestTime = 2 * time.Minute

// putManifest makes the backup one that is there, and returns its name. The lock is held
// before and afterwards: otherwise another writer may have removed objects.
func (r *Repository) putManifest(ctx context.Context, lock vfs.Lock, m *Manifest) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, manifestTime)
	defer cancel()
	for {
		name := m.Created.Format("20060102T150405.000Z")
		b, err := m.Encode()
		if err != nil {
			return "", err
		}
		if err := lock.Held(); err != nil {
			return "", fmt.Errorf("write backup manifest: %s: %w", r.where, err)
		}
		err = r.store.Put(ctx, name+ManifestSuffix, object.Content{Bytes: b})
		if errors.Is(err, object.ErrExists) {
			// It is that of another backup, or of an attempt whose answer was lost.
			old, e := object.Read(ctx, r.store, name+ManifestSuffix, maxManifestBytes)
			if e != nil {
				return "", fmt.Errorf("write backup manifest: %w", e)
			}
			if !bytes.Equal(old, b) {
				m.Created = m.Created.Add(time.Millisecond)
				continue
			}
			err = nil
		}
		if err != nil {
			return "", fmt.Errorf("write backup manifest: %w", err)
		}
		if err := lock.Held(); errors.Is(err, object.ErrLost) || errors.Is(err, vfs.ErrLockLost) {
			return "", errors.Join(fmt.Errorf("backup %s is withdrawn: %s: %w", name, r.where, err), r.store.Delete(ctx, name+ManifestSuffix))
		}
		return name, nil
	}
}

// isServerDamage reports whether the server's file is damaged or cannot be
// read, and not the way to it.
func isServerDamage(err error) bool {
	var refusal *exchange.WriteError
	return errors.Is(err, binio.ErrCorrupt) || errors.As(err, &refusal) && refusal.Status == http.StatusInternalServerError
}

// stored returns the sizes of the objects of a store.
func stored(ctx context.Context, s object.Store) (map[string]int64, error) {
	infos, err := s.List(ctx, objectsDir)
	sizes := make(map[string]int64, len(infos))
	for _, i := range infos {
		sizes[path.Base(i.Name)] = i.Size
	}
	return sizes, err
}

// knownSums returns the SHA-256 of those objects that are stored and that earlier
// backups name. It reads the newest first, which has most of them.
func (r *Repository) knownSums(ctx context.Context, objects []Object, stored map[string]int64) (map[string]string, error) {
	names, err := r.List(ctx)
	if err != nil {
		return nil, err
	}
	sums, unknown := map[string]string{}, map[string]bool{}
	for _, o := range objects {
		if size, ok := stored[o.Name]; ok && size == o.Size {
			unknown[o.Name] = true
		}
	}
	for _, n := range slices.Backward(names) {
		if len(unknown) == 0 {
			break
		}
		_, m, err := r.Manifest(ctx, n)
		if err != nil {
			return nil, err
		}
		for k, v := range m.Objects {
			if unknown[k] {
				sums[k] = v
				delete(unknown, k)
			}
		}
	}
	return sums, nil
}

// fetcher brings objects into a repository, in one session.
type fetcher struct {
	r       *Repository
	c       *exchange.Client
	session string
	stored  map[string]int64  // sizes of the objects that are there
	known   map[string]string // SHA-256 of some of them
	local   map[string]place  // files that may be objects
	meter   *meter
}

// fetch downloads an object unless it is there. It returns its SHA-256 and how
// many bytes it downloaded.
func (f *fetcher) fetch(ctx context.Context, o Object) (sum string, n int64, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	r, reused := f.r, func(p *Progress) { p.ObjectsDone++; p.BytesDone += o.Size; p.Reused += o.Size }
	if size, ok := f.stored[o.Name]; ok && size == o.Size {
		if sum = f.known[o.Name]; sum == "" { // of a backup that was broken off
			sum, err = r.sum(ctx, o)
		}
		if err == nil {
			f.meter.add(reused, false)
		}
		return sum, 0, err
	}
	if p, ok := f.local[o.Name]; ok {
		file, err := r.adopt(ctx, o, p)
		if err == nil && file != "" {
			if sum, err = object.SumFile(ctx, r.fs, file); err == nil {
				err = r.put(ctx, o, file, sum)
			}
			f.meter.add(reused, false)
			return sum, 0, err
		}
		if err != nil {
			return "", 0, err
		}
	}
	part := r.part(o)
	for attempt := 0; ; attempt++ {
		sum, got, err := f.download(ctx, o, part)
		n += got
		switch {
		case err == nil:
			f.meter.add(func(p *Progress) { p.ObjectsDone++ }, false)
			return sum, n, r.put(ctx, o, part, sum)
		case errors.Is(err, binio.ErrCorrupt) && attempt == 0:
			// The part of an earlier attempt may be bad: once more from the start.
			_ = r.fs.Remove(part)
			f.meter.add(func(p *Progress) { p.BytesDone -= o.Size }, false)
		default:
			return "", n, err
		}
	}
}

// put stores a file as an object. The file is complete, synced, and checked.
func (r *Repository) put(ctx context.Context, o Object, file, sum string) error {
	err := r.store.Put(ctx, key(o), object.Content{FS: r.fs, Path: file, SHA256: sum})
	if !errors.Is(err, object.ErrExists) {
		return err
	}
	info, err := r.store.Stat(ctx, key(o))
	switch {
	case err != nil:
		return err
	case info.Size == o.Size:
		// An attempt has arrived whose answer was lost: equal names are equal content.
		return r.fs.Remove(file)
	}
	if err := r.store.Delete(ctx, key(o)); err != nil { // it is damaged
		return err
	}
	return r.store.Put(ctx, key(o), object.Content{FS: r.fs, Path: file, SHA256: sum})
}

// sum returns the SHA-256 of an object that is there. A store that has it from Put need
// not be read.
func (r *Repository) sum(ctx context.Context, o Object) (string, error) {
	info, err := r.store.Stat(ctx, key(o))
	if err != nil || info.SHA256 != "" {
		return info.SHA256, err
	}
	return r.verifyObject(ctx, o, false)
}

// download gets what a part lacks, and checks the whole.
func (f *fetcher) download(ctx context.Context, o Object, part string) (string, int64, error) {
	r := f.r
	have := int64(0)
	if st, err := r.fs.Stat(part); err == nil && st.Size() <= o.Size {
		have = st.Size()
	}
	var to vfs.File
	var err error
	sum := sha256.New()
	if have > 0 {
		if to, err = r.fs.OpenReadWrite(part); err == nil {
			_, err = io.Copy(sum, io.NewSectionReader(to, 0, have))
		}
	} else {
		to, err = r.fs.Create(part)
	}
	if err != nil {
		return "", 0, err
	}
	f.meter.add(func(p *Progress) { p.BytesDone += have }, false)
	got := int64(0)
	if have < o.Size {
		got, err = f.rest(ctx, o, to, have, sum)
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = CheckContent(ctx, r.fs, part, o)
	}
	return hex.EncodeToString(sum.Sum(nil)), got, err
}

// rest appends the server's bytes from offset have on.
func (f *fetcher) rest(ctx context.Context, o Object, to vfs.File, have int64, sum hash.Hash) (got int64, err error) {
	body, err := fetch(ctx, f.c, f.session, o.Name, have)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	got, err = io.CopyN(io.MultiWriter(io.NewOffsetWriter(to, have), sum, f.meter), body, o.Size-have)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return got, err
}
