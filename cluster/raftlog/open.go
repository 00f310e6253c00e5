package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// Open opens the log in dir and reads all of it. A directory without a log is an
// fs.ErrNotExist. If Damage returns anything afterwards, the log cannot be used; no
// segment was changed. The rest of an unfinished write at the end is no damage: nothing in it was
// acknowledged. What the log returns is durable.
func Open(fsys vfs.FS, dir string, opt Options) (_ *Store, err error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.SegmentBytes <= 0 {
		opt.SegmentBytes = defaultSegmentBytes
	}
	opt.SegmentBytes = max(opt.SegmentBytes, 4*sectorBytes) / sectorBytes * sectorBytes
	s := &Store{fs: fsys, dir: dir, opt: opt, logger: opt.Logger}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open raft log %s: %w", dir, errors.Join(err, s.closeFiles(s.segments)))
		}
	}()
	// A process that was killed may have renamed files and not synced their names.
	if err := fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	if err := s.openPairs(); err != nil {
		return nil, err
	}
	if len(s.damage) == 0 {
		if err := s.readSegments(); err != nil {
			return nil, err
		}
	}
	if len(s.damage) > 0 {
		s.broken = fmt.Errorf("%w: %s", ErrDamaged, s.damage[0])
		return s, nil
	}
	if _, err := fsys.Stat(path.Join(dir, spareName)); err == nil {
		if err := fsys.Remove(path.Join(dir, spareName)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// openPairs opens the base and the stable store.
func (s *Store) openPairs() error {
	var payload []byte
	var err error
	if s.basePair, payload, err = openPair(s.fs, path.Join(s.dir, baseName), baseMagic, baseSlot, s.logger); err == nil {
		s.base, err = decodeBase(payload)
	}
	if numbers, _ := findSegments(s.fs, s.dir); len(numbers) > 0 {
		err = missing(err) // a segment is made after it
	}
	if err := s.noteDamage(baseName, err); err != nil {
		return err
	}
	if s.stablePair, payload, err = openPair(s.fs, path.Join(s.dir, stableName), stableMagic, stableSlot, s.logger); err == nil {
		s.stable, err = decodeStable(payload)
	}
	return s.noteDamage(stableName, missing(err)) // the base was made after it
}

// missing makes damage of the error about a file that must be there.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return binio.Corruptf("", 0, "file is missing")
	}
	return err
}

// noteDamage records an error about a file that is damage, and returns any other.
func (s *Store) noteDamage(name string, err error) error {
	d, err := asDamage(path.Join(s.dir, name), err)
	if d != nil {
		s.addDamage(*d)
	}
	return err
}

// asDamage returns an error about a file as damage, or else as an error.
func asDamage(name string, err error) (*Damage, error) {
	var c *binio.CorruptError
	if !errors.As(err, &c) {
		return nil, err
	}
	return &Damage{name, max(c.Offset, 0), c.Reason}, nil
}

// readSegments opens the segments and reads them.
func (s *Store) readSegments() error {
	numbers, err := findSegments(s.fs, s.dir)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		name := segmentPath(s.dir, n)
		var f vfs.File
		if i == len(numbers)-1 {
			f, err = s.fs.OpenReadWrite(name)
		} else {
			f, err = s.fs.Open(name)
		}
		if err != nil {
			return err
		}
		g := &segment{path: name, file: f, end: firstSector}
		s.segments = append(s.segments, g)
		g.segmentHeader, err = readHeader(f, n)
		if err != nil {
			if err := s.noteDamage(path.Base(name), err); err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	if len(s.damage) > 0 {
		return nil
	}
	if n := len(s.segments); n > 0 {
		// The others were synced before the last one was begun.
		if err := s.segments[n-1].file.SyncData(); err != nil {
			return fmt.Errorf("sync %s: %w", s.segments[n-1].path, err)
		}
	}
	w := walk{dir: s.dir, base: &s.base, contents: contents{segments: s.segments}}
	if err := w.run(nil); err != nil {
		return err
	}
	if w.damage != nil {
		s.addDamage(*w.damage)
		return nil
	}
	s.contents, s.sealed = w.contents, w.sealed
	s.kept.Store(w.commit)
	s.Commit(w.commit)
	s.spoiled = w.torn
	if w.torn {
		g := s.segments[len(s.segments)-1]
		s.logger.Warn("unfinished write at the end of the raft log", "path", g.path, "offset", g.end)
	}
	return nil
}

// findSegments returns the numbers of the segment files in dir, in order.
func findSegments(fsys vfs.FS, dir string) ([]uint64, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names {
		if n, ok := parseName(name); ok && name == path.Base(segmentPath("", n)) {
			numbers = append(numbers, n)
		}
	}
	slices.SortFunc(numbers, cmp.Compare[uint64])
	return numbers, nil
}

// readHeader reads the header of a segment and compares it with the file.
func readHeader(f vfs.File, number uint64) (h segmentHeader, err error) {
	size, err := f.Size()
	if err != nil {
		return h, err
	}
	b := make([]byte, min(size, sectorBytes))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return h, err
	}
	if h, err = parseSegmentHeader(b); err != nil {
		return h, err
	}
	switch {
	case h.number != number:
		return h, binio.Corruptf("", 0, "file holds segment %d", h.number)
	case h.size != size:
		return h, binio.Corruptf("", min(size, h.size), "segment has %d bytes instead of %d", size, h.size)
	}
	return h, nil
}

// walk reads the segments of a log in their order, and changes nothing but what it knows
// of them. Their headers have been read.
type walk struct {
	dir  string
	base *baseFile
	contents

	commit       uint64
	sealed, torn bool
	damage       *Damage
}

// run reads the segments. each gets every batch, valid during the call; it may be nil. run
// ends at the first damage.
func (w *walk) run(each func(g *segment, off int64, h batchHeader, entries []raft.Log)) error {
	// Truncations are followed as they were made, with the same code.
	s := contents{segments: w.segments, first: w.base.base.Index + 1, next: w.base.base.Index + 1}
	var r reader
	for i, g := range w.segments {
		why := ""
		switch {
		case g.id != w.base.id:
			why = "segment belongs to another log"
		case i == 0:
			s.first, s.next = g.next, g.next
		case g.number != w.segments[i-1].number+1:
			why = fmt.Sprintf("segment %d before it is missing", g.number-1)
		case g.next != s.next || g.previousEnd != w.segments[i-1].end:
			why = fmt.Sprintf("segment goes on at entry %d, the one before ends before %d", g.next, s.next)
		}
		if why != "" {
			w.damage = &Damage{g.path, 0, why}
			return nil
		}
		r = reader{window: r.window[:0], stream: r.stream, entries: r.entries, positions: r.positions, file: g.file, path: g.path, salt: g.salt(), size: g.size}
		if i+1 < len(w.segments) {
			r.limit = w.segments[i+1].previousEnd
		}
		r.batch = func(off int64, h batchHeader, entries []raft.Log, positions []uint32) string {
			if each != nil {
				each(g, off, h, entries)
			}
			w.sealed = h.kind == kindClosed
			if h.commit < w.commit {
				return fmt.Sprintf("batch has the commit index %d behind one with %d", h.commit, w.commit)
			}
			w.commit = h.commit
			switch {
			case h.kind == kindTruncate && h.index < s.next:
				s.truncate(h.index)
				return ""
			case (h.kind == kindClosed || h.kind == kindCommit) && h.index == s.next-1:
				return ""
			case h.kind != kindEntries || h.index != s.next:
				return fmt.Sprintf("batch of kind %d goes on at entry %d instead of %d", h.kind, h.index, s.next)
			}
			var added []configuration
			for j := range entries {
				if l := &entries[j]; l.Type == raft.LogConfiguration {
					c, err := decodeConfiguration(l.Data)
					if err != nil {
						return fmt.Sprintf("entry %d: %v", l.Index, err)
					}
					added = append(added, configuration{l.Index, c})
				}
			}
			s.add(g, h.index, positions, added)
			return ""
		}
		var err error
		if g.end, w.torn, w.damage, err = r.run(); err != nil || w.damage != nil {
			return err
		}
	}
	w.contents = s
	w.check()
	return nil
}

// check compares what was read with the base.
func (w *walk) check() {
	d := &Damage{Path: path.Join(w.dir, baseName)}
	var newest uint64
	if n := len(w.segments); n > 0 {
		newest = w.segments[n-1].number
		d.Path = w.segments[n-1].path
		d.Offset = w.segments[n-1].end
	}
	switch b := w.base; {
	case newest < b.segment:
		d.Reason = fmt.Sprintf("segment %d is missing, the last of the log", b.segment)
		d.Path, d.Offset = segmentPath(w.dir, b.segment), 0
	case w.next <= b.base.Index:
		d.Reason = fmt.Sprintf("log ends with entry %d, the base is %d", w.next-1, b.base.Index)
	case w.first > b.base.Index+1:
		d.Path, d.Offset = w.segments[0].path, 0
		d.Reason = fmt.Sprintf("entries %d to %d before it are missing", b.base.Index+1, w.first-1)
	default:
		return
	}
	w.damage = d
}
