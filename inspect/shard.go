package inspect

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
)

// ManifestReport is what a shard's manifest says.
type ManifestReport struct {
	Path string `json:"path"`
	*manifest.Manifest
	TombstoneSeries []uint64 `json:"tombstone_series"` // number of series of each tombstone
	RemovedSeries   uint64   `json:"removed_series"`
	GoneSeries      []uint64 `json:"gone_series"` // of each TSM file: in it, but its rows are in another file
}

// Manifest reads a manifest, given by the path of a copy or by the shard's
// directory, where the newer copy that is sound counts.
func Manifest(fsys vfs.FS, name string) (*ManifestReport, error) {
	var m *manifest.Manifest
	var err error
	if slices.Contains(manifest.Names[:], path.Base(name)) {
		var b []byte
		if b, err = vfs.ReadFile(fsys, name); err == nil {
			m, err = manifest.Decode(name, b)
		}
	} else {
		m, err = manifest.Read(fsys, name)
		name = path.Join(name, manifest.Name)
	}
	if err != nil {
		return nil, err
	}
	r := &ManifestReport{Path: name, Manifest: m, RemovedSeries: m.Removed.GetCardinality()}
	for _, t := range m.Tombstones {
		r.TombstoneSeries = append(r.TombstoneSeries, t.Series.GetCardinality())
	}
	for _, f := range m.TSM {
		n := uint64(0)
		if f.Gone != nil {
			n = f.Gone.GetCardinality()
		}
		r.GoneSeries = append(r.GoneSeries, n)
	}
	return r, nil
}

// WriteText writes the report for people.
func (r *ManifestReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: shard %d of %s, edition %d, flushed up to sequence %d, next file %d\n\n", r.Path, r.Shard, r.Lineage, r.Edition, r.Flushed, r.Next)
	t := newTable(w, "file", "bytes", "checksum", "sequences", "tombstones applied", "level")
	for _, f := range r.TSM {
		t.row(f.Name, bytesText(f.Size), fmt.Sprintf("%016x", f.Checksum), fmt.Sprintf("%d-%d", f.MinSequence, f.MaxSequence), f.TombstonesSequence, f.Level)
	}
	for _, f := range r.TSI {
		t.row(f.Name, bytesText(f.Size), fmt.Sprintf("%016x", f.Checksum), "", "", "")
	}
	if err := t.flush(); err != nil {
		return err
	}
	for i, x := range r.Tombstones {
		fmt.Fprintf(w, "tombstone %d: %d series, %s to %s\n", x.Sequence, r.TombstoneSeries[i], timeText(x.Range.Min), timeText(x.Range.Max))
	}
	for i, f := range r.TSM {
		if n := r.GoneSeries[i]; n > 0 {
			fmt.Fprintf(w, "%s: %d series are in other files since moves were made\n", f.Name, n)
		}
	}
	for _, x := range r.Moves {
		fmt.Fprintf(w, "move %d: %d series, %s\n", x.Sequence, x.Pairs.Len(), x.Change.String())
	}
	_, err := fmt.Fprintf(w, "%d series removed from the index but still in its files\n", r.RemovedSeries)
	return err
}

// ShardReport is what a shard's directory holds.
type ShardReport struct {
	Dir      string          `json:"dir"`
	Manifest *ManifestReport `json:"manifest"`
	TSM      []*TSMReport    `json:"tsm"`
	TSI      []*TSIReport    `json:"tsi"`
	Strays   []string        `json:"strays"` // files the manifest does not name
	Damage   []Problem       `json:"damage,omitempty"`
}

// Shard reads a shard's directory. Damage lists files that cannot be read. A
// directory without a sound manifest is an error.
func Shard(fsys vfs.FS, dir string) (*ShardReport, error) {
	m, err := Manifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	r := &ShardReport{Dir: dir, Manifest: m}
	for _, f := range m.TSM {
		x, err := TSM(fsys, path.Join(dir, f.Name), false)
		if err != nil {
			r.Damage = append(r.Damage, problems(path.Join(dir, f.Name), err)...)
			continue
		}
		r.TSM = append(r.TSM, x)
	}
	for _, f := range m.TSI {
		x, err := TSI(fsys, path.Join(dir, f.Name))
		if err != nil {
			r.Damage = append(r.Damage, problems(path.Join(dir, f.Name), err)...)
			continue
		}
		r.TSI = append(r.TSI, x)
	}
	r.Strays, err = unnamed(fsys, dir, m.Manifest)
	return r, err
}

// unnamed lists the files of a shard's directory that its manifest does not
// name: what a crash left, removed when a server opens the shard.
func unnamed(fsys vfs.FS, dir string, m *manifest.Manifest) ([]string, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{repair.QuarantineDir: true}
	for _, n := range manifest.Names {
		known[n] = true
	}
	for _, f := range append(append([]manifest.File(nil), m.TSM...), m.TSI...) {
		known[f.Name] = true
	}
	var out []string
	for _, n := range names {
		if !known[n] {
			out = append(out, n)
		}
	}
	return out, nil
}

func (r *ShardReport) damage() []Problem {
	out := slices.Clone(r.Damage)
	for _, f := range r.TSM {
		out = append(out, f.Damage...)
	}
	for _, f := range r.TSI {
		out = append(out, f.Damage...)
	}
	return out
}

// WriteText writes the report for people.
func (r *ShardReport) WriteText(w io.Writer) error {
	if err := r.Manifest.WriteText(w); err != nil {
		return err
	}
	for _, f := range r.TSM {
		fmt.Fprintln(w)
		if err := f.WriteText(w); err != nil {
			return err
		}
	}
	for _, f := range r.TSI {
		fmt.Fprintln(w)
		if err := f.WriteText(w); err != nil {
			return err
		}
	}
	if len(r.Strays) > 0 {
		fmt.Fprintf(w, "\nfiles the manifest does not name: %s\n", strings.Join(r.Strays, ", "))
	}
	return writeProblems(w, r.Damage)
}
