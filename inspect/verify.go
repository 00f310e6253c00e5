package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/overlay"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/shard/moves"
	"tsdbd/shard/repair"
	"tsdbd/shard/tails"
	"tsdbd/store"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
	"tsdbd/store/touched"
	"tsdbd/tsi"
	"tsdbd/tsm"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// VerifyReport is what a check has found.
type VerifyReport struct {
	Dir    string `json:"dir"`
	Sound  bool   `json:"sound"` // no problem but notices
	State  State  `json:"state"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	Series int    `json:"series"`
	Rows   int64  `json:"rows"` // in TSM files
	// ColdFiles are those whose bodies, of ColdBytes, are in the cold store. They were not read.
	ColdFiles int       `json:"cold_files,omitempty"`
	ColdBytes int64     `json:"cold_bytes,omitempty"`
	Entries   int       `json:"wal_entries"`
	Problems  []Problem `json:"problems"`
}

// WriteText writes the report for people.
func (r *VerifyReport) WriteText(w io.Writer) error {
	if err := writeProblems(w, r.Problems); err != nil {
		return err
	}
	if r.State.unread() {
		_, err := fmt.Fprintf(w, "%s: %s\n", r.Dir, strings.ToUpper(string(r.State)))
		return err
	}
	state := "sound"
	if !r.Sound {
		state = "DAMAGED"
	}
	_, err := fmt.Fprintf(w, "%s: %s; %d files, %s, %d series, %d rows in files, %d log entries\n", r.Dir, state, r.Files, bytesText(r.Bytes), r.Series, r.Rows, r.Entries)
	if r.ColdFiles > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%d files of %s are cold: their tails were checked. tsdbd cold verify checks the objects.\n", r.ColdFiles, bytesText(r.ColdBytes))
	}
	return err
}

// openTSM opens a TSM file, or the tail of one, whose body is not to be read.
func openTSM(fsys vfs.FS, name string) (*tsm.Reader, error) {
	if manifest.IsTail(path.Base(name)) {
		return tsm.OpenTail(fsys, name, tails.Absent{Object: path.Base(name)})
	}
	return tsm.Open(fsys, name)
}

// VerifyOptions say how a check is done. The zero value works.
type VerifyOptions struct {
	FS vfs.FS // default vfs.OS
	// Progress, if set, is called with each file before it is read.
	Progress func(path string)
	// Live, for a directory that a server works on, gives the shards' state;
	// nil: what their manifests say.
	Live *store.BackupSet
}

// Verify reads every byte of a data directory and checks it: all checksums,
// that files are those their manifests name, that values, statistics and
// counts agree, and that catalog, series file, indexes and data agree with each
// other. An error is one of access or of ctx, or a binio.ErrVersion:
// what another build has written cannot be checked. Damage is in the report.
func Verify(ctx context.Context, dir string, opt VerifyOptions) (*VerifyReport, error) {
	if opt.FS == nil {
		opt.FS = vfs.OS
	}
	v := &verifier{ctx: ctx, opt: opt, fs: opt.FS, dir: path.Clean(dir)}
	v.r = &VerifyReport{Dir: v.dir, Problems: []Problem{}}
	if _, err := v.fs.Stat(v.dir); err != nil {
		return nil, err
	}
	if opt.Live == nil {
		if err := CheckData(v.fs, v.dir); err != nil {
			return nil, err
		}
	}
	if err := v.all(); err != nil {
		return nil, err
	}
	if v.other != nil {
		return nil, v.other
	}
	v.r.Sound, v.r.State = true, Sound
	for _, p := range v.r.Problems {
		if !p.Notice {
			v.r.Sound, v.r.State = false, Damaged
		}
	}
	return v.r, nil
}

type verifier struct {
	ctx context.Context
	opt VerifyOptions
	fs  vfs.FS
	dir string
	r   *VerifyReport

	lineage identity.Lineage // of the directory, as the catalog says
	ledger  *ledger.Ledger   // nil: there is none
	applied uint64           // the highest sequence that manifests have flushed
	other   error            // of the first file of another version
}

func (v *verifier) all() error {
	data, err := v.catalog()
	if err != nil || data == nil {
		return errors.Join(err, v.log())
	}
	v.lineage = data.Lineage
	if err := v.readLedger(); err != nil {
		return err
	}
	if err := v.touched(data); err != nil {
		return err
	}
	if err := v.directories(data); err != nil {
		return err
	}
	for _, d := range data.Databases {
		if err := v.database(d, data.Dropped.Shards); err != nil {
			return err
		}
	}
	return v.log()
}

// begin counts a file and reports progress.
func (v *verifier) begin(name string) error {
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if v.opt.Progress != nil {
		v.opt.Progress(name)
	}
	if st, err := v.fs.Stat(name); err == nil && !st.IsDir() {
		v.r.Files++
		v.r.Bytes += st.Size()
	}
	return nil
}

func (v *verifier) add(path string, err error) {
	if v.other == nil && errors.Is(err, binio.ErrVersion) {
		v.other = err
	}
	v.r.Problems = append(v.r.Problems, problems(path, err)...)
}

func (v *verifier) notice(path, format string, args ...any) {
	v.r.Problems = append(v.r.Problems, Problem{Path: path, Offset: -1, Reason: fmt.Sprintf(format, args...), Notice: true})
}

// catalog checks both copies and returns the newer one; nil if there is none.
func (v *verifier) catalog() (*meta.Data, error) {
	var best *meta.Data
	var seen []*meta.Data
	var torn []error
	missing := 0
	for _, n := range meta.CopyNames() {
		name := path.Join(v.dir, "meta", n)
		if err := v.begin(name); err != nil {
			return nil, err
		}
		d, err := meta.ReadFile(v.fs, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing++
			v.notice(name, "copy of the catalog is missing")
		case errors.Is(err, meta.ErrTorn):
			torn = append(torn, err)
		case err != nil:
			v.add(name, err)
		default:
			seen = append(seen, d)
			if best == nil || d.Index > best.Index {
				best = d
			}
		}
	}
	for _, err := range torn {
		for _, p := range problems("", err) {
			p.Notice = best != nil // which has what was acknowledged
			v.r.Problems = append(v.r.Problems, p)
		}
	}
	switch {
	case v.opt.Live != nil:
		return v.opt.Live.Catalog, nil
	case best == nil && missing == 2:
		names, err := v.fs.List(v.dir)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if strings.HasPrefix(n, "db-") {
				v.add(path.Join(v.dir, "meta"), fmt.Errorf("there are databases but no catalog that names them"))
				break
			}
		}
	case len(seen) == 2 && seen[0].Index != seen[1].Index:
		v.notice(path.Join(v.dir, "meta"), "copies of the catalog have index %d and %d, the newer one counts", seen[0].Index, seen[1].Index)
	}
	return v.logged(best), nil
}

// logged returns the catalog with the changes that only the log has, as a start
// makes them. The check of the log reports its damage.
func (v *verifier) logged(data *meta.Data) *meta.Data {
	if data == nil {
		return nil
	}
	_, _, _ = wal.Inspect(v.fs, path.Join(v.dir, "wal"), func(s *wal.SegmentInfo, e *entry.Entry) error {
		if len(e.Command) > 0 && e.Sequence > data.Applied {
			switch ch, err := meta.DecodeCommand(e.Command); {
			case err == nil:
				data, _, _ = ch.Apply(e.Sequence, data)
			case errors.Is(err, binio.ErrVersion): // a start would refuse it
				v.add(s.Path, binio.InFile(err, s.Path))
			}
		}
		return v.ctx.Err()
	})
	return data
}

// directories compares the directories with the catalog.
func (v *verifier) directories(data *meta.Data) error {
	names, err := v.fs.List(v.dir)
	if err != nil {
		return err
	}
	v.quarantine(v.dir)
	known := map[string]bool{}
	for _, d := range data.Databases {
		known[layout.DatabaseDir(d.ID)] = true
		if _, err := v.fs.Stat(path.Join(v.dir, layout.DatabaseDir(d.ID))); errors.Is(err, fs.ErrNotExist) {
			v.notice(path.Join(v.dir, layout.DatabaseDir(d.ID)), "database %q has no directory", d.Name)
		}
	}
	for _, n := range names {
		if strings.HasPrefix(n, "db-") && !known[n] && v.opt.Live == nil {
			v.unnamed(path.Join(v.dir, n), slices.ContainsFunc(data.Dropped.Databases, func(id uint32) bool { return layout.DatabaseDir(id) == n }))
		}
	}
	return nil
}

// readLedger checks the ledger.
func (v *verifier) readLedger() error {
	name := path.Join(v.dir, "meta", ledger.Name)
	if err := v.begin(name); err != nil {
		return err
	}
	l, whole, err := ledger.Read(v.fs, v.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		v.add(name, err)
	case l.Lineage != v.lineage:
		v.add(name, binio.Corruptf(name, -1, "ledger of data directory %s, the catalog is that of %s", l.Lineage, v.lineage))
	default:
		v.ledger = l
		if !whole {
			v.notice(name, "records are damaged or not finished, a server will write it again")
		}
	}
	return nil
}

// touched checks the marks of windows of downsamples.
func (v *verifier) touched(data *meta.Data) error {
	name := path.Join(v.dir, "meta", touched.Name)
	if err := v.begin(name); err != nil {
		return err
	}
	switch err := touched.Check(v.fs, path.Dir(name), v.lineage); {
	case err == nil:
	case errors.Is(err, binio.ErrVersion):
		v.notice(name, "%v. A server sets it aside, and compares all windows of downsamples", err)
	case !errors.Is(err, fs.ErrNotExist):
		v.add(name, err)
	default:
		for range data.Downsamples() {
			v.notice(name, "touched windows are missing, a server will compare all windows of downsamples")
			break
		}
	}
	return nil
}

// unnamed reports a directory that the catalog does not name. dropped says that
// the catalog has recorded its drop.
func (v *verifier) unnamed(dir string, dropped bool) {
	if dropped {
		v.notice(dir, "it was dropped, a server will remove it")
		return
	}
	v.add(dir, errors.New("the catalog does not name this directory, a server will set it aside"))
}

// database checks a database's series file and shards.
func (v *verifier) database(d *meta.Database, dropped []uint64) error {
	dir := path.Join(v.dir, layout.DatabaseDir(d.ID))
	if _, err := v.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		for _, rp := range d.RetentionPolicies {
			for _, g := range rp.ShardGroups {
				for _, m := range g.Shards {
					if v.known(m.ID).Edition > 0 {
						v.add(dir, binio.Corruptf(dir, -1, "the directory is gone: the ledger says that shard %d in it had files", m.ID))
					}
				}
			}
		}
		return nil
	}
	v.quarantine(dir)
	series, err := v.series(path.Join(dir, "series"), identity.Database{Lineage: v.lineage, ID: d.ID})
	if err != nil {
		return err
	}
	if series != nil {
		defer series.Close()
	}
	known := map[string]bool{}
	for _, rp := range d.RetentionPolicies {
		for _, g := range rp.ShardGroups {
			for _, m := range g.Shards {
				known[path.Base(layout.ShardDir(d.ID, m.ID))] = true
				if err := v.shard(path.Join(v.dir, layout.ShardDir(d.ID, m.ID)), m.ID, g, series); err != nil {
					return err
				}
			}
		}
	}
	names, err := v.fs.List(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "shard-") && !known[n] && v.opt.Live == nil {
			v.unnamed(path.Join(dir, n), slices.ContainsFunc(dropped, func(id uint64) bool { return path.Base(layout.ShardDir(d.ID, id)) == n }))
		}
	}
	return nil
}

// quarantine reports the files that a server has moved to the quarantine of dir.
func (v *verifier) quarantine(dir string) {
	q := repair.NewQuarantine(v.fs, dir, slog.New(slog.DiscardHandler))
	if err := q.Read(); err != nil {
		v.add(dir, err)
	}
	for _, f := range q.List() {
		v.add(f.Path, errors.New("set aside by a server: "+f.Text))
	}
}

// series checks a series file and returns it, nil when it cannot be used.
func (v *verifier) series(dir string, owner identity.Database) (*series.File, error) {
	name := path.Join(dir, series.LogName)
	var ids ledger.IDs
	if v.ledger != nil && v.opt.Live == nil { // or it may know of newer ones
		ids = v.ledger.IDs[owner.ID]
	}
	if _, err := v.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if err := ids.Lacks(1, v.dir, owner.ID); err != nil {
			v.add(name, err)
		}
		return nil, nil // a database that was never flushed
	}
	for _, n := range []string{series.LogName, series.IndexName} {
		if err := v.begin(path.Join(dir, n)); err != nil {
			return nil, err
		}
	}
	over := overlay.New(v.fs)
	if live := v.opt.Live; live != nil {
		// What a flush appends meanwhile is left out, and with it the index.
		for _, s := range live.Series {
			if path.Join(v.dir, layout.DatabaseDir(s.Database), "series") == dir {
				over.Map(name, overlay.Part{Path: name, Size: s.Size})
				_ = over.Remove(path.Join(dir, series.IndexName))
			}
		}
	}
	// What opening puts right, it only warns of: a torn end, for the log has
	// the keys, and an index, which follows from the log.
	var warned warnings
	f, err := series.Open(over, dir, series.Options{Identity: owner, Logger: slog.New(&warned)})
	if err != nil {
		v.add(name, err)
		return nil, nil
	}
	found := map[string]bool{}
	add := func(p Problem) {
		if key := fmt.Sprint(p.Path, p.Offset); !found[key] {
			found[key] = true
			v.r.Problems = append(v.r.Problems, p)
		}
	}
	damage := f.Verify(nil)
	if err := ids.Lacks(f.Given(), v.dir, owner.ID); err != nil {
		damage = append(damage, err)
	}
	for _, err := range damage {
		for _, p := range problems(name, err) {
			add(p)
		}
	}
	for _, w := range warned.list {
		for _, p := range problems(name, w.err) {
			p.Notice = path.Base(p.Path) == series.LogName
			p.Reason = w.text + ": " + p.Reason
			add(p)
		}
	}
	v.r.Series += f.Len()
	return f, nil
}

// log checks the log's segments.
func (v *verifier) log() error {
	dir := path.Join(v.dir, "wal")
	infos, damage, err := wal.Inspect(v.fs, dir, func(*wal.SegmentInfo, *entry.Entry) error {
		v.r.Entries++
		return v.ctx.Err()
	})
	if err != nil {
		if v.ctx.Err() != nil {
			return err
		}
		v.add(dir, err)
	}
	for _, s := range infos {
		if err := v.begin(s.Path); err != nil {
			return err
		}
	}
	v.logEnd(dir, infos)
	lost, err := wal.Lost(v.fs, dir)
	if err != nil {
		return err
	}
	for _, name := range lost {
		v.add(name, errors.New("a damaged span of the log, or a text about entries that are missing, that a server has set aside: the points of these entries are lost"))
	}
	for _, d := range damage {
		if d.Torn && v.opt.Live != nil {
			continue // a write under way
		}
		v.r.Problems = append(v.r.Problems, walProblem(d))
	}
	return nil
}

// logEnd holds the log against the catalog's lineage and what the ledger says of
// its end.
func (v *verifier) logEnd(dir string, infos []wal.SegmentInfo) {
	newest, last := uint64(0), uint64(0)
	for _, s := range infos {
		if v.lineage != (identity.Lineage{}) && s.Lineage != v.lineage && s.Lineage != (identity.Lineage{}) {
			v.add(s.Path, binio.Corruptf(s.Path, -1, "segment of data directory %s, the catalog is that of %s", s.Lineage, v.lineage))
			continue
		}
		newest, last = max(newest, s.Number), max(last, s.Last)
	}
	if v.ledger == nil || v.ledger.Log.Told || v.opt.Live != nil {
		return
	}
	known := v.ledger.Log
	if known.Segment > 0 && !v.ledger.Relaxed {
		known.Sequence = max(known.Sequence, v.applied) // it was in the log before it was in files
	}
	switch {
	case known.Segment > newest:
		v.add(dir, binio.Corruptf(dir, -1, "segment %d is missing, the last of the log", known.Segment))
	case known.Sequence > last:
		v.add(dir, binio.Corruptf(dir, -1, "entries %d to %d are missing at the end of the log", last+1, known.Sequence))
	}
}

// shard checks a shard's manifest, its files, and that index, series file and
// data say the same.
func (v *verifier) shard(dir string, id uint64, g *meta.ShardGroup, series *series.File) error {
	name := path.Join(dir, manifest.Name)
	v.quarantine(dir)
	var m *manifest.Manifest
	if live := v.opt.Live; live != nil {
		for _, e := range live.Shards {
			if e.ID == id {
				m = e.Manifest
			}
		}
		if m == nil {
			return nil
		}
	} else {
		var err error
		known := v.known(id)
		if m, err = v.manifest(dir, id); m == nil || err != nil {
			if err == nil && known.Edition > 0 {
				v.add(name, binio.Corruptf(name, -1, "the files of shard %d are gone: the ledger says that it had some", id))
			}
			return err
		}
		v.add(name, known.Check(m))
		left, err := unnamed(v.fs, dir, m)
		if err != nil {
			return err
		}
		for _, n := range left {
			what := "not in the manifest, a server leaves it alone"
			if repair.Leftover(n) {
				what = "not in the manifest, a server will remove it or set it aside"
			}
			v.notice(path.Join(dir, n), "%s", what)
		}
	}
	v.applied = max(v.applied, m.Flushed)
	index, err := v.index(dir, m)
	if err != nil {
		return err
	}
	if index != nil {
		defer index.Close()
	}
	covered := uint64(0)
	for i := range m.TSM {
		f := &m.TSM[i]
		// Files of one merge cover the same sequences and split the series.
		split := i > 0 && f.MinSequence == m.TSM[i-1].MinSequence && f.MaxSequence == m.TSM[i-1].MaxSequence
		if f.MinSequence <= covered && !split {
			v.add(name, binio.Corruptf(name, -1, "%s begins at sequence %d, the file before ends at %d", f.Name, f.MinSequence, covered))
		}
		covered = f.MaxSequence
		if err := v.tsm(path.Join(dir, f.Name), f, m, g, series, index); err != nil {
			return err
		}
	}
	return nil
}

// known returns what the ledger says of the manifest of a shard.
func (v *verifier) known(id uint64) manifest.Known {
	if v.ledger == nil {
		return manifest.Known{}
	}
	return v.ledger.Shards[id].Known
}

// manifest checks both copies of a shard's manifest and returns the one that
// counts, nil if there is none.
func (v *verifier) manifest(dir string, id uint64) (best *manifest.Manifest, err error) {
	var texts [][]byte
	missing := []string{}
	for _, n := range manifest.Names {
		name := path.Join(dir, n)
		if err := v.begin(name); err != nil {
			return nil, err
		}
		c := manifest.ReadCopy(v.fs, dir, n)
		m, err := c.Manifest, c.Err
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, name)
			continue
		case err != nil:
		case m.Lineage != v.lineage:
			err = binio.Corruptf(name, -1, "manifest of data directory %s, the catalog is that of %s", m.Lineage, v.lineage)
		case m.Shard != id:
			err = binio.Corruptf(name, -1, "manifest of shard %d", m.Shard)
		}
		if err != nil {
			v.add(name, err)
			continue
		}
		if texts = append(texts, c.Bytes); best == nil || m.Edition > best.Edition {
			best = m
		}
	}
	switch {
	case len(missing) == 2:
		if names, _ := v.fs.List(dir); len(names) > 0 {
			v.notice(dir, "files without a manifest: a flush that was not finished, its rows are in the log")
		}
	case len(missing) == 1:
		v.notice(missing[0], "copy of the manifest is missing")
	case len(texts) == 2 && !bytes.Equal(texts[0], texts[1]):
		v.notice(path.Join(dir, manifest.Name), "copies of the manifest differ, the newer one counts")
	}
	return best, nil
}

// index checks the TSI files and returns the index that they make up, nil if
// one of them cannot be used.
func (v *verifier) index(dir string, m *manifest.Manifest) (*tsi.Index, error) {
	var files []*tsi.File
	sound := true
	for i := range m.TSI {
		rec := &m.TSI[i]
		name := path.Join(dir, rec.Name)
		if err := v.begin(name); err != nil {
			return nil, err
		}
		f, err := v.tsi(name, rec)
		if err != nil {
			v.add(name, err)
			sound = false
		}
		if f != nil {
			files = append(files, f)
		}
	}
	if sound {
		x, err := tsi.NewIndex(tsi.IndexOptions{Files: files, Removed: m.Removed})
		if err == nil {
			return x, nil
		}
		v.add(path.Join(dir, manifest.Name), err)
	}
	for _, f := range files {
		_ = f.Release()
	}
	return nil, nil
}

// tsi checks one index file. A file it returns is open.
func (v *verifier) tsi(name string, rec *manifest.File) (*tsi.File, error) {
	st, err := v.fs.Stat(name)
	if err != nil {
		return nil, err
	}
	if st.Size() != rec.Size {
		return nil, binio.Corruptf(name, min(st.Size(), rec.Size), "%d bytes, the manifest says %d", st.Size(), rec.Size)
	}
	f, err := tsi.OpenFile(v.fs, name)
	if err != nil {
		return nil, err
	}
	if err := f.Verify(); err != nil {
		return f, err
	}
	sum, err := HashFile(v.fs, name)
	if err == nil && sum != rec.Checksum {
		err = binio.Corruptf(name, -1, "checksum %016x, the manifest says %016x", sum, rec.Checksum)
	}
	return f, err
}

// tsm checks one data file and holds its keys and fields against the others.
func (v *verifier) tsm(name string, rec *manifest.File, m *manifest.Manifest, g *meta.ShardGroup, series *series.File, index *tsi.Index) error {
	if err := v.begin(name); err != nil {
		return err
	}
	st, err := v.fs.Stat(name)
	if err != nil {
		v.add(name, err)
		return nil
	}
	if st.Size() != rec.Size && !rec.Cold() {
		v.add(name, binio.Corruptf(name, min(st.Size(), rec.Size), "%d bytes, the manifest says %d", st.Size(), rec.Size))
	}
	r, err := openTSM(v.fs, name)
	if err != nil {
		v.add(name, err)
		return nil
	}
	defer r.Close()
	if rec.Cold() {
		v.r.ColdFiles++
		v.r.ColdBytes += rec.Size
		err = r.VerifyTail(v.ctx)
	} else {
		err = r.Verify(v.ctx)
	}
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	v.add(name, err)
	info := r.Info()
	v.r.Rows += info.Rows
	if info.Checksum != rec.Checksum {
		v.add(name, binio.Corruptf(name, -1, "another file: checksum %016x, the manifest says %016x", info.Checksum, rec.Checksum))
		return nil
	}
	if !info.Range.Empty() && !g.TimeRange().Covers(info.Range) {
		v.add(name, binio.Corruptf(name, -1, "rows from %s to %s, outside of the shard", timeText(info.Range.Min), timeText(info.Range.Max)))
	}
	if err != nil || index == nil {
		return nil // the keys or the index cannot be trusted
	}
	all := moves.NewList(slices.Clone(m.Moves))
	a := agreement{v: v, name: name, rec: rec, m: m, door: all.Door(rec.MaxSequence), series: series, view: index.View()}
	defer a.view.Release()
	damage, err := eachSeries(r, a.check)
	v.r.Problems = append(v.r.Problems, damage...)
	if err != nil && v.ctx.Err() == nil {
		v.add(name, err)
	}
	if more := a.found - maxDisagreements; more > 0 {
		v.add(name, binio.Corruptf(name, -1, "the same for %d more series", more))
	}
	return v.ctx.Err()
}

// agreement holds a data file's series against index and series file.
type agreement struct {
	v      *verifier
	name   string
	rec    *manifest.File
	m      *manifest.Manifest
	door   *moves.Door // to the file
	series *series.File
	view   *tsi.View
	found  int

	measurement string
	types       map[string]model.FieldType
	set         *roaring.Bitmap
	ids         int
}

// maxDisagreements is how many series of one file are reported one by one.
const maxDisagreements = 8

func (a *agreement) bad(format string, args ...any) error {
	if a.found++; a.found <= maxDisagreements {
		a.v.add(a.name, binio.Corruptf(a.name, -1, format, args...))
	}
	return nil
}

func (a *agreement) check(key []byte, s *tsm.Series) error {
	if a.ids++; a.ids&1023 == 0 && a.v.ctx.Err() != nil {
		return a.v.ctx.Err()
	}
	if a.series == nil {
		return a.bad("series %d %q: the database has no series file", s.ID, key)
	}
	if a.rec.Lacks(s.ID) {
		return nil // its rows were taken to another file
	}
	have, err := a.series.Key(s.ID)
	switch {
	case errors.Is(err, series.ErrNotFound):
		return a.bad("series %d %q is not in the series file", s.ID, key)
	case err != nil:
		return nil // reported already
	case have != string(key):
		return a.bad("series %d is %q here and %q in the series file", s.ID, key, have)
	}
	var id model.SeriesID
	hidden := false
	fields, _ := a.door.Present(0, s.ID, have, s.Fields, func(k model.SeriesID, name string) error {
		hidden = hidden || a.hidden(k, s)
		id, have = k, name
		return nil
	})
	if hidden {
		return nil
	}
	if !a.view.Contains(uint32(id)) {
		return a.bad("series %d %q has rows but is not in the index", id, have)
	}
	if name := model.SeriesMeasurement(have); a.types == nil || name != a.measurement {
		a.measurement, a.types = name, map[string]model.FieldType{}
		for _, f := range a.view.Fields(name) {
			a.types[f.Key] = f.Type
		}
		if a.set, err = a.view.Series(name); err != nil {
			return err
		}
	}
	if !a.set.Contains(uint32(id)) {
		return a.bad("series %d %q: the index has it under another measurement", id, have)
	}
	for _, f := range fields {
		if t := a.types[f.Key]; t != f.Type {
			return a.bad("series %d %q: field %q is %s here and %s in the index", id, have, f.Key, f.Type, t)
		}
	}
	return nil
}

// hidden reports whether tombstones may hide rows of the series under the name id: then
// nothing follows from the index not knowing it, or knowing other fields.
func (a *agreement) hidden(id model.SeriesID, s *tsm.Series) bool {
	r := s.TimeRange()
	for _, t := range a.m.Tombstones {
		if t.Hides(a.rec) && t.Range.Overlaps(r) && t.Series.Contains(uint32(id)) {
			return true
		}
	}
	return false
}

// warnings is a log handler that keeps the errors of warnings.
type warnings struct{ list []warning }

type warning struct {
	text string
	err  error
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler           { return w }
func (w *warnings) WithGroup(string) slog.Handler                { return w }
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			w.list = append(w.list, warning{r.Message, err})
		}
		return true
	})
	return nil
}
