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

// Options configure a Publisher. All but Now are required.
type Options struct {
	Store   Source
	Objects object.Store
	FS      vfs.FS
	Now     func() time.Time // nil: time.Now
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
	shards  map[uint64]Edition // as published last by this process
	last    map[uint64]bool    // as published last, nil before Load
	catalog *meta.Data         // as published last
	at      time.Time
	have    map[string]bool // objects of the state published last
	old     []oldState
}

// Edition tells states of a shard apart.
type Edition struct {
	Manifest uint64
	Dirty    bool // it has rows in memory only
}

// oldState is a state that a newer one has followed.
type oldState struct {
	ID
	since time.Time
}

// New returns a publisher.
func New(opt Options) *Publisher {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Publisher{opt: opt}
}

// Load reads which shards were published last, by this process or an earlier one.
func (p *Publisher) Load(ctx context.Context) error {
	if p.last != nil {
		return nil
	}
	last := map[uint64]bool{}
	i, err := Newest(ctx, p.opt.Objects)
	if err == nil {
		var m *backup.Manifest
		if m, err = Read(ctx, p.opt.Objects, i); err == nil {
			for _, s := range m.Shards {
				last[s.ID] = true
			}
		}
	}
	if err != nil && !errors.Is(err, ErrNone) {
		return err
	}
	p.last = last
	return nil
}

// Has reports whether a shard was published last.
func (p *Publisher) Has(id uint64) bool { return p.last[id] }

// Due reports whether the cold shards that are given have changed since they were published.
func (p *Publisher) Due(shards map[uint64]Edition) bool {
	if len(shards) == 0 && p.shards == nil {
		return false // nothing was ever cold
	}
	dirty := false
	for _, e := range shards {
		dirty = dirty || e.Dirty
	}
	return dirty || p.shards == nil || !maps.Equal(shards, p.shards) || p.catalog != p.opt.Store.Catalog() && p.opt.Now().Sub(p.at) >= catalogEvery
}

// Publish puts a state of the cold shards that are given. The caller holds the lock of the store,
// which belongs to the owner with that number.
func (p *Publisher) Publish(ctx context.Context, owner, term uint64, shards map[uint64]Edition) error {
	catalog := p.opt.Store.Catalog()
	set, err := p.opt.Store.Backup(ctx, func(_ *meta.Database, _ *meta.RetentionPolicy, _ *meta.ShardGroup, id uint64) bool {
		_, cold := shards[id]
		return cold
	})
	if err != nil {
		return fmt.Errorf("publish the cold shards: %w", err)
	}
	defer set.Release()
	published, last := map[uint64]Edition{}, map[uint64]bool{}
	for _, e := range set.Shards {
		last[e.ID] = true
		published[e.ID] = Edition{Manifest: e.Manifest.Edition}
	}
	m, err := backup.Publish(ctx, set, p.opt.Objects, p.opt.FS, p.have)
	if err != nil {
		return err
	}
	b, err := m.Encode()
	if err != nil {
		return err
	}
	ids, err := list(ctx, p.opt.Objects)
	if err != nil {
		return err
	}
	i := ID{Owner: owner, Term: term}
	if n := len(ids); n > 0 {
		if newest := ids[n-1]; newest.Owner > owner || newest.Owner == owner && newest.Term > term {
			return fmt.Errorf("publish the cold shards: state %s is of a later owner or leader", newest)
		} else if newest.Owner == owner && newest.Term == term {
			i.Number = newest.Number + 1
		}
	}
	// The lock keeps others out. An attempt of this process whose answer was lost is there whole.
	if err := p.opt.Objects.Put(ctx, i.key(), object.Content{Bytes: b}); err != nil {
		return fmt.Errorf("publish the cold shards: %w", err)
	}
	p.last = last
	p.shards, p.catalog, p.at, p.have = published, catalog, p.opt.Now(), map[string]bool{}
	for _, name := range m.Names() {
		p.have[name] = true
	}
	return p.removeOld(ctx, ids)
}

// removeOld removes the states that readers do not need any more. ids are those before the
// newest.
func (p *Publisher) removeOld(ctx context.Context, ids []ID) error {
	since := map[ID]time.Time{}
	for _, o := range p.old {
		since[o.ID] = o.since
	}
	p.old = p.old[:0]
	var keys []string
	now := p.opt.Now()
	for _, i := range ids {
		begin, ok := since[i]
		if !ok {
			begin = now
		}
		if now.Sub(begin) >= keptFor {
			keys = append(keys, i.key())
		} else {
			p.old = append(p.old, oldState{i, begin})
		}
	}
	err := p.opt.Objects.Delete(ctx, keys...)
	if errors.Is(err, object.ErrNotFound) {
		err = nil
	}
	return err
}
