package inspect

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/overlay"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/series"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// TSMReport is what a TSM file holds.
type TSMReport struct {
	Path         string           `json:"path"`
	Bytes        int64            `json:"bytes"`
	IndexBytes   int64            `json:"index_bytes"`
	Checksum     string           `json:"checksum"`
	Level        int              `json:"level"`
	MinSequence  uint64           `json:"min_sequence"`
	MaxSequence  uint64           `json:"max_sequence"`
	Series       int              `json:"series"`
	Chunks       int64            `json:"chunks"`
	Rows         int64            `json:"rows"`
	Values       int64            `json:"values"`
	MinTime      int64            `json:"min_time"`
	MaxTime      int64            `json:"max_time"`
	MinKey       string           `json:"min_key"`
	MaxKey       string           `json:"max_key"`
	Measurements []TSMMeasurement `json:"measurements"`
	Keys         []TSMSeries      `json:"keys,omitempty"`
	Damage       []Problem        `json:"damage,omitempty"`
}

// TSMMeasurement sums up a measurement's part of TSM files.
type TSMMeasurement struct {
	Name   string `json:"name"`
	Series int    `json:"series"`
	Chunks int    `json:"chunks"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"` // of the chunks, without the index
}

// TSMSeries is one series of a file.
type TSMSeries struct {
	ID     model.SeriesID `json:"id"`
	Key    string         `json:"key"`
	Fields []string       `json:"fields"`
	Chunks int            `json:"chunks"`
	Rows   int64          `json:"rows"`
	Bytes  int64          `json:"bytes"`
	Min    int64          `json:"min_time"`
	Max    int64          `json:"max_time"`
}

// TSM reads a TSM file. With keys, it lists every series. Damage lists series that
// cannot be read. A file without a sound frame is an error.
func TSM(fsys vfs.FS, name string, keys bool) (_ *TSMReport, err error) {
	defer vfs.CatchFault(&err)()
	r, err := openTSM(fsys, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	i := r.Info()
	out := &TSMReport{
		Path: name, Bytes: i.Size, IndexBytes: i.IndexSize, Checksum: fmt.Sprintf("%016x", i.Checksum), Level: i.Level,
		MinSequence: i.MinSequence, MaxSequence: i.MaxSequence, Series: i.Series, Chunks: i.Chunks, Rows: i.Rows, Values: i.Values,
		MinTime: i.Range.Min, MaxTime: i.Range.Max, MinKey: i.MinKey, MaxKey: i.MaxKey,
	}
	out.Damage, err = eachSeries(r, func(key []byte, s *tsm.Series) error {
		x := TSMSeries{ID: s.ID, Chunks: len(s.Chunks), Min: s.TimeRange().Min, Max: s.TimeRange().Max}
		for _, c := range s.Chunks {
			x.Rows += int64(c.Rows)
			x.Bytes += int64(c.Bytes)
		}
		out.Measurements = addMeasurement(out.Measurements, key, &x)
		if keys {
			x.Key = string(key)
			x.Fields = fieldTexts(s.Fields)
			out.Keys = append(out.Keys, x)
		}
		return nil
	})
	return out, err
}

// eachSeries walks the series of a file that can be read. The key and the series
// are valid during the call of fn. An error of fn ends the walk.
func eachSeries(r *tsm.Reader, fn func(key []byte, s *tsm.Series) error) (damage []Problem, err error) {
	var keys tsm.KeyCursor
	var s tsm.Series
	lost := 0
	keys.Reset(r)
	for i := range r.Len() {
		key, err := keys.Key(i)
		if err == nil {
			err = r.Load(i, &s)
		}
		if err != nil {
			if lost++; lost == 1 {
				damage = problems(r.Path(), err)
			}
			keys.Reset(r)
			continue
		}
		if err := fn(key, &s); err != nil {
			return damage, err
		}
	}
	if lost > 1 {
		damage = append(damage, Problem{Path: r.Path(), Offset: -1, Reason: fmt.Sprintf("%d series cannot be read", lost)})
	}
	return damage, nil
}

// addMeasurement counts a series; the keys of a file come sorted, so that most
// belong to the measurement before.
func addMeasurement(list []TSMMeasurement, key []byte, x *TSMSeries) []TSMMeasurement {
	name := model.SeriesMeasurement(string(key))
	i := len(list) - 1
	if i < 0 || list[i].Name != name {
		if i = slices.IndexFunc(list, func(m TSMMeasurement) bool { return m.Name == name }); i < 0 {
			list = append(list, TSMMeasurement{Name: name})
			i = len(list) - 1
		}
	}
	m := &list[i]
	m.Series++
	m.Chunks += x.Chunks
	m.Rows += x.Rows
	m.Bytes += x.Bytes
	return list
}

func (r *TSMReport) damage() []Problem { return r.Damage }

// WriteText writes the report for people.
func (r *TSMReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s (index %s), level %d, sequences %d-%d, checksum %s\n", r.Path, bytesText(r.Bytes), bytesText(r.IndexBytes), r.Level, r.MinSequence, r.MaxSequence, r.Checksum)
	fmt.Fprintf(w, "%d series, %d chunks, %d rows, %d values, %.2f bytes/value\n", r.Series, r.Chunks, r.Rows, r.Values, float64(r.Bytes)/float64(max(r.Values, 1)))
	fmt.Fprintf(w, "%s to %s\n\n", timeText(r.MinTime), timeText(r.MaxTime))
	t := newTable(w, "measurement", "series", "chunks", "rows", "bytes")
	for _, m := range r.Measurements {
		t.row(m.Name, m.Series, m.Chunks, m.Rows, bytesText(m.Bytes))
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, k := range r.Keys {
		if _, err := fmt.Fprintf(w, "%d %s [%s]: %d chunks, %d rows, %s to %s\n", k.ID, k.Key, strings.Join(k.Fields, ", "), k.Chunks, k.Rows, timeText(k.Min), timeText(k.Max)); err != nil {
			return err
		}
	}
	return writeProblems(w, r.Damage)
}

// TSIReport is what a TSI file holds.
type TSIReport struct {
	Path         string           `json:"path"`
	Bytes        int64            `json:"bytes"`
	Series       int              `json:"series"`
	MinID        uint32           `json:"min_id"`
	MaxID        uint32           `json:"max_id"`
	Measurements []TSIMeasurement `json:"measurements"`
	Damage       []Problem        `json:"damage,omitempty"`
}

// TSIMeasurement is a measurement of an index.
type TSIMeasurement struct {
	Name   string   `json:"name"`
	Series uint64   `json:"series"`
	Fields []string `json:"fields"`
	Tags   []TSITag `json:"tags"`
}

// TSITag is a tag key of a measurement.
type TSITag struct {
	Key    string `json:"key"`
	Values int    `json:"values"`
}

// TSI reads a TSI file. Damage lists measurements that cannot be read. A file
// without a sound frame is an error.
func TSI(fsys vfs.FS, name string) (_ *TSIReport, err error) {
	defer vfs.CatchFault(&err)()
	f, err := tsi.OpenFile(fsys, name)
	if err != nil {
		return nil, err
	}
	info := f.Info()
	x, err := tsi.NewIndex(tsi.IndexOptions{Files: []*tsi.File{f}})
	if err != nil {
		_ = f.Release()
		return nil, err
	}
	defer x.Close()
	out := &TSIReport{Path: name, Bytes: info.Bytes, Series: info.Series, MinID: info.MinID, MaxID: info.MaxID}
	v := x.View()
	defer v.Release()
	for _, m := range v.Measurements() {
		tm, err := tsiMeasurement(v, m)
		out.Damage = append(out.Damage, problems(name, err)...)
		if err == nil {
			out.Measurements = append(out.Measurements, tm)
		}
	}
	return out, nil
}

func tsiMeasurement(v *tsi.View, name string) (m TSIMeasurement, err error) {
	set, err := v.Series(name)
	if err != nil {
		return m, err
	}
	m = TSIMeasurement{Name: name, Series: set.GetCardinality(), Fields: fieldTexts(v.Fields(name))}
	keys, err := v.TagKeys(name)
	if err != nil {
		return m, err
	}
	for _, k := range keys {
		n, err := v.TagValueCount(name, k)
		if err != nil {
			return m, err
		}
		m.Tags = append(m.Tags, TSITag{k, n})
	}
	return m, nil
}

func fieldTexts(fields []column.Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Key+" "+f.Type.String())
	}
	return out
}

func (r *TSIReport) damage() []Problem { return r.Damage }

// WriteText writes the report for people.
func (r *TSIReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s, %d series with ids %d-%d\n\n", r.Path, bytesText(r.Bytes), r.Series, r.MinID, r.MaxID)
	t := newTable(w, "measurement", "series", "tag key", "values", "fields")
	for _, m := range r.Measurements {
		tags := m.Tags
		if len(tags) == 0 {
			tags = []TSITag{{}}
		}
		for i, tag := range tags {
			if i == 0 {
				t.row(m.Name, m.Series, tag.Key, tag.Values, strings.Join(m.Fields, ", "))
			} else {
				t.row("", "", tag.Key, tag.Values, "")
			}
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	return writeProblems(w, r.Damage)
}

// SeriesReport is what a series file holds.
type SeriesReport struct {
	Dir      string           `json:"dir"`
	Database uint32           `json:"database"` // id of the database, 0 if the header is damaged
	Lineage  identity.Lineage `json:"lineage"`  // of the data directory
	Series   int              `json:"series"`
	Next     uint32           `json:"next_id"`
	Bytes    int64            `json:"bytes"`
	Damage   []Problem        `json:"damage"`
	Keys     []SeriesEntry    `json:"keys,omitempty"`
}

// SeriesEntry is a series id with its key.
type SeriesEntry struct {
	ID  uint32 `json:"id"`
	Key string `json:"key"`
}

// Series reads the series file in a directory. With keys, every series is
// listed.
func Series(fsys vfs.FS, dir string, keys bool) (*SeriesReport, error) {
	owner, err := series.ReadOwner(fsys, dir)
	if err != nil && !errors.Is(err, binio.ErrCorrupt) {
		return nil, err
	}
	f, err := series.Open(overlay.New(fsys), dir, series.Options{Identity: owner})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := &SeriesReport{Dir: dir, Database: owner.ID, Lineage: owner.Lineage, Series: f.Len(), Next: uint32(f.NextID()), Bytes: f.Bytes()}
	for _, err := range f.Verify(nil) {
		out.Damage = append(out.Damage, problems(dir, err)...)
	}
	if keys {
		for id := model.SeriesID(1); id != 0 && (f.NextID() == 0 || id < f.NextID()); id++ {
			if key, err := f.Key(id); err == nil {
				out.Keys = append(out.Keys, SeriesEntry{uint32(id), strings.Clone(key)})
			}
		}
	}
	return out, nil
}

func (r *SeriesReport) damage() []Problem { return r.Damage }

// WriteText writes the report for people.
func (r *SeriesReport) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: database %d of %s, %d series, next id %d, %s\n", r.Dir, r.Database, r.Lineage, r.Series, r.Next, bytesText(r.Bytes))
	for _, k := range r.Keys {
		if _, err := fmt.Fprintf(w, "%d %s\n", k.ID, k.Key); err != nil {
			return err
		}
	}
	return writeProblems(w, r.Damage)
}
