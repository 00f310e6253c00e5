package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
	"tsdbd/tsm"
)

// EncodingsReport says how the values of TSM files are written.
type EncodingsReport struct {
	Path      string     `json:"path"`
	Files     int        `json:"files"`
	Bytes     int64      `json:"bytes"` // of the files
	Values    int64      `json:"values"`
	Encodings []Encoding `json:"encodings"`
	Damage    []Problem  `json:"damage,omitempty"`
}

// Encoding is the part of an EncodingsReport that one encoding of one type has.
type Encoding struct {
	Type     string `json:"type"` // of a field, or "time"
	Encoding string `json:"encoding"`
	Blocks   int64  `json:"blocks"`
	Values   int64  `json:"values"`
	Bytes    int64  `json:"bytes"` // of the blocks, without checksums and index
}

// encodingTries is how often the files of a shard are looked for again that a
// running server merges meanwhile.
const encodingTries = 5

// Encodings reads a TSM file, or all files in the manifests of the shards at or
// below a directory. It needs no lock. What cannot be read is left out and listed
// in Damage.
func Encodings(fsys vfs.FS, name string) (*EncodingsReport, error) {
	st, err := fsys.Stat(name)
	if err != nil {
		return nil, err
	}
	r := &EncodingsReport{Path: name}
	if st.IsDir() {
		err = r.directory(fsys, name)
	} else {
		err = r.file(fsys, name)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(r.Encodings, func(a, b Encoding) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Encoding, b.Encoding))
	})
	return r, nil
}

// directory adds the shards at or below a directory.
func (r *EncodingsReport) directory(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(manifest.Names[:], n) }) {
		return r.shard(fsys, dir)
	}
	for _, n := range names {
		if n == repair.QuarantineDir {
			continue
		}
		st, err := fsys.Stat(path.Join(dir, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			return err
		}
		if st.IsDir() {
			if err := r.directory(fsys, path.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// shard adds the files of a shard, all as one manifest names them.
func (r *EncodingsReport) shard(fsys vfs.FS, dir string) error {
	for try := 1; ; try++ {
		m, err := manifest.Read(fsys, dir)
		if err != nil {
			r.Damage = append(r.Damage, problems(path.Join(dir, manifest.Name), err)...)
			return nil
		}
		part := EncodingsReport{}
		for _, f := range m.TSM {
			name := path.Join(dir, f.Name)
			if err = part.file(fsys, name); errors.Is(err, fs.ErrNotExist) && try < encodingTries {
				break
			}
			part.Damage = append(part.Damage, problems(name, err)...)
			err = nil
		}
		if err == nil {
			r.merge(&part)
			return nil
		}
	}
}

func (r *EncodingsReport) merge(part *EncodingsReport) {
	r.Files += part.Files
	r.Bytes += part.Bytes
	r.Damage = append(r.Damage, part.Damage...)
	for _, e := range part.Encodings {
		r.add(e)
	}
}

// file adds a TSM file. A file without a sound frame is an error.
func (r *EncodingsReport) file(fsys vfs.FS, name string) (err error) {
	defer vfs.CatchFault(&err)()
	f, err := tsm.Open(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	r.Files++
	r.Bytes += f.Info().Size
	var c tsm.Chunk
	var columns []tsm.ColumnEncoding
	damage, err := eachSeries(f, func(_ []byte, s *tsm.Series) error {
		for k := range s.Chunks {
			err := f.Chunk(s, k, &c)
			if err == nil {
				columns, err = c.Encodings(columns[:0])
			}
			if err != nil {
				r.Damage = append(r.Damage, problems(name, err)...)
				continue
			}
			for _, e := range columns {
				kind := "time"
				if e.Field >= 0 {
					kind = s.Fields[e.Field].Type.String()
				}
				r.add(Encoding{kind, e.Name, 1, int64(e.Values), int64(e.Bytes)})
			}
		}
		return nil
	})
	r.Damage = append(r.Damage, damage...)
	return err
}

// add counts blocks.
func (r *EncodingsReport) add(e Encoding) {
	if e.Type != "time" {
		r.Values += e.Values
	}
	i := slices.IndexFunc(r.Encodings, func(x Encoding) bool { return x.Type == e.Type && x.Encoding == e.Encoding })
	if i < 0 {
		r.Encodings = append(r.Encodings, e)
		return
	}
	x := &r.Encodings[i]
	x.Blocks += e.Blocks
	x.Values += e.Values
	x.Bytes += e.Bytes
}

func (r *EncodingsReport) damage() []Problem { return r.Damage }

// WriteText writes the report for people.
func (r *EncodingsReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d files, %s, %d values\n\n", r.Path, r.Files, bytesText(r.Bytes), r.Values)
	t := newTable(w, "type", "encoding", "blocks", "values", "bytes", "bytes/value")
	for _, e := range r.Encodings {
		t.row(e.Type, e.Encoding, e.Blocks, e.Values, bytesText(e.Bytes), fmt.Sprintf("%.3f", float64(e.Bytes)/float64(max(e.Values, 1))))
	}
	if err := t.flush(); err != nil {
		return err
	}
	return writeProblems(w, r.Damage)
}
