package ledger

import (
	"errors"
	"io/fs"
	"sync"

	"tsdbd/shard/manifest"
)

// unsure has the shards whose manifests may not be durable, because a killed
// server renamed them; see SyncNames.
type unsure struct {
	sync.Mutex
	shards []unsureShard
}

type unsureShard struct {
	id       uint64
	database uint32
	known    manifest.Known
}

// AddUnsure notes a shard that the start has found with a manifest that the ledger may not
// know.
func (l *File) AddUnsure(shard uint64, database uint32, known manifest.Known) {
	l.unsure.Lock()
	defer l.unsure.Unlock()
	l.unsure.shards = append(l.unsure.shards, unsureShard{shard, database, known})
}

// SyncNames makes the manifests of unsure shards durable (W3): a server that was
// killed may have renamed them and not synced their names. It is done before the
// first trim of the log and not at the start, where it would be in the way of
// thousands of shards. The ledger vouches for such a shard from then on: after a power
// cut its files may be gone, and nothing is lost by that while the log has the entries.
// syncDir syncs the directory of a shard.
func (l *File) SyncNames(syncDir func(shard uint64, database uint32) error) error {
	l.unsure.Lock()
	defer l.unsure.Unlock()
	for len(l.unsure.shards) > 0 {
		last := len(l.unsure.shards) - 1
		sh := l.unsure.shards[last]
		err := syncDir(sh.id, sh.database)
		switch {
		case err == nil:
			l.Add(sh.id, sh.database, sh.known)
		case !errors.Is(err, fs.ErrNotExist): // dropped since
			return err
		}
		l.unsure.shards = l.unsure.shards[:last]
	}
	return nil
}
