package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard/manifest"
	"tsdbd/store/layout"
)

// DiskReport is what takes how much space and how many series.
type DiskReport struct {
	Dir       string           `json:"dir"`
	Bytes     int64            `json:"bytes"` // of all files
	WALBytes  int64            `json:"wal_bytes"`
	Databases []DatabaseReport `json:"databases"`
	Damage    []Problem        `json:"damage,omitempty"` // of files that are left out
}

// DatabaseReport is a database's part of a DiskReport.
type DatabaseReport struct {
	Name            string         `json:"name"`
	ID              uint32         `json:"id"`
	Series          uint64         `json:"series"`       // that have rows
	SeriesEver      int            `json:"series_ever"`  // that have an id
	SeriesBytes     int64          `json:"series_bytes"` // of the series file
	Bytes           int64          `json:"bytes"`        // with the series file
	RetentionPolicy []PolicyReport `json:"retention_policies"`
	Boards          []BoardReport  `json:"boards,omitempty"`
}

// BoardReport is a board of a database.
type BoardReport struct {
	ID      uint64 `json:"id"`
	Name    string `json:"name"`
	Edition uint64 `json:"edition"`
	Bytes   int    `json:"bytes"` // of its document
}

// PolicyReport is a retention policy's part.
type PolicyReport struct {
	Name         string              `json:"name"`
	Shards       int                 `json:"shards"`
	Series       uint64              `json:"series"`
	Bytes        int64               `json:"bytes"`
	Measurements []MeasurementReport `json:"measurements"`
}

// MeasurementReport is a measurement's part of a retention policy.
type MeasurementReport struct {
	Name   string `json:"name"`
	Series uint64 `json:"series"`
	Fields int    `json:"fields"`
	// Rows counts the rows in files, with duplicates that no merge has removed
	// yet, and without rows that only the log has.
	Rows int64 `json:"rows"`
	// Bytes are those of its chunks, and of the files' indexes in proportion
	// to its series.
	Bytes int64    `json:"bytes"`
	Tags  []TSITag `json:"tags"`

	values map[string]map[uint64]struct{} // hashes of the tag values
	set    *roaring.Bitmap
}

// Report reads a data directory that no server runs on. Series and tag values
// include what only the log has; bytes are those of files. Tag values are
// counted by their hashes.
func Report(dir string) (*DiskReport, error) {
	st, err := Open(dir, nil)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	dir = path.Clean(dir)
	out := &DiskReport{Dir: dir}
	if out.Bytes, err = treeBytes(vfs.OS, dir); err != nil {
		return nil, err
	}
	out.WALBytes, _ = treeBytes(vfs.OS, path.Join(dir, "wal"))
	for _, d := range st.Catalog().Databases {
		db, err := reportDatabase(st, dir, d, &out.Damage)
		if err != nil {
			return nil, fmt.Errorf("database %s: %w", d.Name, err)
		}
		out.Databases = append(out.Databases, *db)
	}
	return out, nil
}

func reportDatabase(st *Store, dir string, d *meta.Database, damage *[]Problem) (*DatabaseReport, error) {
	out := &DatabaseReport{Name: d.Name, ID: d.ID}
	for _, b := range d.Boards {
		out.Boards = append(out.Boards, BoardReport{b.ID, b.Name, b.Edition, len(b.Content)})
	}
	seriesDir := path.Join(dir, layout.DatabaseDir(d.ID), "series")
	if s, err := Series(vfs.OS, seriesDir, false); err == nil {
		out.SeriesEver = s.Series
	}
	out.SeriesBytes, _ = treeBytes(vfs.OS, seriesDir)
	out.Bytes = out.SeriesBytes
	all := roaring.New()
	for _, rp := range d.RetentionPolicies {
		p := PolicyReport{Name: rp.Name}
		view, err := st.Partial().View(d.Name, rp.Name, model.AllTime)
		if err != nil {
			return nil, err
		}
		set := roaring.New()
		found := map[string]*MeasurementReport{}
		for _, sh := range view.Shards() {
			if err := addIndex(found, sh, set); err != nil {
				*damage = append(*damage, problems(path.Join(dir, layout.ShardDir(d.ID, sh.ID())), err)...)
			}
			p.Shards++
			shardDir := path.Join(dir, layout.ShardDir(d.ID, sh.ID()))
			*damage = append(*damage, addDisk(found, shardDir)...)
			n, _ := treeBytes(vfs.OS, shardDir)
			p.Bytes += n
		}
		view.Release()
		for _, m := range found {
			m.Series = m.set.GetCardinality()
			for k, v := range m.values {
				m.Tags = append(m.Tags, TSITag{k, len(v)})
			}
			slices.SortFunc(m.Tags, func(a, b TSITag) int { return strings.Compare(a.Key, b.Key) })
			p.Measurements = append(p.Measurements, *m)
		}
		slices.SortFunc(p.Measurements, func(a, b MeasurementReport) int { return strings.Compare(a.Name, b.Name) })
		p.Series = set.GetCardinality()
		all.Or(set)
		out.Bytes += p.Bytes
		out.RetentionPolicy = append(out.RetentionPolicy, p)
	}
	out.Series = all.GetCardinality()
	return out, nil
}

// addIndex adds what a shard's index says.
func addIndex(found map[string]*MeasurementReport, sh scan.Shard, all *roaring.Bitmap) error {
	for _, name := range sh.Measurements() {
		m := found[name]
		if m == nil {
			m = &MeasurementReport{Name: name, values: map[string]map[uint64]struct{}{}, set: roaring.New()}
			found[name] = m
		}
		set, err := sh.Select(context.Background(), name, nil)
		if err != nil {
			return err
		}
		m.set.Or(set)
		all.Or(set)
		m.Fields = max(m.Fields, len(sh.Fields(name)))
		keys, err := sh.TagKeys(name)
		if err != nil {
			return err
		}
		for _, key := range keys {
			values, err := sh.TagValues(name, key, nil)
			if err != nil {
				return err
			}
			seen := m.values[key]
			if seen == nil {
				seen = map[uint64]struct{}{}
				m.values[key] = seen
			}
			for _, v := range values {
				seen[xxhash.Sum64String(v)] = struct{}{}
			}
		}
	}
	return nil
}

// addDisk adds what a shard's TSM files hold and returns what cannot be read. A
// shard that was never flushed has no manifest.
func addDisk(found map[string]*MeasurementReport, dir string) (damage []Problem) {
	m, err := manifest.Read(vfs.OS, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return problems(path.Join(dir, manifest.Name), err)
	}
	indexes := int64(0)
	for _, f := range m.TSI {
		indexes += f.Size
	}
	series := 0
	var files []*TSMReport
	for _, f := range m.TSM {
		r, err := TSM(vfs.OS, path.Join(dir, f.Name), false)
		if err != nil {
			damage = append(damage, problems(path.Join(dir, f.Name), err)...)
			continue
		}
		damage = append(damage, r.Damage...)
		files = append(files, r)
		series += r.Series
	}
	for _, r := range files {
		chunks := int64(0)
		for _, x := range r.Measurements {
			chunks += x.Bytes
		}
		// Small chunks lie inside the index: what is left is the keys' and
		// entries', and all indexes are shared out by series.
		rest := max(r.Bytes-chunks, 0) + indexes*int64(r.Series)/int64(max(series, 1))
		for _, x := range r.Measurements {
			mr := found[x.Name]
			if mr == nil {
				continue // all of it is deleted
			}
			mr.Rows += x.Rows
			mr.Bytes += x.Bytes + rest*int64(x.Series)/int64(max(r.Series, 1))
		}
	}
	return damage
}

// treeBytes returns the size of the files under a directory.
func treeBytes(fsys vfs.FS, dir string) (int64, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, n := range names {
		name := path.Join(dir, n)
		st, err := fsys.Stat(name)
		if err != nil {
			continue
		}
		if !st.IsDir() {
			total += st.Size()
			continue
		}
		sub, err := treeBytes(fsys, name)
		if err != nil {
			return 0, err
		}
		total += sub
	}
	return total, nil
}

func (r *DiskReport) damage() []Problem { return r.Damage }

// WriteText writes the report for people, the largest measurements first.
func (r *DiskReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s, of it the log %s\n", r.Dir, bytesText(r.Bytes), bytesText(r.WALBytes))
	for _, d := range r.Databases {
		fmt.Fprintf(w, "\ndatabase %s (%d): %s, of it the series file %s; %d series, %d ever\n", d.Name, d.ID, bytesText(d.Bytes), bytesText(d.SeriesBytes), d.Series, d.SeriesEver)
		for _, p := range d.RetentionPolicy {
			fmt.Fprintf(w, "\nretention policy %s: %s in %d shards, %d series\n", p.Name, bytesText(p.Bytes), p.Shards, p.Series)
			t := newTable(w, "measurement", "bytes", "rows", "series", "fields", "tag values")
			list := slices.Clone(p.Measurements)
			slices.SortStableFunc(list, func(a, b MeasurementReport) int { return int(min(max(b.Bytes-a.Bytes, -1), 1)) })
			for _, m := range list {
				tags := slices.Clone(m.Tags)
				slices.SortStableFunc(tags, func(a, b TSITag) int { return b.Values - a.Values })
				var text []string
				for _, x := range tags {
					text = append(text, fmt.Sprintf("%s %d", x.Key, x.Values))
				}
				t.row(m.Name, bytesText(m.Bytes), m.Rows, m.Series, m.Fields, strings.Join(text, ", "))
			}
			if err := t.flush(); err != nil {
				return err
			}
		}
		if len(d.Boards) > 0 {
			fmt.Fprintf(w, "\nboards: %d\n", len(d.Boards))
			t := newTable(w, "name", "id", "edition", "bytes")
			for _, b := range d.Boards {
				t.row(fmt.Sprintf("%q", b.Name), b.ID, b.Edition, b.Bytes)
			}
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
	return writeProblems(w, r.Damage)
}
