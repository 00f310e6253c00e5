package tsm1

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/block"
	"tsdbd/transfer/tsm1/catalog"
)

// bounds returns the times of a shard's points, by its index and its log. Damage is left
// to the reader of its rows.
func (s *Source) bounds(sh *Shard) model.TimeRange {
	bounds := model.TimeRange{Min: 1, Max: 0}
	add := func(t model.TimeRange) {
		if bounds.Empty() {
			bounds = t
		} else if !t.Empty() {
			bounds = bounds.Union(t)
		}
	}
	unpacked, closer, err := s.unpack(context.Background(), sh)
	if err != nil {
		return model.AllTime
	}
	defer func() { _ = closer.Close() }()
	for _, file := range unpacked.files {
		f, closer, err := file.openTSM()
		if err != nil {
			continue
		}
		for s := f.stream(f.index, indexWindow); ; {
			k, err := s.next()
			if err != nil {
				break
			}
			add(k.ref(0).times)
			add(k.ref(k.count() - 1).times)
		}
		_ = closer.Close()
	}
	times := func(t int64, _ []byte) { add(model.TimeRange{Min: t, Max: t}) }
	for _, path := range sh.wal {
		_, _ = readSegmentFile(path, walSink{write: func(_ []byte, kind model.FieldType, n int, values []byte) { eachLogged(kind, n, values, times) }})
	}
	return bounds
}

// present returns the names and sizes of the files of a shard.
func (sh *Shard) present() string {
	var b strings.Builder
	for _, dir := range sh.dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			switch filepath.Ext(e.Name()) {
			case ".tsm", ".tombstone", ".wal":
				if info, err := e.Info(); err == nil {
					fmt.Fprintf(&b, "%s %d\n", e.Name(), info.Size())
				}
			}
		}
	}
	return b.String()
}

// changed returns an ErrRunning if the files of a shard are not those that Open has found.
func (sh *Shard) changed() error {
	if sh.present() != sh.state {
		return fmt.Errorf("the files of shard %d of %s.%s have changed since they were opened: %w", sh.ID, sh.Database, sh.Policy, ErrRunning)
	}
	return nil
}

// sampledBlocks is how many blocks of a shard are looked at for an estimate.
const sampledBlocks = 64

// estimate returns about how many values a shard has: the first blocks of its largest
// file say how many bytes a value takes.
func (sh *Shard) estimate() int64 {
	if len(sh.files) == 0 {
		return sh.WALBytes / loggedBytes
	}
	largest := slices.MaxFunc(sh.files, func(a, b shardFile) int { return int(min(max(a.size-b.size, -1), 1)) })
	f, closer, err := largest.openTSM()
	if err != nil {
		return 0
	}
	defer func() { _ = closer.Close() }()
	values, bytes, entries := 0, 0, 0
	for s := f.stream(f.index, lateWindow); entries < sampledBlocks; {
		k, err := s.next()
		if err != nil {
			break
		}
		for i := 0; i < k.count() && entries < sampledBlocks; i++ {
			ref := k.ref(i)
			b, err := f.readBlock(ref)
			if err != nil {
				return 0
			}
			if b, err := block.Parse(b); err == nil {
				n, _ := b.Count()
				values, bytes, entries = values+n, bytes+int(ref.size), entries+1
			}
		}
	}
	if bytes == 0 {
		return 0
	}
	share := float64(f.index-headerBytes) / float64(max(f.size, 1))
	return int64(float64(sh.TSMBytes)*share*float64(values)/float64(bytes)) + sh.WALBytes/loggedBytes
}

// loggedBytes is about what a value takes in a WAL, which is compressed.
const loggedBytes = 12

// catalogOf makes a catalog of the names of shards.
func catalogOf(shards map[shardKey]*Shard) *catalog.Catalog {
	c := &catalog.Catalog{}
	for _, sh := range sorted(shards) {
		add(c, sh)
		if sh.Policy == defaultPolicy {
			c.Database(sh.Database).DefaultRetentionPolicy = defaultPolicy
		}
	}
	return c
}

// add makes the database and the policy of a shard as far as they are not there.
func add(c *catalog.Catalog, sh *Shard) {
	d := c.Database(sh.Database)
	if d == nil {
		d = &meta.Database{Name: sh.Database, DefaultRetentionPolicy: sh.Policy}
		c.Databases = append(c.Databases, d)
	}
	if d.RetentionPolicy(sh.Policy) == nil {
		d.RetentionPolicies = append(d.RetentionPolicies, &meta.RetentionPolicy{
			Name: sh.Policy, ShardGroupDuration: defaultGroup, ReplicaN: 1,
		})
	}
}

// defaultGroup is the duration of the shard groups of a policy that keeps points forever.
const defaultGroup = 7 * 24 * time.Hour

// hasGroups reports whether a catalog names shards.
func hasGroups(c *catalog.Catalog) bool {
	return slices.ContainsFunc(c.Databases, func(d *meta.Database) bool {
		return slices.ContainsFunc(d.RetentionPolicies, func(rp *meta.RetentionPolicy) bool { return len(rp.ShardGroups) > 0 })
	})
}
