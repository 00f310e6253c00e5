package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs"
)

// SegmentInfo describes a segment file.
type SegmentInfo struct {
	Path   string
	Number uint64
	// First is the index that the log went on with.
	First uint64
	// Batches and Entries count all that the segment holds, deleted ones included.
	Batches, Entries, Truncations int
	Bytes, Used                   int64
	Closed                        bool // the last batch says that the log was closed
	Torn                          bool // the rest of an unfinished write follows
}

// Report is what a log holds.
type Report struct {
	Base        Base
	First, Next uint64 // the log has the entries from First on that are below Next
	Committed   uint64 // the entries up to it are committed, as the last batch says
	Segments    []SegmentInfo
	Damage      []Damage // at most one: the reader ends there
}

// Inspect reads the log in dir and changes nothing. It calls fn with every batch that
// changed the log, in the order they were written: with entries, or with the last index
// that a truncation has left. The entries are valid during the call. fn may be nil. Inspect may
// not run while a Store has the log open.
func Inspect(fsys vfs.FS, dir string, fn func(s *SegmentInfo, entries []raft.Log, truncated uint64)) (*Report, error) {
	r := &Report{}
	b, err := readBase(fsys, dir)
	if err != nil {
		return r, r.note(path.Join(dir, baseName), err)
	}
	r.Base = b.base
	numbers, err := findSegments(fsys, dir)
	if err != nil {
		return r, err
	}
	w := walk{dir: dir, base: &b}
	defer func() {
		for _, g := range w.segments {
			_ = g.file.Close() // only read
		}
	}()
	infos := map[*segment]*SegmentInfo{}
	r.Segments = make([]SegmentInfo, len(numbers))
	for i, n := range numbers {
		g := &segment{path: segmentPath(dir, n), end: firstSector}
		if g.file, err = fsys.Open(g.path); err != nil {
			return r, err
		}
		w.segments = append(w.segments, g)
		if g.segmentHeader, err = readHeader(g.file, n); err != nil {
			return r, r.note(g.path, err)
		}
		infos[g] = &r.Segments[i]
		r.Segments[i] = SegmentInfo{Path: g.path, Number: n, First: g.next, Bytes: g.size}
	}
	err = w.run(func(g *segment, _ int64, h batchHeader, entries []raft.Log) {
		s := infos[g]
		s.Closed = h.kind == kindClosed
		s.Batches++
		s.Entries += h.count
		if h.kind == kindTruncate {
			s.Truncations++
		}
		if fn != nil && (h.kind == kindEntries || h.kind == kindTruncate) {
			fn(s, entries, h.index)
		}
	})
	for i, g := range w.segments {
		r.Segments[i].Used = g.end
		r.Segments[i].Torn = w.torn && i == len(w.segments)-1
	}
	r.First, r.Next, r.Committed = w.first, w.next, max(w.commit, b.base.Index)
	if w.damage != nil {
		r.Damage = append(r.Damage, *w.damage)
	}
	return r, err
}

// note adds an error that is damage, and returns any other.
func (r *Report) note(name string, err error) error {
	d, err := asDamage(name, err)
	if d != nil {
		r.Damage = append(r.Damage, *d)
	}
	return err
}

// readBase reads the base and changes nothing.
func readBase(fsys vfs.FS, dir string) (b baseFile, err error) {
	name := path.Join(dir, baseName)
	f, err := fsys.Open(name)
	if err != nil {
		return b, err
	}
	defer f.Close()
	_, payload, _, err := readPair(f, name, baseMagic, baseSlot)
	if err != nil {
		return b, err
	}
	return decodeBase(payload)
}

// asideDir is where SetAside moves logs: in the directory that has the directory of the
// log.
const asideDir = "quarantine"

// SetAside moves a log that is not open to the directory quarantine beside it, with a text
// that names its damage. Create may make another one then.
func SetAside(fsys vfs.FS, dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("set raft log %s aside: %w", dir, err)
		}
	}()
	dir = path.Clean(dir)
	aside := path.Join(path.Dir(dir), asideDir)
	if err := fsys.MkdirAll(aside); err != nil {
		return err
	}
	to := ""
	for n := 1; to == ""; n++ {
		name := path.Join(aside, fmt.Sprintf("%s-%d", path.Base(dir), n))
		if _, err := fsys.Stat(name); errors.Is(err, fs.ErrNotExist) {
			to = name
		} else if err != nil {
			return err
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "The server has set this raft log aside: %s\n", dir)
	r, err := Inspect(fsys, dir, nil)
	if err != nil {
		fmt.Fprintf(&text, "It cannot be read: %v\n", err)
	}
	for _, d := range r.Damage {
		fmt.Fprintf(&text, "Damage: %s\n", d)
	}
	if len(r.Damage) == 0 && err == nil {
		fmt.Fprintln(&text, "Its segments and its base are not damaged.")
	}
	if err := vfs.WriteFileAtomic(fsys, aside, to+".reason", []byte(text.String())); err != nil && !vfs.IsFull(err) {
		return err
	}
	if err := fsys.Rename(dir, to); err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir(aside), fsys.SyncDir(path.Dir(dir)))
}
