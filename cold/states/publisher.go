package states

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"tsdbd/backup"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store"
)

// Source is what a Publisher needs of a store.
type Source interface {
	Catalog() *meta.Data
	Backup(ctx context.Context, want func(*meta.Database, *meta.RetentionPolicy, *meta.ShardGroup, uint64) bool) (*store.BackupSet, error)
}

// Options configure a Publisher. All but Pace and Now are required.
type Options struct {
	Store   Source
	Objects object.Store
	FS      vfs.FS
	Pace    func(ctx context.Context, bytes int) error // of uploads; nil: none
	Now     func() time.Time                           // nil: time.Now
}

const (
	// catalogEvery is how often a change of the catalog alone is published: it changes
	// with each run of a continuous query.
	catalogEvery = 10 * time.Minute
	// keptFor is how long a state stays after a newer one. Readers look for a new one more often.
	keptFor = 10 * time.Minute
)

// Publisher publishes the cold shards of a server. It is used by one goroutine.
type Publisher struct {
	opt     Options
	shards  map[uint64]Edition // as published last; nil before Load
	catalog *meta.Data         // as published last by this process
	at      time.Time
	have    map[string]bool  // objects of the state published last by this process
	old     map[ID]time.Time // states that a newer one has followed, and since when
}

// Edition tells states of a shard apart.
type Edition struct {
	Manifest uint64
	Dirty    bool // it has rows in memory only
}

// New returns a publisher.
func New(opt Options) *Publisher {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Publisher{opt: opt}
}

// Load reads which shards an earlier process has published last.
func (p *Publisher) Load(ctx context.Context) error {
	if p.shards != nil {
		return nil
	}
	shards := map[uint64]Edition{}
	i, err := Newest(ctx, p.opt.Objects)
	if err == nil {
		var m *backup.Manifest
		if m, err = Read(ctx, p.opt.Objects, i); err == nil {
			for _, s := range m.Shards {
				shards[s.ID] = Edition{} // none has it: they are published once more
			}
		}
	}
	if err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	p.shards = shards
	return nil
}

// Has reports whether a shard was published last.
func (p *Publisher) Has(id uint64) bool { _, ok := p.shards[id]; return ok }

// Due reports whether the cold shards that are given have changed since they were published.
func (p *Publisher) Due(shards map[uint64]Edition) bool {
	if len(shards)+len(p.shards) == 0 {
		return false // nothing was ever cold
	}
	for _, e := range shards {
		if e.Dirty {
			return true
		}
	}
	return !maps.Equal(shards, p.shards) || p.catalog != p.opt.Store.Catalog() && p.opt.Now().Sub(p.at) >= catalogEvery
}

// Publish puts a state of the cold shards that are given. It uploads before it calls locked, which has
// put called with the number of the owner while nobody removes objects from the store.
func (p *Publisher) Publish(ctx context.Context, term uint64, shards map[uint64]Edition, locked func(put func(owner uint64) error) error) error {
	catalog := p.opt.Store.Catalog()
	set, err := p.opt.Store.Backup(ctx, func(_ *meta.Database, _ *meta.RetentionPolicy, _ *meta.ShardGroup, id uint64) bool {
		_, cold := shards[id]
		return cold
	})
	if err != nil {
		return fmt.Errorf("publish the cold shards: %w", err)
	}
	defer set.Release()
	published := map[uint64]Edition{}
	for _, e := range set.Shards {
		published[e.ID] = Edition{Manifest: e.Manifest.Edition}
	}
	what, err := backup.Describe(set, p.opt.FS)
	if err == nil {
		err = what.Put(ctx, p.opt.Objects, p.have, p.opt.Pace)
	}
	if err != nil {
		return err
	}
	err = locked(func(owner uint64) error {
		// Somebody may have removed objects that were there and that nobody needed.
		if err := what.Put(ctx, p.opt.Objects, p.have, p.opt.Pace); err != nil {
			return err
		}
		return p.put(ctx, ID{Owner: owner, Term: term}, what.Manifest)
	})
	if err != nil {
		return err
	}
	p.shards, p.catalog, p.at, p.have = published, catalog, p.opt.Now(), map[string]bool{}
	for _, name := range what.Manifest.Names() {
		p.have[name] = true
	}
	return nil
}

// put puts a state behind those of its owner and term, and removes those that readers do not
// need any more.
func (p *Publisher) put(ctx context.Context, i ID, m *backup.Manifest) error {
	b, err := m.Encode()
	if err != nil {
		return err
	}
	ids, err := list(ctx, p.opt.Objects)
	if err != nil {
		return err
	}
	if n := len(ids); n > 0 {
		if newest := ids[n-1]; newest.Owner == i.Owner && newest.Term == i.Term {
			i.Number = newest.Number + 1
		} else if newest.Compare(i) > 0 {
			return fmt.Errorf("publish the cold shards: state %s is of a later owner or leader", newest)
		}
	}
	// The lock keeps others out. An attempt of this process whose answer was lost is there whole.
	if err := p.opt.Objects.Put(ctx, i.key(), object.Content{Bytes: b}); err != nil {
		return fmt.Errorf("publish the cold shards: %w", err)
	}
	old, now := map[ID]time.Time{}, p.opt.Now()
	var keys []string
	for _, i := range ids {
		since, ok := p.old[i]
		if !ok {
			since = now
		}
		if now.Sub(since) >= keptFor {
			keys = append(keys, i.key())
		} else {
			old[i] = since
		}
	}
	p.old = old
	return p.opt.Objects.Delete(ctx, keys...)
}
