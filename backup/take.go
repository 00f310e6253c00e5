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
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tsdbd/exchange"
	"tsdbd/internal/binio"
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
