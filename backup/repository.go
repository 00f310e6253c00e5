package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
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
	Damaged  []DamagedFile `json:"damaged,omitempty"` // left out
}

// Take takes a backup of a running server into r. It does not fetch
// objects again that are there, from earlier backups or from an interrupted one,
// and continues the parts of objects. It compares every fetched object with the
// content hash in its name before the object counts.
func Take(ctx context.Context, c *exchange.Client, r *Repository, opt TakeOptions) (*Result, error) {
	begin := time.Now()
	opt.Filter.Partial = opt.SkipDamaged
	if err := r.fs.MkdirAll(path.Join(r.dir, objectsDir)); err != nil {
		return nil, err
	}
	lock, err := r.fs.Lock(path.Join(r.dir, "LOCK"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	known, err := r.knownSums()
	if err != nil {
		return nil, err
	}
	var have map[string]place
	if opt.Have != "" {
		if have, err = localObjects(ctx, r.fs, opt.Have); err != nil {
			return nil, fmt.Errorf("list files of %s: %w", opt.Have, err)
		}
	}
	for attempt := 1; ; attempt++ {
		res, err := r.take(ctx, c, known, have, &opt)
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
func (r *Repository) take(ctx context.Context, c *exchange.Client, known map[string]string, have map[string]place, opt *TakeOptions) (_ *Result, err error) {
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
	objects := m.objects()
	meter := &meter{report: opt.Progress}
	meter.p.Objects = len(objects)
	for _, o := range objects {
		meter.p.Bytes += o.Size
	}
	if opt.Workers <= 0 {
		opt.Workers = 4
	}
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(opt.Workers)
	var keeper sync.WaitGroup
	keepCtx, stopKeeper := context.WithCancel(ctx)
	keeper.Go(func() { keep(keepCtx, c, session, cmp.Or(opt.Keep, time.Minute)) })
	var mu sync.Mutex // for m and copied
	copied := int64(0)
	for _, o := range objects {
		workers.Go(func() error {
			if p, ok := have[o.Name]; ok {
				if err := r.adopt(ctx, o, p); err != nil {
					return fmt.Errorf("object %s, %s: %w", o.Name, m.owner(o.Name), err)
				}
			}
			sum, n, err := r.fetch(ctx, c, session, o, known[o.Name], meter)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				m.Objects[o.Name] = sum
				copied += n
			case opt.SkipDamaged && isServerDamage(err) && m.leaveOut(o.Name, err):
				_ = r.fs.Remove(r.object(o.Name) + partSuffix)
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
	if err := r.fs.SyncDir(path.Join(r.dir, objectsDir)); err != nil {
		return nil, err
	}
	name := m.Created.Format("20060102T150405.000Z")
	for taken, _ := r.List(); slices.Contains(taken, name); {
		m.Created = m.Created.Add(time.Millisecond)
		name = m.Created.Format("20060102T150405.000Z")
	}
	b, err := m.encode()
	if err != nil {
		return nil, err
	}
	if err := vfs.WriteFileAtomic(r.fs, r.dir, path.Join(r.dir, name+manifestSuffix), b); err != nil {
		return nil, fmt.Errorf("write backup manifest: %w", err)
	}
	return &Result{Name: name, Sequence: m.Sequence, Shards: len(m.Shards), Objects: len(m.Objects), Bytes: m.Bytes(), Copied: copied, Damaged: m.Damaged}, nil
}

// isServerDamage reports whether the server's file is damaged or cannot be
// read, and not the way to it.
func isServerDamage(err error) bool {
	var refusal *exchange.WriteError
	return errors.Is(err, binio.ErrCorrupt) || errors.As(err, &refusal) && refusal.Status == http.StatusInternalServerError
}

// knownSums returns the SHA-256 of the objects that earlier backups name.
func (r *Repository) knownSums() (map[string]string, error) {
	names, err := r.List()
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, n := range names {
		_, m, err := r.Manifest(n)
		if err != nil {
			return nil, err
		}
		for k, v := range m.Objects {
			sums[k] = v
		}
	}
	return sums, nil
}

// fetch downloads an object unless it is there. It returns its SHA-256 and how
// many bytes it downloaded.
func (r *Repository) fetch(ctx context.Context, c *exchange.Client, session string, o Object, known string, meter *meter) (sum string, n int64, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	name := r.object(o.Name)
	if st, err := r.fs.Stat(name); err == nil && st.Size() == o.Size {
		if known == "" { // of a backup that was broken off
			if known, err = r.verifyObject(ctx, o); err != nil {
				return "", 0, err
			}
		}
		meter.add(func(p *Progress) { p.ObjectsDone++; p.BytesDone += o.Size; p.Reused += o.Size }, false)
		return known, 0, nil
	}
	part := name + partSuffix
	for attempt := 0; ; attempt++ {
		sum, got, err := r.download(ctx, c, session, o, part, meter)
		n += got
		switch {
		case err == nil:
			meter.add(func(p *Progress) { p.ObjectsDone++ }, false)
			return sum, n, r.fs.Rename(part, name)
		case errors.Is(err, binio.ErrCorrupt) && attempt == 0:
			// The part of an earlier attempt may be bad: once more from the start.
			_ = r.fs.Remove(part)
			meter.add(func(p *Progress) { p.BytesDone -= o.Size }, false)
		default:
			return "", n, err
		}
	}
}

// download gets what a part lacks, and checks the whole.
func (r *Repository) download(ctx context.Context, c *exchange.Client, session string, o Object, part string, meter *meter) (string, int64, error) {
	have := int64(0)
	if st, err := r.fs.Stat(part); err == nil && st.Size() <= o.Size {
		have = st.Size()
	}
	var f vfs.File
	var err error
	sum := sha256.New()
	if have > 0 {
		if f, err = r.fs.OpenReadWrite(part); err == nil {
			_, err = io.Copy(sum, io.NewSectionReader(f, 0, have))
		}
	} else {
		f, err = r.fs.Create(part)
	}
	if err != nil {
		return "", 0, err
	}
	meter.add(func(p *Progress) { p.BytesDone += have }, false)
	got := int64(0)
	if have < o.Size {
		got, err = rest(ctx, c, session, o, f, have, sum, meter)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = checkContent(ctx, r.fs, part, o)
	}
	return hex.EncodeToString(sum.Sum(nil)), got, err
}

// rest appends the server's bytes from offset have on.
func rest(ctx context.Context, c *exchange.Client, session string, o Object, f vfs.File, have int64, sum hash.Hash, meter *meter) (got int64, err error) {
	body, err := fetch(ctx, c, session, o.Name, have)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	got, err = io.CopyN(io.MultiWriter(io.NewOffsetWriter(f, have), sum, meter), body, o.Size-have)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return got, err
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
