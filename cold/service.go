package cold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"tsdbd/backup"
	"tsdbd/cold/names"
	"tsdbd/cold/states"
	"tsdbd/internal/coldcache"
	"tsdbd/internal/object"
	"tsdbd/internal/object/place"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/retention"
	"tsdbd/shard"
	"tsdbd/shard/tails"
	"tsdbd/store/merges"
)

// Store is what the service needs of a store.
type Store interface {
	states.Source
	OpenShard(id uint64) (sh *shard.Shard, release func(), err error)
}

// Options configure a Service. Store, Objects, Place, Dir and ID are required.
type Options struct {
	Store   Store
	Objects object.Store
	Place   place.Place
	ID      string // of the server or the cluster: whose the cold store is
	Node    string // of the server in it
	FS      vfs.FS // default vfs.OS
	Dir     string // of this package, in the data directory; it need not exist
	// Waits returns an error if a shard group must stay until downsamples are computed.
	Waits func(c meta.DropShardGroup, data *meta.Data) error
	// After is how long after its end a shard goes to the store whose policy has no age of its
	// own; 0: none does.
	After time.Duration
	// PurgeAfter is the time between two looks for deleted rows in the store.
	PurgeAfter time.Duration
	// Grace is how long an object stays that nobody needs.
	Grace  time.Duration
	Rate   int64 // bytes per second of uploads; 0: no bound
	Cache  func() coldcache.Stats
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil: time.Now
	// Every is the time between two looks for shards; default 1 min.
	Every time.Duration
	// Leads returns the term of the leader of the cluster, if this node is it; nil: a single
	// server. The leader publishes for readers.
	Leads func() (term uint64, leads bool)
}

// Service keeps the cold store. See the package comment.
type Service struct {
	opt     Options
	pacer   merges.Pacer
	working chan struct{} // has one element during a round, and what a request asks for

	mu struct {
		sync.Mutex
		Counters
		intends   map[string]bool // objects that are uploaded, or due to be
		published []string        // the list of this node in the store
		known     bool            // published is it
		claimed   bool            // the store is the owner's
		failed    error           // of the last round or sweep, nil if it was well
		state     state
	}
	// Of rounds.
	next   time.Time       // of the next sweep
	looked bool            // the store has no list of this node
	errs   int64           // of the cache, at the last look
	number uint64          // of the owner, see names.Claim
	lost   map[uint64]loss // shards whose deleted rows cannot leave the store; also of requests
	states *states.Publisher
}

// loss is why deleted rows of a shard cannot leave the store, and when that was found.
type loss struct {
	err error
	at  time.Time
}

// Counters are what the service did since it was opened.
type Counters struct {
	Uploads        int64 `json:"uploads"`
	UploadedBytes  int64 `json:"uploaded_bytes"`
	UploadFailures int64 `json:"upload_failures"`
	Shards         int64 `json:"shards_uploaded"`
	Purges         int64 `json:"shards_purged"`
	Removed        int64 `json:"objects_removed"`
}

// state is kept in the directory of the service.
type state struct {
	// Unneeded has the objects that nobody needs, and since when that is known.
	Unneeded map[string]time.Time `json:"unneeded"`
	Purged   time.Time            `json:"purged"` // when deleted rows were looked for
	// Returns has the shards that a purge wrote again. Whatever their age is, they go to the store
	// again.
	Returns map[uint64]bool `json:"returns,omitempty"`
}

// New returns a service. Run runs it.
func New(opt Options) *Service {
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Every <= 0 {
		opt.Every = time.Minute
	}
	if opt.Waits == nil {
		opt.Waits = func(meta.DropShardGroup, *meta.Data) error { return nil }
	}
	if opt.Leads == nil {
		opt.Leads = func() (uint64, bool) { return 0, true }
	}
	s := &Service{opt: opt, working: make(chan struct{}, 1), lost: map[uint64]loss{}}
	s.pacer.Rate.Store(opt.Rate)
	s.states = states.New(states.Options{Store: opt.Store, Objects: opt.Objects, FS: opt.FS, Pace: s.pacer.Pace, Now: opt.Now})
	s.mu.intends = map[string]bool{}
	s.load()
	return s
}

// Objects returns the cold store.
func (s *Service) Objects() object.Store { return s.opt.Objects }

func (s *Service) statePath() string { return path.Join(s.opt.Dir, "state.json") }

// load reads the state. Without it the times of grace begin again.
func (s *Service) load() {
	s.mu.state = state{Unneeded: map[string]time.Time{}, Purged: s.opt.Now(), Returns: map[uint64]bool{}}
	b, err := vfs.ReadFile(s.opt.FS, s.statePath())
	if errors.Is(err, object.ErrNotFound) {
		return
	}
	st := state{}
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		s.opt.Logger.Warn("state of the cold store not read, times of grace begin again", "path", s.statePath(), "err", err)
		return
	}
	s.mu.state.Purged = st.Purged
	if st.Unneeded != nil {
		s.mu.state.Unneeded = st.Unneeded
	}
	if st.Returns != nil {
		s.mu.state.Returns = st.Returns
	}
}

// save writes the state. While there are losses, the next start looks for deleted rows at once
// and finds them again.
func (s *Service) save() error {
	s.mu.Lock()
	st := s.mu.state
	if len(s.lost) > 0 {
		st.Purged = time.Time{}
	}
	b, err := json.Marshal(st)
	s.mu.Unlock()
	if err == nil {
		err = s.opt.FS.MkdirAll(s.opt.Dir)
	}
	if err == nil {
		err = vfs.WriteFileAtomic(s.opt.FS, s.opt.Dir, s.statePath(), b)
	}
	return err
}

// returns reports whether a shard goes to the store again whatever its age is.
func (s *Service) returns(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state.Returns[id]
}

// setReturns sets what returns reports of a shard.
func (s *Service) setReturns(id uint64, returns bool) error {
	if s.returns(id) == returns {
		return nil
	}
	s.mu.Lock()
	if returns {
		s.mu.state.Returns[id] = true
	} else {
		delete(s.mu.state.Returns, id)
	}
	s.mu.Unlock()
	return s.save()
}

// Run keeps the store until ctx ends.
func (s *Service) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		_ = s.alone(ctx, func() error {
			if err := s.round(ctx); ctx.Err() == nil {
				s.note(err)
			}
			return nil
		})
		timer.Reset(s.opt.Every)
	}
}

// alone calls f while no other call of alone runs. Uploads take long: it waits until ctx ends.
func (s *Service) alone(ctx context.Context, f func() error) error {
	select {
	case s.working <- struct{}{}:
		defer func() { <-s.working }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note keeps how a round, or a sweep that was asked for, went, and logs when that changes.
func (s *Service) note(err error) {
	s.mu.Lock()
	before := s.mu.failed
	s.mu.failed = err
	s.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.opt.Logger.Error("cold store not kept, which is tried again", "err", err)
	case err == nil && before != nil:
		s.opt.Logger.Info("cold store is kept again")
	}
}

// Health returns why the store cannot be used, "" if it can.
func (s *Service) Health() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.failed == nil {
		return ""
	}
	return fmt.Sprintf("cold store %s: %v", s.opt.Place, s.mu.failed)
}

// round does what is due.
func (s *Service) round(ctx context.Context) error {
	now := s.opt.Now()
	err := s.chill(ctx, now)
	if used, e := s.used(ctx); !used || e != nil {
		return errors.Join(err, e)
	}
	if e := s.look(ctx); e != nil {
		return errors.Join(err, e)
	}
	s.mu.Lock()
	purge := now.Sub(s.mu.state.Purged) >= s.opt.PurgeAfter
	s.mu.Unlock()
	if purge {
		if _, e := s.purge(ctx, false); e != nil {
			err = errors.Join(err, e)
		}
	}
	err = errors.Join(err, s.losses())
	if e := s.publishState(ctx); e != nil {
		err = errors.Join(err, e)
	}
	if !now.Before(s.next) {
		if _, e := s.sweep(ctx); e != nil && !names.InUse(e) {
			return errors.Join(err, e)
		}
		s.next = now.Add(min(max(s.opt.Grace/4, time.Minute), 6*time.Hour))
	}
	return err
}

// publishState publishes the cold shards for readers, if they have changed.
func (s *Service) publishState(ctx context.Context) error {
	term, leads := s.opt.Leads()
	if !leads {
		return nil
	}
	if err := s.states.Load(ctx); err != nil {
		return err
	}
	shards := map[uint64]states.Edition{}
	err := s.each(ctx, func(at meta.ShardLocation, sh *shard.Shard) error {
		// A shard that is written again without deleted rows is local for a while.
		if h := sh.Cold(); h.Bytes > 0 || (at.Policy.ColdAge(s.opt.After) > 0 || s.returns(sh.ID())) && s.states.Has(sh.ID()) {
			shards[sh.ID()] = states.Edition{Manifest: h.Edition, Dirty: h.Dirty}
		}
		return nil
	})
	if err != nil || !s.states.Due(shards) {
		return err
	}
	return s.states.Publish(ctx, term, shards, func(put func(owner uint64) error) error {
		lock, err := s.lock(ctx)
		if err != nil {
			return err
		}
		if err = s.claim(ctx); err == nil {
			err = put(s.number)
		}
		return errors.Join(err, lock.Close())
	})
}

// used reports whether this node has, or had, objects in the store.
func (s *Service) used(ctx context.Context) (bool, error) {
	if h, err := s.held(ctx); h.Bytes > 0 || s.claimed() || err != nil {
		return true, err
	}
	if s.looked {
		return false, nil
	}
	listed, err := s.listed(ctx)
	s.looked = err == nil && !listed
	return listed, err
}

// look brings the list up to date, and sees whether the store is there if anything failed
// lately. While all is well and nothing changes there is no request.
func (s *Service) look(ctx context.Context) error {
	s.mu.Lock()
	failed := s.mu.failed != nil
	s.mu.Unlock()
	if s.opt.Cache != nil {
		errs := s.opt.Cache().Errors
		failed = failed || errs > s.errs
		s.errs = errs
	}
	if failed {
		if err := s.verifyOwner(ctx); err != nil {
			return err
		}
	}
	return s.publish(ctx)
}

// each calls fn with every shard. One that does not open, or for which fn fails, does not keep it
// from the others, but the end of ctx and a store that cannot be used do.
func (s *Service) each(ctx context.Context, fn func(at meta.ShardLocation, sh *shard.Shard) error) error {
	return s.eachOf(ctx, func(uint64) bool { return true }, fn)
}

// eachOf is each for the shards that want chooses. It opens no other one.
func (s *Service) eachOf(ctx context.Context, want func(id uint64) bool, fn func(at meta.ShardLocation, sh *shard.Shard) error) error {
	var errs []error
	for id, at := range s.opt.Store.Catalog().Shards() {
		if !want(id) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		sh, release, err := s.opt.Store.OpenShard(id)
		if errors.Is(err, meta.ErrShardNotFound) {
			continue // it has no points, or was dropped
		}
		if err == nil {
			err = fn(at, sh)
			release()
		}
		if err != nil {
			errs = append(errs, err)
		}
		if errors.Is(err, object.ErrUnreachable) || errors.Is(err, object.ErrRefused) || errors.Is(err, names.ErrForeign) {
			break
		}
	}
	return errors.Join(errs...)
}

// held returns the objects that the shards need, and their bytes. Of a shard that does not
// open they are not known, which is an error.
func (s *Service) held(ctx context.Context) (all tails.Held, err error) {
	err = s.each(ctx, func(_ meta.ShardLocation, sh *shard.Shard) error {
		h := sh.Cold()
		all.Bytes += h.Bytes
		all.Cold = append(all.Cold, h.Cold...)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("what the cold store must keep is not known: %w", err)
	}
	return all, err
}

// chill brings the shards to the store that are due. The list of this node gets the names of all
// of them at once.
func (s *Service) chill(ctx context.Context, now time.Time) error {
	data, due := s.opt.Store.Catalog(), map[uint64]bool{}
	s.mu.Lock()
	maps.DeleteFunc(s.mu.state.Returns, func(id uint64, _ bool) bool { _, there := data.Shard(id); return !there })
	s.mu.Unlock()
	var intends []string
	for id, at := range data.Shards() {
		if s.due(data, id, at, now) {
			due[id] = true
		}
	}
	isDue := func(id uint64) bool { return due[id] }
	_ = s.eachOf(ctx, isDue, func(_ meta.ShardLocation, sh *shard.Shard) error { // what fails does so again below
		for _, f := range sh.Cold().Local {
			intends = append(intends, f.Object())
		}
		return nil
	})
	s.mu.Lock()
	s.mu.intends = map[string]bool{}
	s.mu.Unlock()
	if !s.intend(intends) {
		if err := s.publish(ctx); err != nil {
			return err
		}
	}
	return s.eachOf(ctx, isDue, func(at meta.ShardLocation, sh *shard.Shard) error {
		did, err := s.Chill(ctx, sh)
		if did {
			s.mu.Lock()
			s.mu.Shards++
			s.mu.Unlock()
			s.opt.Logger.Info("shard is cold", "db", at.Database.Name, "rp", at.Policy.Name, "shard", sh.ID())
		}
		if err == nil && len(sh.Cold().Local) == 0 {
			err = s.setReturns(sh.ID(), false)
		}
		return err
	})
}

// Chill brings a shard to the store, and reports whether it did. The list of this node has the
// files first. It is written while the shard is free for others: what else it must have is known
// once all shards are open.
func (s *Service) Chill(ctx context.Context, sh *shard.Shard) (did bool, err error) {
	did, err = sh.Chill(ctx, s)
	if errors.Is(err, errUnlisted) { // the files are merged ones
		if err = s.publish(ctx); err == nil {
			did, err = sh.Chill(ctx, s)
		}
	}
	return did, err
}

// due reports whether a shard is old enough for its policy, or else for the server, or was in the
// store until a purge, and nothing waits for its rows.
func (s *Service) due(data *meta.Data, id uint64, at meta.ShardLocation, now time.Time) bool {
	if !s.old(at, now) && !s.returns(id) || retention.Expired(at.Policy, at.Group, now) {
		return false
	}
	return s.opt.Waits(meta.DropShardGroup{Database: at.Database.Name, RetentionPolicy: at.Policy.Name, ID: at.Group.ID}, data) == nil
}

// old reports whether a shard is old enough for its policy, or else for the server.
func (s *Service) old(at meta.ShardLocation, now time.Time) bool {
	age := at.Policy.ColdAge(s.opt.After)
	return age > 0 && at.Group.End <= now.UnixNano()-int64(age)
}

// purge has deleted rows leave the store. A shard that lacks an object there is tried again after
// PurgeAfter, or at once if all is set. Until then losses tells of it.
func (s *Service) purge(ctx context.Context, all bool) (shards int, err error) {
	begin := s.opt.Now()
	tried := func(id uint64) bool {
		l, lost := s.lost[id]
		return !lost || all || begin.Sub(l.at) >= s.opt.PurgeAfter
	}
	err = s.eachOf(ctx, tried, func(at meta.ShardLocation, sh *shard.Shard) error {
		// What is written again is local. A crash must not forget that it goes to the store, if its
		// age does not bring it there.
		before, returns := sh.Cold().Bytes, s.returns(sh.ID())
		noted := before > 0 && !s.old(at, begin)
		if noted {
			if err := s.setReturns(sh.ID(), true); err != nil {
				return err
			}
		}
		did, err := sh.Purge(ctx)
		if err == nil {
			delete(s.lost, sh.ID())
		}
		if h := sh.Cold(); h.Bytes < before && len(h.Local) > 0 {
			err = errors.Join(err, s.setReturns(sh.ID(), true))
		} else if noted && err == nil {
			err = s.setReturns(sh.ID(), returns)
		}
		if did {
			shards++
			s.mu.Lock()
			s.mu.Purges++
			s.mu.Unlock()
			s.opt.Logger.Info("deleted rows taken out of a cold shard", "db", at.Database.Name, "rp", at.Policy.Name, "shard", sh.ID())
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		missing, e := s.missing(ctx, sh)
		if missing {
			s.lost[sh.ID()] = loss{fmt.Errorf("deleted rows of shard %d stay in the store: %w: %w", sh.ID(), e, err), begin}
			return nil
		}
		return errors.Join(err, e) // e tells whether the store can be used
	})
	if err == nil {
		s.mu.Lock()
		s.mu.state.Purged = begin
		s.mu.Unlock()
	}
	if err == nil || len(s.lost) > 0 {
		err = errors.Join(err, s.save())
	}
	return shards, err
}

// missing looks for the objects of a shard. It reports whether the store lacks one, or has it with
// another size, which err names then.
func (s *Service) missing(ctx context.Context, sh *shard.Shard) (missing bool, err error) {
	held := sh.Cold().Cold
	for i := range held {
		if missing, err = s.stat(ctx, &held[i]); err != nil {
			return missing, err
		}
	}
	return false, nil
}

// losses returns why deleted rows of shards cannot leave the store, nil if they can.
func (s *Service) losses() error {
	var errs []error
	data := s.opt.Store.Catalog()
	for _, id := range slices.Sorted(maps.Keys(s.lost)) {
		if _, there := data.Shard(id); !there {
			delete(s.lost, id)
			continue
		}
		errs = append(errs, s.lost[id].err)
	}
	return errors.Join(errs...)
}

func (s *Service) claimed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.claimed
}

// claim makes sure that the store is the owner's and that its list has what it needs. The
// first time nobody may remove objects meanwhile: who prunes backups looks for lists then.
func (s *Service) claim(ctx context.Context) error {
	if known, err := s.listed(ctx); err != nil {
		return err
	} else if !known {
		if err := s.sameStore(ctx); err != nil {
			return err
		}
		lock, _, err := backup.Guard(ctx, s.opt.Objects, s.opt.FS, s.opt.Place.Dir, s.owner(), s.opt.ID+"/"+s.opt.Node)
		if err != nil {
			return fmt.Errorf("begin to use the cold store: %w", err)
		}
		return errors.Join(s.own(ctx), lock.Close())
	}
	return s.own(ctx)
}

// own makes sure that the store is the owner's, and writes the list.
func (s *Service) own(ctx context.Context) error {
	if err := s.verifyOwner(ctx); err != nil {
		return err
	}
	return s.write(ctx)
}

// listed reports whether the store has a list of this node, or is about to.
func (s *Service) listed(ctx context.Context) (bool, error) {
	if s.claimed() {
		return true, nil
	}
	nodes, err := names.Nodes(ctx, s.opt.Objects)
	return slices.Contains(nodes, s.opt.Node), err
}

// verifyOwner returns an ErrForeign if the store is that of another server.
func (s *Service) verifyOwner(ctx context.Context) error {
	return s.claimOwner(ctx, false)
}

// sameStore returns an ErrForeign if the store is nobody's and lacks what this server has there.
func (s *Service) sameStore(ctx context.Context) error {
	if id, err := names.OwnerID(ctx, s.opt.Objects); id != "" || err != nil {
		return err
	}
	h, err := s.held(ctx)
	if err != nil || len(h.Cold) == 0 {
		return err
	}
	missing, err := s.stat(ctx, &h.Cold[0])
	if missing {
		err = fmt.Errorf("%w: nobody owns it, and what this server has in its own is not there: mount the disk, mend cold.url, or use tsdbd cold claim if the objects are lost: %w", names.ErrForeign, err)
	}
	return err
}

// claimOwner makes the store the owner's, if it is nobody's or take is set.
func (s *Service) claimOwner(ctx context.Context, take bool) (err error) {
	if !take {
		if err := s.sameStore(ctx); err != nil {
			return err
		}
	}
	s.number, err = names.Claim(ctx, s.opt.Objects, names.Owner{ID: s.opt.ID, Node: s.opt.Node, Since: s.opt.Now().UTC()}, take)
	return err
}

// publish puts what this node needs, and is about to upload, into its list, unless that has
// it.
func (s *Service) publish(ctx context.Context) error {
	if _, same, err := s.wanted(ctx); same || err != nil {
		return err
	}
	return s.claim(ctx)
}

// wanted returns what the list is to have, and whether it is known to have that.
func (s *Service) wanted(ctx context.Context) (objects []string, same bool, err error) {
	h, err := s.held(ctx)
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range h.Cold {
		objects = append(objects, f.Object())
	}
	objects = slices.AppendSeq(objects, maps.Keys(s.mu.intends))
	slices.Sort(objects)
	objects = slices.Compact(objects)
	return objects, s.mu.known && slices.Equal(objects, s.mu.published), nil
}

// write writes the list if it is not as it should be.
func (s *Service) write(ctx context.Context) error {
	objects, same, err := s.wanted(ctx)
	if err != nil {
		return err
	}
	if !same {
		s.mu.Lock()
		s.mu.known = false
		s.mu.Unlock()
		if err := names.Publish(ctx, s.opt.Objects, s.opt.Node, objects); err != nil {
			return fmt.Errorf("publish what this node needs: %w", err)
		}
	}
	if !s.claimed() {
		if err := names.Forget(ctx, s.opt.Objects, names.Restored(s.opt.Store.Catalog().Lineage.String())); err != nil {
			return fmt.Errorf("remove the list of the restored directory: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.published, s.mu.known, s.mu.claimed = objects, true, true
	return nil
}

// sweep removes the objects that nobody has needed for the time of grace. It returns how
// many.
func (s *Service) sweep(ctx context.Context) (removed int, err error) {
	guard, needed, err := backup.Guard(ctx, s.opt.Objects, s.opt.FS, s.opt.Place.Dir, s.owner(), s.opt.ID+"/"+s.opt.Node)
	if err != nil {
		return 0, fmt.Errorf("sweep the cold store: %w", err)
	}
	defer func() { err = errors.Join(err, guard.Close()) }()
	lock, err := s.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := s.own(ctx); err != nil {
		return 0, err
	}
	all, err := names.All(ctx, s.opt.Objects)
	if err != nil {
		return 0, fmt.Errorf("sweep the cold store: %w", err)
	}
	maps.Copy(needed, all)
	if err := backup.NeededByStates(ctx, s.opt.Objects, needed); err != nil {
		return 0, fmt.Errorf("sweep the cold store: %w", err)
	}
	infos, err := s.opt.Objects.List(ctx, names.Objects)
	if err != nil {
		return 0, fmt.Errorf("sweep the cold store: %w", err)
	}
	now, unneeded := s.opt.Now(), map[string]time.Time{}
	var old []string
	for _, i := range infos {
		name := path.Base(i.Name)
		if needed[name] {
			continue
		}
		s.mu.Lock()
		first, ok := s.mu.state.Unneeded[name]
		s.mu.Unlock()
		if !ok || first.After(now) {
			first = now
		}
		unneeded[name] = first
		if now.Sub(first) < s.opt.Grace {
			continue
		}
		info, err := s.opt.Objects.Stat(ctx, i.Name)
		if errors.Is(err, object.ErrNotFound) || err == nil && info.Age < s.opt.Grace {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("sweep the cold store: %w", err)
		}
		old = append(old, i.Name)
	}
	for some := range slices.Chunk(old, sweepStep) {
		if err := errors.Join(guard.Held(), lock.Held()); err != nil {
			return removed, fmt.Errorf("sweep the cold store: %w", err)
		}
		if err := s.opt.Objects.Delete(ctx, some...); err != nil {
			return removed, fmt.Errorf("sweep the cold store: %w", err)
		}
		for _, name := range some {
			delete(unneeded, path.Base(name))
		}
		removed += len(some)
	}
	s.mu.Lock()
	s.mu.state.Unneeded = unneeded
	s.mu.Removed += int64(removed)
	s.mu.Unlock()
	if removed > 0 {
		s.opt.Logger.Info("objects removed that nobody needs", "objects", removed)
	}
	return removed, s.save()
}

// sweepStep is how many objects are removed before the locks are looked at again.
const sweepStep = 500
