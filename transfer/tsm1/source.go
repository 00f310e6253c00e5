package tsm1

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/catalog"
)

// Options say where a Source reads and to whom it reports. The zero value works.
type Options struct {
	// WALDir and MetaDir are where the log and the catalog are, if that is not below the
	// directory that is opened.
	WALDir, MetaDir string
	// Buckets names buckets of InfluxDB 2.x by their ids or their names: "database" or
	// "database/policy".
	Buckets map[string]string
	// TempDir is where compressed shards of a backup are unpacked, one at a time for each
	// reader; "" is the directory for temporary files of the system.
	TempDir string
	// Shards are the numbers of shards that are read also if the catalog does not name
	// them.
	Shards []uint64
	// Wanted, if set, chooses measurements by their names. The rows of others are not
	// decoded. It may be called by several readers at a time.
	Wanted func(measurement string) bool
	// Damage is called for damage in the source, which is passed over. The offset is -1
	// if it is not known. It may be called by several readers at a time.
	Damage func(path string, offset int64, err error)
}

// ErrRunning refuses a directory that a server uses.
var ErrRunning = errors.New("a server uses the directory: stop it, or copy the directory of a stopped server, or take a backup (influxd backup -portable)")

// Refused takes rows that cannot be stored, and why: because of their names, of a type that is
// not that of most values of their field, or of a value that is too long or not a number. The
// run is valid during the call. Its Key is canonical, or the key in InfluxDB if the series has
// a bad name.
type Refused func(reason string, run *rows.Run)

// Shard is one shard of the source.
type Shard struct {
	Database, Policy string
	ID               uint64
	// Times are those of its shard group, or those of its points if the group is not
	// known.
	Times    model.TimeRange
	TSMBytes int64 // of its files, compressed ones as they are
	WALBytes int64
	// Unpacked is about the space in Options.TempDir that a reader needs; 0: none.
	Unpacked int64
	// Values estimates how many values its files have; 0: not known.
	Values int64

	files   []shardFile
	wal     []string
	archive string // a compressed tar of its files, instead of files
	data    string // the directory of its TSM files
	dirs    []string
	state   string // of dirs, when the source was opened
}

// shardFile is a file of a shard, which may be a part of a tar.
type shardFile struct {
	path      string
	size      int64
	open      func() (section, error)
	tombstone *shardFile // of a TSM file; nil: none
}

// section is a file, or a part of one, that is open.
type section struct {
	*io.SectionReader
	io.Closer
}

// openTSM opens a TSM file.
func (f *shardFile) openTSM() (*tsmFile, io.Closer, error) {
	in, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	t, err := openTSM(f.path, in, in.Size())
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	return t, in, nil
}

// Source is a directory with data of InfluxDB. It may be used concurrently; each reader of
// rows belongs to one goroutine.
type Source struct {
	opt     Options
	catalog *catalog.Catalog
	shards  []*Shard
	notes   []string
	unnamed []*Shard
	missing int  // of the notes, those about parts that are not there
	stale   bool // the catalog is
	backup  bool // it is the newest one of a backup
	limits  limits

	known struct {
		sync.Mutex
		series map[string]*catalog.Names // by the directories of databases
	}
}

// limits bound the memory of a reader. They are bytes, except cells.
type limits struct {
	log        int // of the WAL at a time
	tombstones int // of all tombstones at a time
	late       int // of the series of a file that are out of order
	// cells bounds the values that the sources of a series hold, and those of a run, each
	// with its time.
	cells int
}

// defaultLimits leave room for a loader below 512 MiB.
var defaultLimits = limits{log: 96 << 20, tombstones: 64 << 20, late: 64 << 20, cells: 1 << 21}

// Catalog returns what InfluxDB knows besides points.
func (s *Source) Catalog() *catalog.Catalog { return s.catalog }

// Shards returns the shards, those of a policy in order of time.
func (s *Source) Shards() []*Shard { return s.shards }

// Notes returns what a user should know of the source: what it lacks, and what is left
// out of it.
func (s *Source) Notes() []string { return s.notes }

// Missing returns how many parts of the source are not there, as Notes tells: the log, the
// catalog of 1.x.
func (s *Source) Missing() int { return s.missing }

// lack notes a part that is not there.
func (s *Source) lack(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
	s.missing++
}

// Unnamed returns the shards that are left out because the catalog does not name them. It
// does not say that they were dropped either: it may be the catalog of another time.
// Options.Shards brings them.
func (s *Source) Unnamed() []*Shard { return s.unnamed }

// Stale reports whether the catalog is older than the data. What was made since is
// missing: policies, users, continuous queries, and subscriptions.
func (s *Source) Stale() bool { return s.stale }

func (s *Source) damage(path string, offset int64, err error) {
	if s.opt.Damage != nil {
		s.opt.Damage(path, offset, err)
	}
}

// names returns the series of the database of a shard, and the fields of the shard, as far as
// InfluxDB keeps them besides the TSM files.
func (s *Source) names(sh *Shard) (series, fields *catalog.Names) {
	if sh.data == "" {
		return nil, nil
	}
	fields, err := catalog.FieldNames(sh.data)
	if err != nil {
		s.damage(sh.data, -1, fmt.Errorf("names of fields are not checked: %w", err))
	}
	s.known.Lock()
	defer s.known.Unlock()
	database := filepath.Dir(filepath.Dir(sh.data))
	series, read := s.known.series[database]
	if read {
		return series, fields
	}
	if series, err = catalog.SeriesNames(database); err != nil {
		s.damage(database, -1, fmt.Errorf("names of series are not checked: %w", err))
	}
	if s.known.series == nil {
		s.known.series = map[string]*catalog.Names{}
	}
	s.known.series[database] = series
	return series, fields
}

// sorted returns shards in the order of Shards.
func sorted(shards map[shardKey]*Shard) []*Shard {
	return slices.SortedFunc(maps.Values(shards), compareShards)
}

func compareShards(a, b *Shard) int {
	return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Times.Min, b.Times.Min), cmp.Compare(a.ID, b.ID))
}

// openPath opens the file at a path of the file system.
func openPath(path string) (section, error) {
	f, err := os.Open(path)
	if err != nil {
		return section{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return section{}, errors.Join(err, f.Close())
	}
	return section{io.NewSectionReader(f, 0, info.Size()), f}, nil
}
