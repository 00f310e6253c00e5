package scrub

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard"
	"tsdbd/shard/repair"
	"tsdbd/store/figures"
	"tsdbd/store/layout"
)

// Store is what a Service uses of a store.
type Store interface {
	Catalog() *meta.Data
	State() figures.State
	// CheckMeta checks the files in meta, and rewrites damaged ones.
	CheckMeta() (damage []error, err error)
	OpenShard(id uint64) (sh *shard.Shard, release func(), err error)
	// RepairSeries has the series file repaired for which do finds damage.
	RepairSeries(database uint32, do func(*series.File, *repair.Quarantine) error) error
	FlushSoon()
}

// Options configure a Service. Store and Dir are required.
type Options struct {
	Store    Store
	Dir      string        // the data directory
	Interval time.Duration // in which every part is checked; 0: only when Start says so
	Log      bool          // the directory has the log of a single node
	Heals    bool          // other nodes heal damage
	FS       vfs.FS        // default vfs.OS
	Logger   *slog.Logger  // nil discards
	// Now and Sleep are the clock. Sleep ends early with ctx.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration)
}

const (
	// lowestRate is the least number of bytes a second that are read while parts are due.
	lowestRate = 1 << 20
	// idle is the time between two looks at which parts are due.
	idle = 10 * time.Second
	// The waits before a file with damage is read again: it may have been healed. What could
	// not be read is read again after the last of them.
	firstAgain, lastAgain = time.Second, 5 * time.Minute
	// maxDamage is how many damaged files are listed.
	maxDamage = 256
	// saveEvery is the least time between two writes of the file of Service.save.
	saveEvery = time.Minute
)

// Service checks a store. See the package comment.
type Service struct {
	opt    Options
	pacer  pacer
	wake   chan struct{}
	saved  time.Time // when save was called last
	fresh  bool      // checked has what the file lacks
	repeat time.Time // when the first of again is to be read; zero: none

	mu struct {
		sync.Mutex
		checked  map[string]time.Time // when the last check of each part began
		asked    bool                 // by Start; until left has all parts
		left     map[Part]bool        // of those that Start has asked for
		part     string               // that is read; "": none is
		size     int64                // of all shards
		started  time.Time            // when Start was called
		before   int64                // bytes that had been read then
		damage   []Damage
		again    map[Part]again
		problems map[string]string
		found    int64 // damaged files, since the server's start
		failures int64
	}
}

// again is when files of a part are read again that were damaged or could not be read.
type again struct {
	at    time.Time
	wait  time.Duration   // that is over then, after damage
	begun time.Time       // when the last look at the whole part began
	files map[string]bool // nil: all
}

// job is a part that is due.
type job struct {
	Part
	again // zero if there is none
	whole bool
}

// New returns a service. Run runs it.
func New(opt Options) *Service {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Service{opt: opt, wake: make(chan struct{}, 1)}
	if s.opt.Sleep == nil {
		s.opt.Sleep = s.sleep
	}
	s.pacer = pacer{rate: s.rate, sleep: s.opt.Sleep}
	s.mu.checked, s.mu.again, s.mu.problems = map[string]time.Time{}, map[Part]again{}, map[string]string{}
	return s
}

// sleep waits until d is over, ctx ends, or Start is called.
func (s *Service) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.wake:
	}
}

// Start begins to read all parts now, as fast as the disk allows. It has no effect if such a
// pass is running already.
func (s *Service) Start() {
	s.mu.Lock()
	if !s.runningLocked() {
		s.mu.asked, s.mu.started, s.mu.before = true, s.opt.Now(), s.pacer.read.Load()
		s.mu.damage = slices.DeleteFunc(s.mu.damage, func(d Damage) bool { return d.Healed })
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// runningLocked reports whether a pass that Start has asked for is not finished. s.mu is held.
func (s *Service) runningLocked() bool { return s.mu.asked || len(s.mu.left) > 0 }

// Run checks what is due until ctx ends.
func (s *Service) Run(ctx context.Context) {
	s.load()
	for ctx.Err() == nil {
		if s.round(ctx) {
			continue
		}
		wait := idle
		if !s.repeat.IsZero() {
			wait = min(idle, max(firstAgain, s.repeat.Sub(s.opt.Now())))
		}
		s.opt.Sleep(ctx, wait)
	}
	if s.fresh {
		s.save()
	}
}

// rate returns how many bytes a second are read now, 0 for no bound: all parts that fall
// due together take half of the time until they have to be done.
func (s *Service) rate() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runningLocked() {
		return 0
	}
	return max(lowestRate, int64(float64(s.mu.size)*4/max(s.opt.Interval.Seconds(), 1)))
}

// parts returns all parts that there are, and the bytes of the shards.
func (s *Service) parts() (all []Part, size int64) {
	all = append(all, Part{})
	if s.opt.Log {
		all = append(all, Part{Log: true})
	}
	for _, d := range s.opt.Store.Catalog().Databases {
		all = append(all, Part{Database: d.ID})
		for id := range d.Shards() {
			if sh, release, err := s.opt.Store.OpenShard(id); err == nil {
				bytes, _ := sh.DiskBytes()
				size += bytes
				release()
				all = append(all, Part{Database: d.ID, Shard: id})
			}
		}
	}
	return all, size
}

// reported returns the parts that the store says have damage.
func (s *Service) reported() map[Part]bool {
	out := map[Part]bool{}
	note := func(file string) {
		database, shard := layout.Place(s.opt.Dir, file)
		out[Part{Database: database, Shard: shard}] = true
	}
	state := s.opt.Store.State()
	for _, q := range state.Quarantined {
		if q.Loss != repair.LossNone {
			note(q.Path)
		}
	}
	for _, d := range state.Damaged {
		note(d.Path)
	}
	return out
}

// round checks the parts that are due, until one is to be read again. It reports whether
// there was any.
func (s *Service) round(ctx context.Context) bool {
	parts, size := s.parts()
	due := s.due(parts, size, s.reported())
	for _, j := range due {
		s.saveSoon()
		if s.check(ctx, j); ctx.Err() != nil || !s.repeat.IsZero() && !s.opt.Now().Before(s.repeat) {
			return true
		}
	}
	s.saveSoon()
	return len(due) > 0
}

// due returns the parts that are due: first those to be read again, then the one whose check
// was longest ago. A part that it meets first counts as checked now. What the store has
// reported is not read again before it is healed.
func (s *Service) due(parts []Part, size int64, reported map[Part]bool) (due []job) {
	now := s.opt.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.size = size
	if s.mu.asked {
		s.mu.asked, s.mu.left = false, map[Part]bool{}
		for _, p := range parts {
			s.mu.left[p] = true
		}
	}
	names := map[string]bool{}
	s.repeat = time.Time{}
	for _, p := range parts {
		name := p.String()
		names[name] = true
		at, known := s.mu.checked[name]
		if !known {
			at, s.fresh = now, true
			s.mu.checked[name] = at
		}
		a, damaged := s.mu.again[p]
		if a.begun.After(at) {
			at = a.begun
		}
		whole := s.mu.left[p] || s.opt.Interval > 0 && !now.Before(at.Add(s.opt.Interval/2))
		damaged = damaged && !reported[p]
		if whole || damaged && !now.Before(a.at) {
			due = append(due, job{p, a, whole})
		}
		if damaged && (s.repeat.IsZero() || a.at.Before(s.repeat)) {
			s.repeat = a.at
		}
	}
	// What was dropped has no damage any more.
	gone := func(name string) bool { return !names[name] }
	maps.DeleteFunc(s.mu.checked, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(s.mu.problems, func(name, _ string) bool { return gone(name) })
	maps.DeleteFunc(s.mu.left, func(p Part, _ bool) bool { return gone(p.String()) })
	maps.DeleteFunc(s.mu.again, func(p Part, _ again) bool { return gone(p.String()) })
	s.mu.damage = slices.DeleteFunc(s.mu.damage, func(d Damage) bool { return gone(d.Part) })
	slices.SortFunc(due, func(a, b job) int {
		x, y := a.String(), b.String()
		return cmp.Or(order(a.whole, b.whole), s.mu.checked[x].Compare(s.mu.checked[y]), cmp.Compare(x, y))
	})
	return due
}

// order has false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// check checks a part, or files of it, and notes what it has found.
func (s *Service) check(ctx context.Context, j job) {
	begin, name := s.opt.Now(), j.String()
	s.mu.Lock()
	s.mu.part = name
	s.mu.Unlock()
	next := again{begun: begin, files: map[string]bool{}}
	var found []Damage
	var errs []error
	c := check{ctx: ctx, dir: s.opt.Dir, store: s.opt.Store, disk: s.opt.FS}
	c.fs = pacedFS{s.opt.FS, func(bytes int) error { return s.pacer.pace(ctx, bytes) }}
	c.damaged = func(err error, mended bool) {
		at := damageAt(err)
		found = append(found, Damage{Part: name, At: begin, Path: cmp.Or(at.Path, name), Offset: at.Offset, Reason: at.Reason, Healed: mended})
		if !mended {
			next.files[at.Path] = true
		}
	}
	c.failed = func(file string, err error) {
		next.files[file] = true
		errs = append(errs, err)
	}
	if !j.whole {
		next.begun, c.only = j.begun, j.files
	}
	err := c.part(j.Part)
	if err != nil {
		next.files = nil // or more than these were not read
	}
	err = errors.Join(append(errs, err)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.part = ""
	if ctx.Err() != nil {
		return
	}
	delete(s.mu.left, j.Part)
	if err != nil {
		if s.mu.problems[name] != err.Error() {
			s.opt.Logger.Warn("data not checked, which is tried again", "path", name, "err", err)
		}
		s.mu.problems[name] = err.Error()
		s.mu.failures++
		next.at = s.opt.Now().Add(lastAgain)
	} else {
		s.mu.checked[name], s.fresh = next.begun, true
		delete(s.mu.problems, name)
		next.wait = max(firstAgain, min(2*j.wait, lastAgain))
		next.at = s.opt.Now().Add(next.wait)
	}
	if s.noteLocked(name, found, err == nil) && j.Log {
		s.opt.Store.FlushSoon()
	}
	if err == nil && len(next.files) == 0 {
		delete(s.mu.again, j.Part)
		return
	}
	s.mu.again[j.Part] = next
	if s.repeat.IsZero() || next.at.Before(s.repeat) {
		s.repeat = next.at
	}
}

// noteLocked notes what a check of a part has found, and reports whether there is something
// new. What it has not found, although all was read, is healed. s.mu is held.
func (s *Service) noteLocked(part string, found []Damage, whole bool) bool {
	for i := range s.mu.damage {
		d := &s.mu.damage[i]
		if d.Part != part || d.Healed {
			continue
		}
		k := slices.IndexFunc(found, func(f Damage) bool { return f.Path == d.Path && f.Offset == d.Offset })
		if k < 0 {
			d.Healed = whole
			continue
		}
		d.Healed = found[k].Healed
		found = slices.Delete(found, k, k+1)
	}
	for _, d := range found {
		s.opt.Logger.Error("damage found at rest", "path", d.Path, "offset", d.Offset, "err", d.Reason, "mended", d.Healed)
	}
	s.mu.found += int64(len(found))
	s.mu.damage = append(s.mu.damage, found...)
	s.mu.damage = s.mu.damage[max(0, len(s.mu.damage)-maxDamage):]
	return len(found) > 0
}
