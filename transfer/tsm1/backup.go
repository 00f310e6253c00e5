package tsm1

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// manifest is what a portable backup says of itself. Backups of 2.x have other fields.
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
	KV json.RawMessage `json:"kv"`
}

func (s *Source) openBackup(dir string, names []string) error {
	s.backup = true
	shards := map[shardKey]*Shard{}
	meta := ""
	portable := slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".manifest") })
	var err error
	if portable {
		meta, err = s.openPortable(dir, names, shards)
	} else {
		meta, err = s.openLegacy(dir, names, shards)
	}
	if err != nil {
		return err
	}
	if meta == "" {
		return fmt.Errorf("%s is a backup without its catalog: it is half a copy", dir)
	}
	if s.catalog, err = catalog.Read(filepath.Join(dir, meta)); err != nil {
		return fmt.Errorf("read catalog: %w", err)
	}
	return s.finish(shards, true)
}

// openPortable finds the newest file of each shard, and of the catalog.
func (s *Source) openPortable(dir string, names []string, shards map[shardKey]*Shard) (meta string, err error) {
	modified := map[shardKey]int64{}
	for _, name := range slices.Backward(names) { // the newest first
		if !strings.HasSuffix(name, ".manifest") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		var m manifest
		if err := json.Unmarshal(b, &m); err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		if m.KV != nil {
			return "", fmt.Errorf("%s is a backup of InfluxDB 2.x, which is not read: give the directory of the stopped server, which has engine and influxd.bolt below it, or write line protocol by influxd inspect export-lp and give that to tsdbd import", dir)
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
				s.notes = append(s.notes, fmt.Sprintf("%s names %s, which is not there: shard %d of %s.%s is missing", name, f.FileName, f.ShardID, f.Database, f.Policy))
				continue
			}
			if err != nil {
				return "", err
			}
			modified[key] = f.LastModified
			shards[key] = &Shard{
				Database: f.Database, Policy: f.Policy, ID: f.ShardID,
				TSMBytes: info.Size(), Paths: []string{at}, archive: at,
			}
		}
	}
	return meta, nil
}

// openLegacy finds the files in the tars. Those of a later tar replace those of an earlier
// one that have the same name.
func (s *Source) openLegacy(dir string, names []string, shards map[shardKey]*Shard) (meta string, err error) {
	parts := map[shardKey]map[string]shardFile{}
	for _, name := range names { // the oldest first, as names are sorted
		switch {
		case legacyCatalog.MatchString(name):
			meta = name
		case legacyShard.MatchString(name):
			if err := readTar(filepath.Join(dir, name), parts); err != nil {
				return "", err
			}
		}
	}
	for key, files := range parts {
		sh := &Shard{Database: key.database, Policy: key.policy, ID: key.id}
		for _, base := range slices.Sorted(maps.Keys(files)) {
			f := files[base]
			if !strings.HasSuffix(base, ".tsm") {
				continue
			}
			if t, ok := files[strings.TrimSuffix(base, ".tsm")+".tombstone"]; ok {
				f.tombstonePath, f.tombstone = t.path, t.tombstone
			}
			sh.add(f)
		}
		shards[key] = sh
	}
	return meta, nil
}

// readTar finds the files in a tar that is not compressed, where they are read in place.
func readTar(name string, parts map[shardKey]map[string]shardFile) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	t := tar.NewReader(f)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s, it is half a copy: %w", name, err)
		}
		key, base, ok := tarName(h.Name)
		if !ok {
			continue
		}
		offset, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if parts[key] == nil {
			parts[key] = map[string]shardFile{}
		}
		label := name + ":" + base
		parts[key][base] = shardFile{
			path: label, size: h.Size,
			open: func() (*tsmFile, io.Closer, error) {
				f, err := os.Open(name)
				if err != nil {
					return nil, nil, err
				}
				t, err := openTSM(label, io.NewSectionReader(f, offset, h.Size), h.Size)
				if err != nil {
					return nil, nil, errors.Join(err, f.Close())
				}
				return t, f, nil
			},
			tombstone: func() (io.ReadCloser, error) {
				f, err := os.Open(name)
				return struct {
					io.Reader
					io.Closer
				}{io.NewSectionReader(f, offset, h.Size), f}, err
			},
		}
	}
}

// tarName takes the name of a file in a tar apart.
func tarName(name string) (key shardKey, base string, ok bool) {
	parts := strings.Split(path.Clean(strings.ReplaceAll(name, `\`, "/")), "/")
	if len(parts) != 4 {
		return key, "", false
	}
	id, err := strconv.ParseUint(parts[2], 10, 64)
	return shardKey{parts[0], parts[1], id}, parts[3], err == nil
}

// unpack unpacks the archive of a shard into a directory of its own, and returns the
// shard as it is there. Closing removes the directory.
func (s *Source) unpack(sh *Shard) (_ *Shard, _ io.Closer, err error) {
	dir, err := os.MkdirTemp("", "tsdbd-import-")
	if err != nil {
		return nil, nil, err
	}
	at := scratchDir(dir)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("unpack %s: %w", sh.archive, err), at.Close())
		}
	}()
	f, err := os.Open(sh.archive)
	if err != nil {
		return nil, at, err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, at, err
	}
	var names []string
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.damage(sh.archive, -1, err)
			break
		}
		_, base, ok := tarName(h.Name)
		if !ok || !strings.HasSuffix(base, ".tsm") && !strings.HasSuffix(base, ".tombstone") {
			continue
		}
		out, err := os.Create(filepath.Join(dir, base))
		if err != nil {
			return nil, at, err
		}
		n, err := io.Copy(out, t)
		if cerr := out.Close(); cerr != nil {
			return nil, at, cerr
		}
		if write := (*os.PathError)(nil); errors.As(err, &write) && write.Path == out.Name() {
			return nil, at, err
		}
		if err != nil {
			s.damage(sh.archive, -1, fmt.Errorf("%s ends after %d of %d bytes: %w", base, n, h.Size, err))
			break
		}
		names = append(names, base)
	}
	slices.Sort(names)
	unpacked := &Shard{Database: sh.Database, Policy: sh.Policy, ID: sh.ID, Times: sh.Times}
	return unpacked, at, s.addTSM(unpacked, dir, names)
}

// scratchDir is a directory that is removed when it is closed.
type scratchDir string

// Close removes the directory.
func (d scratchDir) Close() error { return os.RemoveAll(string(d)) }
