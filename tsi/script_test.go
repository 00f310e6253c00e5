package tsi

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/script"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestScripts runs the stories of testdata: which series a predicate selects, how
// they are grouped, which values a tag has, and what of it survives flushes, merges,
// deletes and restarts. -rewrite writes the answers.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		s := &story{t: t, fs: newFS(), ids: map[string]model.SeriesID{}, x: newTestIndex(t)}
		return s.run
	})
}

// story is an index and the series keys that were written to it.
type story struct {
	t         *testing.T
	fs        *vfstest.FS
	x         *Index
	ids       map[string]model.SeriesID
	keys      []string // by id-1
	snapshots []*Snapshot
	files     int
}

func (s *story) run(c script.Command) []string {
	v := s.x.View()
	defer v.Release()
	w := v.Charged(nil)
	switch c.Name {
	case "write":
		return s.write(c.Input)
	case "fields":
		return s.fields(c.Args)
	case "delete":
		return s.remove(s.selected(v, c.Args))
	case "freeze":
		s.snapshots = append(s.snapshots, s.x.Freeze())
		return []string{fmt.Sprintf("%d removed", s.snapshots[len(s.snapshots)-1].Removed().GetCardinality())}
	case "publish":
		return s.publish()
	case "flush":
		s.snapshots = append(s.snapshots, s.x.Freeze())
		return s.publish()
	case "merge":
		return s.merge()
	case "restart":
		return s.restart()
	case "index":
		return s.index(v)
	case "select":
		return s.names(s.selected(v, c.Args))
	case "group":
		return s.group(w, c.Args)
	case "values", "first", "last", "count":
		return s.values(w, c)
	}
	s.t.Fatalf("no command %s", c.Name)
	return nil
}

// write adds series by their keys, as the first points of them would.
func (s *story) write(keys []string) []string {
	before := s.x.SeriesCount()
	for _, k := range keys {
		if s.ids[k] == 0 {
			s.keys = append(s.keys, k)
			s.ids[k] = model.SeriesID(len(s.keys))
		}
		s.x.AddSeries(s.ids[k], k)
	}
	return []string{fmt.Sprintf("%d new", s.x.SeriesCount()-before)}
}

// fields registers "measurement key=type ..." or shows a measurement's.
func (s *story) fields(args []string) []string {
	if len(args) > 1 {
		l := &point.Layout{Measurement: args[0]}
		for _, a := range args[1:] {
			key, name, _ := strings.Cut(a, "=")
			for ft := model.Float; ft.Valid(); ft++ {
				if ft.String() == name {
					l.Fields = append(l.Fields, column.Field{Key: key, Type: ft})
				}
			}
		}
		var lines []string
		for _, c := range s.x.RegisterFields(l) {
			lines = append(lines, fmt.Sprintf("%s is %s, not %s", c.Field.Key, c.Have, c.Field.Type))
		}
		return lines
	}
	v := s.x.View()
	defer v.Release()
	var lines []string
	for _, f := range v.Fields(args[0]) {
		lines = append(lines, f.Key+" "+f.Type.String())
	}
	return lines
}

func (s *story) remove(set *roaring.Bitmap) []string {
	emptied, err := s.x.RemoveSeries(set)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := []string{fmt.Sprintf("%d deleted", set.GetCardinality())}
	for _, m := range emptied {
		lines = append(lines, "no series of "+m+" is left")
	}
	return lines
}

func (s *story) open(path string) *File {
	f, err := OpenFile(s.fs, path)
	if err == nil {
		err = f.Verify()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// publish writes the oldest snapshot.
func (s *story) publish() []string {
	snap := s.snapshots[0]
	s.snapshots = s.snapshots[1:]
	if snap.Empty() {
		s.x.Publish(snap, nil)
		return []string{"nothing to write"}
	}
	s.files++
	info, err := snap.WriteFile(s.fs, fmt.Sprint(s.files, ".tsi"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.x.Publish(snap, s.open(info.Path))
	return []string{fmt.Sprintf("%s: %d series of %d measurements", info.Path, info.Series, info.Measurements)}
}

func (s *story) merge() []string {
	old := s.x.Files()
	s.files++
	info, err := MergeFiles(s.fs, fmt.Sprint(s.files, ".tsi"), old, MergeOptions{Deleted: s.x.mu.removed.Clone(), Complete: true})
	if err != nil {
		s.t.Fatal(err)
	}
	merged := s.open(info.Path)
	for _, f := range old {
		f.Obsolete(true)
	}
	s.x.ReplaceFiles(old, merged)
	return []string{fmt.Sprintf("%d files became %s: %d series of %d measurements", len(old), info.Path, info.Series, info.Measurements)}
}

// restart opens the files as a manifest would have them: what is not flushed is
// lost, which a log would bring again.
func (s *story) restart() []string {
	opt := IndexOptions{Removed: s.x.mu.removed}
	for _, f := range s.x.Files() {
		opt.Files = append(opt.Files, s.open(f.Path()))
	}
	s.x.Close()
	var err error
	if s.x, err = NewIndex(opt); err != nil {
		s.t.Fatal(err)
	}
	return []string{fmt.Sprintf("%d series in %d files", s.x.SeriesCount(), len(opt.Files))}
}

// index shows what there is, and what only files know.
func (s *story) index(v *View) []string {
	lines := []string{fmt.Sprintf("%d series, %d named, %d removed", s.x.SeriesCount(), s.x.Named().GetCardinality(), s.x.mu.removed.GetCardinality())}
	for _, m := range v.Measurements() {
		keys, err := v.TagKeys(m)
		if err != nil {
			s.t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s by %s", m, strings.Join(keys, ", ")))
	}
	return lines
}

// selected evaluates "measurement term [and|or term]...", from left to right. A term
// is key=value, key!=value, key=~regex, key!~regex, key@value,value... (one of) or
// key!@value,value...
func (s *story) selected(v *View, args []string) *roaring.Bitmap {
	var e *model.TagExpr
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "and":
			e = &model.TagExpr{Op: model.TagAnd, Left: e, Right: s.term(args[i+1])}
			i++
		case "or":
			e = &model.TagExpr{Op: model.TagOr, Left: e, Right: s.term(args[i+1])}
			i++
		default:
			e = s.term(args[i])
		}
	}
	set, err := v.Select(s.t.Context(), args[0], e)
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *story) term(text string) *model.TagExpr {
	at := strings.IndexAny(text, "=!@")
	key, rest := text[:at], text[at:]
	for _, op := range []struct {
		text string
		op   model.TagOp
	}{{"=~", model.TagMatch}, {"!~", model.TagNotMatch}, {"!=", model.TagNotEqual}, {"!@", model.TagNotIn}, {"=", model.TagEqual}, {"@", model.TagIn}} {
		value, ok := strings.CutPrefix(rest, op.text)
		if !ok {
			continue
		}
		e := &model.TagExpr{Op: op.op, Key: key, Value: value}
		switch op.op {
		case model.TagMatch, model.TagNotMatch:
			e.Regex = regexp.MustCompile(value)
		case model.TagIn, model.TagNotIn:
			e.Values = strings.Split(value, ",")
			slices.Sort(e.Values)
		}
		return e
	}
	s.t.Fatalf("no term: %s", text)
	return nil
}

// names returns the keys of a set.
func (s *story) names(set *roaring.Bitmap) (lines []string) {
	for it := set.Iterator(); it.HasNext(); {
		lines = append(lines, s.keys[it.Next()-1])
	}
	slices.Sort(lines)
	return lines
}

// group groups "measurement key[,key]" [term...].
func (s *story) group(w Charged, args []string) []string {
	set := s.selected(w.View, append([]string{args[0]}, args[2:]...))
	g, err := w.GroupBy(args[0], set, strings.Split(args[1], ","))
	if err != nil {
		s.t.Fatal(err)
	}
	members := make([][]string, len(g.Tuples))
	for it := set.Iterator(); it.HasNext(); {
		id := it.Next()
		n := g.Of(model.SeriesID(id))
		members[n] = append(members[n], s.keys[id-1])
	}
	var lines []string
	for i, tuple := range g.Tuples {
		slices.Sort(members[i])
		lines = append(lines, fmt.Sprintf("%q: %s", tuple, strings.Join(members[i], " ")))
	}
	return lines
}

// values lists the values of "measurement key" [term...]; first and last take a
// number in front, count counts the series of each.
func (s *story) values(w Charged, c script.Command) (lines []string) {
	args, n := c.Args, math.MaxInt
	if c.Name == "first" || c.Name == "last" {
		n, _ = strconv.Atoi(args[0])
		args = args[1:]
	}
	var set *roaring.Bitmap
	if len(args) > 2 {
		set = s.selected(w.View, append([]string{args[0]}, args[2:]...))
	}
	var err error
	switch c.Name {
	case "count":
		counts := map[string]int{}
		err = w.CountByTagValue(args[0], args[1], set, func(value []byte, series int) bool {
			counts[string(value)] = series
			lines = append(lines, fmt.Sprintf("%q %d", value, series))
			return true
		})
		if distinct, derr := w.TagValueCount(args[0], args[1]); set == nil && distinct != len(counts) {
			err = errors.Join(derr, fmt.Errorf("TagValueCount is %d of %q", distinct, slices.Sorted(maps.Keys(counts))))
		}
	case "last":
		lines, err = w.LastTagValues(args[0], args[1], set, n)
	default:
		lines, err = w.FirstTagValues(args[0], args[1], set, n)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return lines
}
