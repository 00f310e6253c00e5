package tsm1

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/catalog"
)

// shardKey names a shard of a tree of directories.
type shardKey struct {
	database, policy string
	id               uint64
}

// Open opens a directory with data of InfluxDB: the directory of a server of 1.x, with
// data, wal and meta below it; a copy of its data alone; a backup by influxd backup; or
// the directory of a server of 2.x, with engine and influxd.bolt below it.
func Open(dir string, opt Options) (*Source, error) {
	s := &Source{opt: opt, catalog: &catalog.Catalog{}, limits: defaultLimits}
	if err := s.open(filepath.Clean(dir)); err != nil {
		return nil, fmt.Errorf("open InfluxDB data: %w", err)
	}
	return s, nil
}

func (s *Source) open(dir string) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	if isBackup(names) {
		return s.openBackup(dir, names)
	}
	p := s.opt
	if slices.Contains(names, "engine") {
		return s.openTrees(filepath.Join(dir, "engine", "data"), filepath.Join(dir, "engine", "wal"), "", filepath.Join(dir, "influxd.bolt"))
	}
	if slices.Contains(names, "data") && !isDataTree(dir) {
		if p.WALDir == "" {
			p.WALDir = filepath.Join(dir, "wal")
		}
		if p.MetaDir == "" {
			p.MetaDir = filepath.Join(dir, "meta")
		}
		return s.openTrees(filepath.Join(dir, "data"), p.WALDir, filepath.Join(p.MetaDir, "meta.db"), filepath.Join(filepath.Dir(dir), "influxd.bolt"))
	}
	if why := foreign(names); why != "" {
		return fmt.Errorf("%s %s", dir, why)
	}
	if !isDataTree(dir) {
		return fmt.Errorf("%s has no data of InfluxDB: give the directory that has data, wal and meta below it, usually /var/lib/influxdb, or a backup by influxd backup", dir)
	}
	meta := ""
	if p.MetaDir != "" {
		meta = filepath.Join(p.MetaDir, "meta.db")
	}
	return s.openTrees(dir, p.WALDir, meta, filepath.Join(filepath.Dir(filepath.Dir(dir)), "influxd.bolt"))
}

// foreign says what a directory is that has no data of InfluxDB, "" if it is not known.
func foreign(names []string) string {
	has := func(match func(name string) bool) bool { return slices.ContainsFunc(names, match) }
	switch {
	case slices.Contains(names, "LOCK") && slices.Contains(names, "meta"):
		return "is a data directory of tsdbd"
	case has(func(n string) bool {
		return strings.HasSuffix(n, ".parquet") || n == "catalogs" || n == "_catalog_checkpoint"
	}):
		return "is of InfluxDB 3, whose files are not read: import from the running server by its URL"
	case has(func(n string) bool { return strings.HasSuffix(n, ".tsm") }):
		return "is one shard: give the directory above its database, or the one that has data, wal and meta below it"
	case slices.Contains(names, "influxd.bolt"):
		return "has influxd.bolt and no directory engine below it: it is half a copy of a directory of InfluxDB 2.x"
	case slices.Contains(names, "meta.db"):
		return "is the directory meta of InfluxDB: give the directory above it"
	case has(func(n string) bool { return strings.HasSuffix(n, ".wal") }):
		return "has segments of a WAL only: give the directory that has data, wal and meta below it"
	}
	return ""
}

// list returns the names in a directory.
func list(dir string) ([]string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: give the directory that has data, wal and meta below it", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// isDataTree reports whether directories of shards are two levels below a directory.
func isDataTree(dir string) bool {
	found := false
	_ = shardDirs(dir, func(_ shardKey, _ string, names []string) error {
		found = found || slices.ContainsFunc(names, func(n string) bool {
			return strings.HasSuffix(n, ".tsm") || strings.HasPrefix(n, "fields.idx")
		})
		return nil
	})
	return found
}

// openTrees finds the shards below the directories of data and of the log. bolt is where
// the file of 2.x would be.
func (s *Source) openTrees(data, wal, meta, bolt string) error {
	if err := running(data, wal); err != nil {
		return err
	}
	shards := map[shardKey]*Shard{}
	if err := tree(data, shards, s.addTSM); err != nil {
		return err
	}
	if wal != "" {
		err := tree(wal, shards, addWAL)
		if isNotExist(err) {
			s.lack("%s is not there: writes that were only in the log are missing", wal)
		} else if err != nil {
			return err
		}
	} else {
		s.lack("no directory of the log was given: writes that were only in it are missing")
	}
	if len(shards) == 0 {
		return fmt.Errorf("%s has no shards", data)
	}
	buckets := 0
	for key := range shards {
		if isBucketID(key.database) {
			buckets++
		}
	}
	if buckets == len(shards) {
		return s.openBuckets(shards, bolt)
	}
	known := false
	if meta != "" {
		c, err := catalog.Read(meta)
		switch {
		case err == nil:
			s.catalog, known = c, true
		case errors.Is(err, binio.ErrCorrupt):
			return fmt.Errorf("read catalog: %w: without the file the import brings all points, and no durations of policies, users, continuous queries and subscriptions: move it away, or name an older copy with -metadir", err)
		case !isNotExist(err):
			return fmt.Errorf("read catalog: %w", err)
		}
	}
	if !known {
		s.missing++ // finish notes it
	}
	return s.finish(shards, known)
}

// finish gives the shards the times of their groups. If the catalog is known, it says which
// shards are left out.
func (s *Source) finish(shards map[shardKey]*Shard, known bool) error {
	groups := map[shardKey]model.TimeRange{}
	for _, d := range s.catalog.Databases {
		for _, rp := range d.RetentionPolicies {
			for i := range rp.ShardGroups {
				for _, sh := range rp.ShardGroups[i].Shards {
					groups[shardKey{d.Name, rp.Name, sh.ID}] = rp.ShardGroups[i].TimeRange()
				}
			}
		}
	}
	dropped, newer := map[shardKey]*Shard{}, map[shardKey]*Shard{}
	for _, sh := range sorted(shards) {
		key := shardKey{sh.Database, sh.Policy, sh.ID}
		times, ok := groups[key]
		if known && !ok {
			switch {
			case slices.Contains(s.opt.Shards, key.id):
			case s.catalog.Dropped[key.id], s.backup && key.id <= s.catalog.Largest: // an older backup has it
				dropped[key] = sh
			case key.id > s.catalog.Largest:
				newer[key] = sh
			default:
				s.unnamed = append(s.unnamed, sh)
			}
			if newer[key] == nil && !slices.Contains(s.opt.Shards, key.id) {
				delete(shards, key)
				continue
			}
			add(s.catalog, sh)
		}
		// InfluxDB writes the first group of all time with a start that has wrapped around.
		if sh.Times = times; !ok || times.Empty() {
			sh.Times = s.bounds(sh)
		}
		sh.state = sh.present()
		sh.Values = sh.estimate()
	}
	if !known {
		s.notes = append(s.notes, "there is no catalog (meta.db): durations of policies, users, continuous queries and subscriptions are missing")
		s.catalog = catalogOf(shards)
	}
	if len(dropped) > 0 {
		s.notes = append(s.notes, fmt.Sprintf("%d shards are left out because InfluxDB has dropped them: %s", len(dropped), someShards(sorted(dropped))))
	}
	if len(newer) > 0 {
		s.stale = true
		s.notes = append(s.notes, fmt.Sprintf("the catalog is older than %d shards: their points go to the policies that their directories name; policies, users, continuous queries and subscriptions made since then are missing: %s",
			len(newer), someShards(sorted(newer))))
	}
	s.shards = sorted(shards)
	s.estimateArchives()
	slices.SortFunc(s.unnamed, compareShards)
	return nil
}

// someShards names the first shards.
func someShards(shards []*Shard) string {
	var names []string
	for _, sh := range shards[:min(len(shards), 5)] {
		names = append(names, fmt.Sprintf("%s.%s/%d", sh.Database, sh.Policy, sh.ID))
	}
	if len(shards) > 5 {
		names = append(names, "...")
	}
	return strings.Join(names, " ")
}

// isBucketID reports whether a directory is named by the id of a bucket of 2.x.
func isBucketID(name string) bool {
	if len(name) != 16 {
		return false
	}
	_, err := strconv.ParseUint(name, 16, 64)
	return err == nil && strings.ToLower(name) == name
}

// openBuckets names the shards of buckets of 2.x.
func (s *Source) openBuckets(shards map[shardKey]*Shard, bolt string) error {
	f, err := readBolt(bolt)
	known := err == nil
	if isNotExist(err) {
		f = &boltFile{catalog: &catalog.Catalog{}}
		seen := map[string]bool{}
		for key := range shards {
			if s.opt.Buckets[key.database] == "" && !seen[key.database] {
				return fmt.Errorf("%s is not there, so that the name of bucket %s is not known: copy it there, or name the bucket (-bucket %s=NAME)", bolt, key.database, key.database)
			}
		}
	} else if err != nil {
		return err
	}
	return s.nameBuckets(shards, f, bolt, known)
}

// nameBuckets gives the shards of buckets the names that influxd.bolt has for them.
func (s *Source) nameBuckets(shards map[shardKey]*Shard, f *boltFile, bolt string, known bool) error {
	places, err := f.places(s.opt.Buckets)
	if err != nil {
		return err
	}
	for _, m := range f.mappings {
		if p, ok := places[m.bucket()]; ok && (p.database != m.Database || p.policy != m.Policy) {
			s.notes = append(s.notes, fmt.Sprintf("%s.%s is a name of the bucket that becomes %s.%s: queries have to name that", m.Database, m.Policy, p.database, p.policy))
		}
	}
	s.catalog = f.renamed(places)
	named := map[shardKey]*Shard{}
	nameless := map[string]bool{}
	for key, sh := range shards {
		p, ok := places[key.database]
		if !ok {
			nameless[key.database] = true
			continue
		}
		sh.Database, sh.Policy = p.database, p.policy
		named[shardKey{p.database, p.policy, key.id}] = sh
	}
	for id := range nameless {
		s.notes = append(s.notes, fmt.Sprintf("bucket %s is left out: %s does not name it, InfluxDB has dropped it", id, bolt))
	}
	slices.Sort(s.notes)
	return s.finish(named, known && hasGroups(s.catalog))
}

// tree adds what add finds in the directories of shards.
func tree(dir string, shards map[shardKey]*Shard, add func(sh *Shard, dir string, names []string) error) error {
	return shardDirs(dir, func(key shardKey, at string, names []string) error {
		sh := shards[key]
		if sh == nil {
			sh = &Shard{Database: key.database, Policy: key.policy, ID: key.id}
		}
		if err := add(sh, at, names); err != nil {
			return err
		}
		sh.dirs = append(sh.dirs, at)
		if len(sh.files)+len(sh.wal) > 0 {
			shards[key] = sh
		}
		return nil
	})
}

// shardDirs calls each for the directories of shards, which are below those of policies,
// with the names in them.
func shardDirs(dir string, each func(key shardKey, dir string, names []string) error) error {
	databases, err := directories(dir)
	if err != nil {
		return err
	}
	for _, db := range databases {
		policies, err := directories(filepath.Join(dir, db))
		if err != nil {
			return err
		}
		for _, rp := range policies {
			ids, err := directories(filepath.Join(dir, db, rp))
			if err != nil {
				return err
			}
			for _, name := range ids {
				id, err := strconv.ParseUint(name, 10, 64)
				if err != nil {
					continue
				}
				at := filepath.Join(dir, db, rp, name)
				names, err := list(at)
				if err != nil {
					return err
				}
				if err := each(shardKey{db, rp, id}, at, names); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// directories returns the names of the directories in a directory.
func directories(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "_series" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// addTSM adds the TSM files in a directory.
func (s *Source) addTSM(sh *Shard, dir string, names []string) error {
	sh.data = dir
	files := map[string]shardFile{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch {
		case strings.HasSuffix(name, ".tsm"), strings.HasSuffix(name, ".tombstone"):
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			files[name] = shardFile{path: path, size: info.Size(), open: func() (section, error) { return openPath(path) }}
		case strings.Contains(name, ".bad"):
			s.notes = append(s.notes, fmt.Sprintf("%s is left out: InfluxDB has set it aside as damaged", path))
		}
	}
	sh.add(files)
	return nil
}

// add adds the files of a directory in order of age, with their tombstones.
func (sh *Shard) add(files map[string]shardFile) {
	for _, base := range slices.Sorted(maps.Keys(files)) {
		name, ok := strings.CutSuffix(base, ".tsm")
		if !ok {
			continue
		}
		f := files[base]
		if t, ok := files[name+".tombstone"]; ok {
			f.tombstone = &t
		}
		sh.files = append(sh.files, f)
		sh.TSMBytes += f.size
	}
}

// addWAL adds the segments of the log in a directory, in order.
func addWAL(sh *Shard, dir string, names []string) error {
	type segment struct {
		number uint64
		path   string
	}
	var segments []segment
	for _, name := range names {
		number, ok := strings.CutPrefix(strings.TrimSuffix(name, ".wal"), "_")
		n, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || !strings.HasSuffix(name, ".wal") {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() > 0 {
			segments = append(segments, segment{n, path})
			sh.WALBytes += info.Size()
		}
	}
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	for _, s := range segments {
		sh.wal = append(sh.wal, s.path)
	}
	return nil
}
