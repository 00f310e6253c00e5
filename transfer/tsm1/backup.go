package tsm1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tsdbd/transfer/tsm1/catalog"
)

// influxd backup writes one of two forms. The older one has the catalog as meta.00 and a
// tar for each shard, database.policy.shard.00, with higher numbers for what was added
// later. The portable one has a manifest for each backup, and a compressed tar for each
// shard. The tars have database/policy/shard/file as names.

// legacyShard is the name of a tar.
var legacyShard = regexp.MustCompile(`^.+\.\d{5,}\.\d{2}$`)

// legacyCatalog is the name of a catalog of the older form.
var legacyCatalog = regexp.MustCompile(`^meta\.\d{2}$`)

// isBackup reports whether a directory with these names is a backup.
func isBackup(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return strings.HasSuffix(n, ".manifest") || legacyShard.MatchString(n) || legacyCatalog.MatchString(n)
	})
}

// manifest is what a portable backup says of itself.
type manifest struct {
	Meta struct {
		FileName string `json:"fileName"`
	} `json:"meta"`
	Files []struct {
		Database     string `json:"database"`
		Policy       string `json:"policy"`
		ShardID      uint64 `json:"shardID"`
		FileName     string `json:"fileName"`
		LastModified int64  `json:"lastModified"`
	} `json:"files"`
}

func (s *Source) openBackup(dir string, names []string) error {
	s.backup = true
	shards := map[shardKey]*Shard{}
	meta := ""
	manifests := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasSuffix(n, ".manifest") })
	slices.Reverse(manifests) // the newest first
	ofBuckets, err := bucketManifests(dir, manifests)
	switch {
	case err != nil:
	case len(ofBuckets) > 0:
		return s.openBucketBackup(dir, ofBuckets)
	case len(manifests) > 0:
		meta, err = s.openPortable(dir, manifests, shards)
	default:
		meta, err = s.openLegacy(dir, names, shards)
	}
	if err != nil {
		return err
	}
	if meta == "" {
		return fmt.Errorf("%s: incomplete backup: the catalog (meta) is missing", dir)
	}
	if s.catalog, err = catalog.Read(filepath.Join(dir, meta)); err != nil {
		return fmt.Errorf("read catalog: %w", err)
	}
	return s.finish(shards, true)
}

// openPortable finds the newest file of each shard, and of the catalog.
func (s *Source) openPortable(dir string, manifests []string, shards map[shardKey]*Shard) (meta string, err error) {
	modified := map[shardKey]int64{}
	for _, name := range manifests {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		var m manifest
		if err := json.Unmarshal(b, &m); err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		meta = cmp.Or(meta, m.Meta.FileName)
		for _, f := range m.Files {
			key := shardKey{f.Database, f.Policy, f.ShardID}
			if shards[key] != nil && f.LastModified <= modified[key] {
				continue
			}
			at := filepath.Join(dir, filepath.Base(f.FileName))
			info, err := os.Stat(at)
			if isNotExist(err) {
				s.damage(at, -1, fmt.Errorf("%s names it, and it is not there: shard %d of %s.%s is missing", name, f.ShardID, f.Database, f.Policy))
				continue
			}
			if err != nil {
				return "", err
			}
			modified[key] = f.LastModified
			sh := &Shard{Database: f.Database, Policy: f.Policy, ID: f.ShardID}
			if err := s.addArchive(sh, at, info.Size()); err != nil {
				return "", err
			}
			shards[key] = sh
		}
	}
	return meta, nil
}

// openLegacy finds the files in the tars. Those of a later tar replace those of an earlier
// one that have the same name.
func (s *Source) openLegacy(dir string, names []string, shards map[shardKey]*Shard) (meta string, err error) {
	parts := tarMembers{}
	for _, name := range names { // the oldest first, as names are sorted
		switch {
		case legacyCatalog.MatchString(name):
			meta = name
		case legacyShard.MatchString(name):
			if err := parts.open(filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
	}
	for key, files := range parts {
		sh := &Shard{Database: key.database, Policy: key.policy, ID: key.id}
		sh.add(files)
		shards[key] = sh
	}
	return meta, nil
}
