package tsm1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/catalog"
)

// influx backup of 2.x writes a manifest, influxd.bolt, a file of SQLite that has nothing
// of points, and a tar for each shard. influxd.bolt and the tars may be compressed. The
// tars have bucket/policy/shard/file as names.

// bucketManifest is what a backup of 2.x says of itself.
type bucketManifest struct {
	name    string
	Version int              `json:"manifestVersion"` // 0 in 2.0
	KV      *manifestFile    `json:"kv"`
	Buckets []manifestBucket `json:"buckets"`
	Files   []struct {       // of 2.0
		BucketID string `json:"bucketID"`
		Bucket   string `json:"bucketName"`
		ShardID  uint64 `json:"shardID"`
		manifestFile
	} `json:"files"`
}

type manifestFile struct {
	Name string `json:"fileName"`
	Size int64  `json:"size"`
}

type manifestShard struct {
	ID uint64 `json:"id"`
	manifestFile
}

type manifestBucket struct {
	ID       string           `json:"bucketID"`
	Name     string           `json:"bucketName"`
	Policies []manifestPolicy `json:"retentionPolicies"`
}

type manifestPolicy struct {
	Name               string          `json:"name"`
	Duration           time.Duration   `json:"duration"`
	ShardGroupDuration time.Duration   `json:"shardGroupDuration"`
	Groups             []manifestGroup `json:"shardGroups"`
}

type manifestGroup struct {
	ID     uint64          `json:"id"`
	Start  time.Time       `json:"startTime"`
	End    time.Time       `json:"endTime"`
	Shards []manifestShard `json:"shards"`
}

// knownManifest is the version of manifests since 2.1.
const knownManifest = 2

// readManifest reads a manifest of 2.x. Of other ones it returns nil.
func readManifest(path string) (*bucketManifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &bucketManifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s, it is damaged or half a copy: %w", path, err)
	}
	if m.Version != 0 && m.Version != knownManifest {
		return nil, fmt.Errorf("%s is a manifest of version %d, only version %d and those of 2.0 are known", path, m.Version, knownManifest)
	}
	if m.KV == nil {
		return nil, nil
	}
	for _, f := range m.Files {
		i := slices.IndexFunc(m.Buckets, func(b manifestBucket) bool { return b.ID == f.BucketID })
		if i < 0 {
			i, m.Buckets = len(m.Buckets), append(m.Buckets, manifestBucket{ID: f.BucketID, Name: f.Bucket, Policies: []manifestPolicy{{Groups: []manifestGroup{{}}}}})
		}
		g := &m.Buckets[i].Policies[0].Groups[0]
		g.Shards = append(g.Shards, manifestShard{f.ShardID, f.manifestFile})
	}
	return m, nil
}

// bucketManifests reads the manifests of backups of 2.x. Of a portable backup of 1.x it
// returns none.
func bucketManifests(dir string, names []string) (all []*bucketManifest, err error) {
	for _, name := range names {
		m, err := readManifest(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if m != nil {
			m.name = name
			all = append(all, m)
		}
	}
	if len(all) > 0 && len(all) < len(names) {
		return nil, fmt.Errorf("%s has backups of InfluxDB 1.x and of 2.x: move those of one of them elsewhere", dir)
	}
	return all, nil
}

// openBucketBackup takes the newest backup of each bucket that the newest influxd.bolt
// has. Manifests come from the newest to the oldest.
func (s *Source) openBucketBackup(dir string, manifests []*bucketManifest) error {
	newest := manifests[0]
	if n := len(manifests); n > 1 {
		s.notes = append(s.notes, fmt.Sprintf("%s has %d backups: the newest one of each bucket is used, the newest of all is %s", dir, n, newest.name))
	}
	bolt := filepath.Join(dir, filepath.Base(newest.KV.Name))
	f, err := s.readBackupBolt(bolt)
	if err != nil {
		if newest.Version == 0 {
			return fmt.Errorf("read the names of buckets: %w", err)
		}
		s.damage(bolt, offsetOf(err), fmt.Errorf("each bucket becomes a database of its name, mappings to other databases are lost: %w", err))
		f = boltOf(newest.Buckets)
	}
	if !hasGroups(f.catalog) {
		f.catalog = boltOf(newest.Buckets).catalog
	}
	shards := map[shardKey]*Shard{}
	found := map[string]bool{}
	for _, m := range manifests {
		for _, b := range m.Buckets {
			if found[b.ID] {
				continue
			}
			found[b.ID] = true
			switch {
			case !slices.ContainsFunc(f.buckets, func(have bucket) bool { return have.ID == b.ID }):
				s.notes = append(s.notes, fmt.Sprintf("bucket %q of %s is left out: the newest backup does not know it, InfluxDB has dropped it", b.Name, m.name))
				continue
			case m != newest:
				s.notes = append(s.notes, fmt.Sprintf("bucket %q comes from the older %s: newer backups do not have it", b.Name, m.name))
			}
			if err := s.addBucket(dir, m.name, &b, shards); err != nil {
				return err
			}
		}
	}
	if newest.Version != 0 { // 2.0 does not list buckets without shards
		had := len(f.buckets)
		if f.buckets = slices.DeleteFunc(f.buckets, func(b bucket) bool { return !found[b.ID] }); len(f.buckets) < had {
			s.notes = append(s.notes, fmt.Sprintf("the backup has %d of the %d buckets of the server", len(f.buckets), had))
		}
	}
	return s.nameBuckets(shards, f, bolt, hasGroups(f.catalog))
}

// addBucket adds the shards of a bucket.
func (s *Source) addBucket(dir, manifest string, b *manifestBucket, shards map[shardKey]*Shard) error {
	for _, rp := range b.Policies {
		for _, g := range rp.Groups {
			for _, m := range g.Shards {
				path := filepath.Join(dir, filepath.Base(m.Name))
				info, err := os.Stat(path)
				if isNotExist(err) {
					s.damage(path, -1, fmt.Errorf("%s names it, and it is not there: shard %d of bucket %q is missing", manifest, m.ID, b.Name))
					continue
				}
				if err != nil {
					return err
				}
				if n := info.Size(); n != m.Size {
					s.damage(path, min(n, m.Size), fmt.Errorf("it is half a copy: the file has %d bytes, %s says %d", n, manifest, m.Size))
				}
				sh := &Shard{ID: m.ID}
				if err := s.addArchive(sh, path, info.Size()); err != nil {
					return err
				}
				shards[shardKey{b.ID, rp.Name, m.ID}] = sh
			}
		}
	}
	return nil
}

// readBackupBolt reads influxd.bolt as a backup has it, which may be compressed. How large it is
// then does not matter.
func (s *Source) readBackupBolt(path string) (*boltFile, error) {
	if unpacked, err := unpackedSize(path, 1); err != nil || unpacked == 0 {
		return readBolt(path)
	}
	to, err := os.CreateTemp(s.opt.TempDir, "tsdbd-import-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(to.Name()) }()
	damage, err := gunzip(context.Background(), to, path)
	if err = errors.Join(damage, err, to.Close()); err != nil {
		return nil, err
	}
	f, err := readBolt(to.Name())
	if err != nil {
		return nil, fmt.Errorf("unpacked: %w", err)
	}
	return f, nil
}

// boltOf returns what manifests say of buckets.
func boltOf(all []manifestBucket) *boltFile {
	f := &boltFile{catalog: &catalog.Catalog{}}
	for _, b := range all {
		d := &meta.Database{Name: b.ID}
		known := bucket{ID: b.ID, Name: b.Name}
		for _, rp := range b.Policies {
			known.RetentionPeriod, known.ShardGroupDuration = rp.Duration, rp.ShardGroupDuration
			policy := &meta.RetentionPolicy{Name: rp.Name, Duration: rp.Duration, ShardGroupDuration: rp.ShardGroupDuration, ReplicaN: 1}
			for _, g := range rp.Groups {
				if g.End.IsZero() { // 2.0 has no groups in its manifest
					continue
				}
				group := &meta.ShardGroup{ID: g.ID, Start: model.Nanoseconds(g.Start), End: model.Nanoseconds(g.End)}
				for _, sh := range g.Shards {
					group.Shards = append(group.Shards, meta.Shard{ID: sh.ID})
					f.catalog.Largest = max(f.catalog.Largest, sh.ID)
				}
				policy.ShardGroups = append(policy.ShardGroups, group)
			}
			d.RetentionPolicies = append(d.RetentionPolicies, policy)
		}
		f.buckets = append(f.buckets, known)
		f.catalog.Databases = append(f.catalog.Databases, d)
	}
	return f
}
