// Package heal fetches from sound nodes what damage has taken from this one, while it serves.
//
// A shard with damage is fetched as a whole, because the files of two nodes differ: see package
// renewal. Of a series file that was damaged, the series are fetched that it lacks. A
// database that does not open needs more than that: the node then copies the whole state of
// another one.
//
// The node looks for damage again and again: what it has found when it opened its files, what
// reads have met, and what other nodes found when they copied. A try that fails is repeated
// later, after twice the time. One shard is fetched at a time, at a bounded rate. A node that
// leads heals nothing: it hands the lead over.
//
// A Healer is for one goroutine, except for Status.
package heal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"tsdbd/backup"
	"tsdbd/exchange"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/shard/renew"
	"tsdbd/shard/repair"
	"tsdbd/store"
	"tsdbd/store/layout"
)

// Source is another node.
type Source struct {
	Name   string
	Client *exchange.Client // of its backup handler
}

// Options say what a Healer heals, and from where. All are needed.
type Options struct {
	FS     vfs.FS
	Dir    string // for what is fetched; nobody else uses it
	Data   string // the data directory
	Store  *store.Store
	Logger *slog.Logger
	// Sources returns the nodes from which a part can be taken, the best first, and why
	// there is none.
	Sources func(ctx context.Context, part Part) ([]Source, error)
	// May reports whether the node follows others and has caught up with them.
	May func() bool
	// CopyState has the node copy the whole state of another one.
	CopyState func(reason string)
	Every     time.Duration // between two looks
}

// Part is what is healed at once: a shard, the series file of a database, or a database that
// does not open.
type Part struct {
	Database uint32
	Shard    uint64 // 0: it is the series file
	Unopened bool
}

// String names the part.
func (p Part) String() string {
	switch {
	case p.Unopened:
		return fmt.Sprintf("database %d", p.Database)
	case p.Shard == 0:
		return fmt.Sprintf("the series of database %d", p.Database)
	}
	return fmt.Sprintf("shard %d", p.Shard)
}

// Status is what is healed now, and what was.
type Status struct {
	Part      string // "" while nothing is
	From      string
	Bytes, Of int64
	Waiting   []string // parts that have damage
	Healed    int64    // parts, since the start
	Failures  int64    // tries
	Fetched   int64    // bytes
	Problem   string   // of the latest try, "" if it succeeded
}

// Healer heals a store. See the package comment.
type Healer struct {
	opt   Options
	tries map[Part]*try

	mu     sync.Mutex
	status Status
}

// try is when a part that could not be healed is tried again.
type try struct {
	failures int
	at       time.Time
}

// The waits between two tries.
const (
	firstWait = time.Second
	lastWait  = 5 * time.Minute
)

// New returns a healer. Run runs it.
func New(opt Options) *Healer { return &Healer{opt: opt, tries: map[Part]*try{}} }

// Status returns what is healed now, and what was.
func (h *Healer) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.status
	s.Waiting = slices.Clone(s.Waiting)
	return s
}

func (h *Healer) note(change func(s *Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.status)
}

// Run heals what there is to heal until ctx ends.
func (h *Healer) Run(ctx context.Context) {
	for {
		h.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(h.opt.Every):
		}
	}
}

// round tries all parts whose time has come.
func (h *Healer) round(ctx context.Context) {
	parts := Damaged(h.opt.Store, h.opt.Data)
	var waiting []string
	for _, p := range parts {
		waiting = append(waiting, p.String())
	}
	h.note(func(s *Status) {
		s.Waiting = waiting
		if len(parts) == 0 {
			s.Problem = ""
		}
	})
	maps.DeleteFunc(h.tries, func(p Part, _ *try) bool { return !slices.Contains(parts, p) })
	for _, p := range parts {
		t := h.tries[p]
		if t == nil {
			t = &try{}
			h.tries[p] = t
		}
		if ctx.Err() != nil || time.Now().Before(t.at) || !h.opt.May() {
			continue
		}
		err := h.heal(ctx, p)
		if ctx.Err() != nil {
			return
		}
		h.note(func(s *Status) { s.Part, s.From, s.Bytes, s.Of = "", "", 0, 0 })
		if err == nil {
			delete(h.tries, p)
			h.note(func(s *Status) { s.Problem = "" })
			continue
		}
		t.at = time.Now().Add(min(firstWait<<min(t.failures, 20), lastWait))
		t.failures++
		told := false
		h.note(func(s *Status) {
			s.Failures++
			text := fmt.Sprintf("%s could not be fetched from another node yet: %s", p, strings.ReplaceAll(err.Error(), "\n", "; "))
			told, s.Problem = s.Problem == text, text
		})
		if !told {
			h.opt.Logger.Warn("damage not healed yet, which is tried again", "part", p.String(), "err", err)
		}
	}
}

// Damaged returns the parts of a store that have damage, the newest shards first, behind the
// series that they need.
func Damaged(st *store.Store, data string) []Part {
	state := st.State()
	catalog := st.Catalog()
	places := maps.Collect(catalog.Shards())
	found := map[Part]bool{}
	note := func(file string) {
		database, shard := layout.Place(data, file)
		if catalog.DatabaseByID(database) == nil || shard != 0 && places[shard].Group == nil {
			return // dropped
		}
		found[Part{Database: database, Shard: shard}] = true
	}
	for _, q := range state.Quarantined {
		if q.Loss != repair.LossNone {
			note(q.Path)
		}
	}
	for _, d := range state.Damaged {
		note(d.Path)
	}
	for _, err := range state.Unopened {
		var refused *layout.RefusedError
		if errors.As(err, &refused) {
			if d := catalog.Database(refused.Database); d != nil {
				found[Part{Database: d.ID, Unopened: true}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Part) int {
		series := func(p Part) int { return min(int(p.Shard), 1) }
		return cmp.Or(series(a)-series(b), cmp.Compare(b.Shard, a.Shard), cmp.Compare(a.Database, b.Database))
	})
}

// heal heals a part from the first node that can.
func (h *Healer) heal(ctx context.Context, p Part) error {
	sources, err := h.opt.Sources(ctx, p)
	if err != nil {
		return err
	}
	var errs []error
	for _, from := range sources {
		h.note(func(s *Status) { s.Part, s.From = p.String(), from.Name })
		begin := time.Now()
		switch {
		case p.Unopened:
			h.opt.CopyState(p.String() + " does not open")
			return nil
		case p.Shard == 0:
			err = h.series(ctx, p, from)
		default:
			err = h.shard(ctx, p, from)
		}
		if err == nil {
			h.note(func(s *Status) { s.Healed++ })
			h.opt.Logger.Info("damage healed", "part", p.String(), "from", from.Name, "took", time.Since(begin))
			return nil
		}
		if errors.Is(err, series.ErrConflict) {
			h.opt.CopyState(fmt.Sprintf("%s has other series than %s: %v", p, from.Name, err))
			return err
		}
		errs = append(errs, fmt.Errorf("from %s: %w", from.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// take fetches a part of another node. The repository is removed afterwards.
func (h *Healer) take(ctx context.Context, from Source, f exchange.Filter, begun func(cut uint64) error, use func(r *backup.Repository, m *backup.Manifest) error) error {
	fsys, dir := h.opt.FS, path.Join(h.opt.Dir, "fetched")
	if err := errors.Join(fsys.RemoveAll(dir), fsys.MkdirAll(dir)); err != nil {
		return err
	}
	defer func() { _ = fsys.RemoveAll(h.opt.Dir) }() // the next one begins with it too
	r := backup.OpenRepository(fsys, dir)
	fetched := int64(0)
	taken, err := backup.Take(ctx, from.Client, r, backup.TakeOptions{Filter: f, Workers: 1, Begun: begun, Progress: func(p backup.Progress) {
		h.note(func(s *Status) {
			s.Bytes, s.Of = p.BytesDone, p.Bytes
			s.Fetched += p.BytesDone - fetched
		})
		fetched = p.BytesDone
	}})
	if err != nil {
		return err
	}
	_, m, err := r.Manifest(ctx, taken.Name)
	if err != nil {
		return err
	}
	return use(r, m)
}

// shard renews a shard.
func (h *Healer) shard(ctx context.Context, p Part, from Source) error {
	return h.opt.Store.RenewShard(ctx, p.Shard, func(ctx context.Context, begun func(cut uint64) error, use func(*renew.Files) error) error {
		return h.take(ctx, from, exchange.Filter{Shards: []uint64{p.Shard}}, begun, func(r *backup.Repository, m *backup.Manifest) error {
			f, err := filesOf(r, m, p.Shard, h.opt.Store.Catalog())
			if err != nil {
				return err
			}
			f.From = from.Name
			return use(f)
		})
	})
}

// filesOf returns the files of a shard in a backup. A shard that is not in it has none.
func filesOf(r *backup.Repository, m *backup.Manifest, id uint64, catalog *meta.Data) (*renew.Files, error) {
	f := &renew.Files{Cut: m.Sequence, Manifest: manifest.New(id, catalog.Lineage)}
	at := slices.IndexFunc(m.Shards, func(s backup.ShardManifest) bool { return s.ID == id })
	if at < 0 {
		return f, nil
	}
	var err error
	if f.Manifest, err = manifest.Decode(manifest.Name, m.Shards[at].Manifest); err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, file := range m.Shards[at].Files {
		paths[file.Name] = r.Object(file.Object)
	}
	for _, t := range f.Manifest.TSM {
		if paths[t.Name] == "" {
			return nil, fmt.Errorf("the backup lacks %s of shard %d", t.Name, id)
		}
	}
	f.Path = func(name string) string { return paths[name] }
	return f, nil
}

// seriesAtOnce is how many series are restored at a time.
const seriesAtOnce = 4096

// series gives a database the series of another node that it lacks.
func (h *Healer) series(ctx context.Context, p Part, from Source) error {
	d := h.opt.Store.Catalog().DatabaseByID(p.Database)
	if d == nil {
		return nil // dropped
	}
	return h.opt.Store.RepairSeries(p.Database, func(to *series.File, q *repair.Quarantine) error {
		losses := q.List()
		// No shard is of this time: the series come alone.
		nothing := exchange.Filter{Database: d.Name, Range: model.TimeRange{Min: model.MinTime, Max: model.MinTime}}
		err := h.take(ctx, from, nothing, nil, func(r *backup.Repository, _ *backup.Manifest) error {
			return h.restore(ctx, r, p.Database, to)
		})
		if err == nil {
			err = to.Sync()
		}
		if err != nil {
			return err
		}
		return q.Settle(losses, fmt.Sprintf("The series that %s has were fetched: nothing is lost.", from.Name))
	})
}

// restore gives a series file the series in a backup.
func (h *Healer) restore(ctx context.Context, r *backup.Repository, database uint32, to *series.File) error {
	dir := path.Join(h.opt.Dir, "placed")
	if _, err := backup.Place(ctx, r, dir, backup.RestoreOptions{Link: true}); err != nil {
		return err
	}
	dir = path.Join(dir, layout.DatabaseDir(database), "series")
	owner, err := series.ReadOwner(h.opt.FS, dir)
	if err != nil {
		return err
	}
	f, err := series.Open(h.opt.FS, dir, series.Options{Identity: owner, Logger: h.opt.Logger})
	if err != nil {
		return err
	}
	next := f.NextID()
	var ids []model.SeriesID
	var keys []string
	for id := model.SeriesID(1); id < next && err == nil; id++ {
		var key string
		if key, err = f.Key(id); err == nil {
			ids, keys = append(ids, id), append(keys, key)
		} else if errors.Is(err, series.ErrNotFound) {
			err = nil
		}
		if err == nil && (len(ids) == seriesAtOnce || id+1 == next) {
			err = cmp.Or(to.RestoreAll(ids, keys), ctx.Err())
			ids, keys = ids[:0], keys[:0]
		}
	}
	if err == nil {
		to.Reserve(uint64(next))
	}
	return errors.Join(err, f.Close())
}
